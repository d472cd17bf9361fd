"""Every hot statement goes by an index, from its first column on, whatever the planner believes of the table."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headgate.store.db.postgres import _SET_ONCE
from headgate.store.db.statement import Statement
from tests.plans.conftest import Deep
from tests.plans.statements import hot_statements
from tests.plans.test_depth import PLACES

HOT = hot_statements("postgres")
# As many entries as tasks run, or families wait: these may be read whole.
ONLY_WHAT_RUNS = {"headgate_task_held", "headgate_task_using", "headgate_task_mutex", "headgate_task_waiting"}
MANY = 20_000


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


def plan_of(connection: "psycopg.Connection[Any]", statement: Statement) -> dict[str, Any]:
    """The plan a store would keep: for any parameters, under its settings."""
    connection.execute("DEALLOCATE ALL")
    connection.execute(f"PREPARE planned AS {statement.postgres}")
    values = f"({', '.join(['NULL'] * len(statement.order))})" if statement.order else ""
    row = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE planned{values}").fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return dict(plan[0]["Plan"])


def first_columns(connection: "psycopg.Connection[Any]") -> dict[str, str]:
    found = connection.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid, 1, true) FROM pg_index"
        " WHERE indrelid = 'headgate_task'::regclass"
    )
    return dict(found.fetchall())


def complaints(connection: "psycopg.Connection[Any]") -> list[str]:
    leading, wrong = first_columns(connection), []
    for name, statement in HOT.items():
        for node in nodes(plan_of(connection, statement)):
            if node.get("Relation Name") != "headgate_task" or "Scan" not in node["Node Type"]:
                continue
            index, condition = node.get("Index Name", ""), node.get("Index Cond", "")
            ordered_by_time = index == "headgate_task_timed" and name == "tasks.due.NEXT_DUE"
            if index not in ONLY_WHAT_RUNS and not ordered_by_time and leading.get(index, "?") not in condition:
                wrong.append(f"{name}: {node['Node Type']} {index} {condition or 'without a condition'}")
    return wrong


class Planner:
    """A fresh session, as a store opens it."""

    def __init__(self, deep: Deep) -> None:
        self._url = deep.url

    def complaints(self) -> list[str]:
        with psycopg.connect(self._url, autocommit=True, prepare_threshold=None) as connection:
            connection.execute(_SET_ONCE)
            return complaints(connection)


def test_every_hot_statement_is_looked_at():
    """Spec: X4"""
    names = {name.rpartition(".")[2] for name in HOT}
    assert names >= {
        "TAKE",
        "TAKE_LOCKED",
        "SEND_BACK",
        "FINISH",
        "APPLY",
        "HOLD",
        "DUE",
        "OPEN_CHILD",
        "FIRST_BLOCKED",
    }


def test_an_empty_table_is_read_by_its_indexes(deep):
    """Spec: X4. A plan made now is kept when a million have come."""
    deep.know_nothing()
    assert Planner(deep).complaints() == []


@pytest.mark.parametrize("known", ["nothing", "its size", "its rows", "what was there before", "that it was empty"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_small_table_is_read_by_its_indexes(deep, place, known):
    """Spec: X4. A plan made now is kept when a million have come."""
    deep.know_nothing()
    deep.remember(place(deep))
    if known == "what was there before":
        deep.load(MANY)
        deep.analyze()
        deep.drain(MANY)
    elif known == "that it was empty":
        deep.load(MANY)
        deep.empty()
    deep.load(10)
    if known in ("its size", "what was there before"):
        deep.vacuum()
    elif known == "its rows":
        deep.analyze()
    assert Planner(deep).complaints() == []


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_large_table_is_read_by_its_indexes(deep, place):
    """Spec: X4"""
    deep.know_nothing()
    deep.remember(place(deep))
    deep.load(MANY)
    planner = Planner(deep)
    not_counted = planner.complaints()
    deep.analyze()
    counted = planner.complaints()
    deep.drain(MANY - 10)
    assert (not_counted, counted, planner.complaints()) == ([], [], [])


def test_a_table_of_everything_at_once_is_read_by_its_indexes(deep):
    """Spec: X4"""
    for place in PLACES:
        deep.remember(place(deep))
        deep.load(MANY // 10)
    deep.analyze()
    assert Planner(deep).complaints() == []
