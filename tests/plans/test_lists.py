"""Whatever a list asks for, a page reads a bounded number of rows, however many there are and whoever planned it.

Live and in history there are many tasks of a few kinds, and behind all of them one of each other kind.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.db.statement import Statement
from headgate.store.reading.lists import MOST_READ, Filter
from headgate.store.store import Store, open_store
from lab.crowd import multiply
from tests.factories import START, TYPES, Clock, put

MANY = 20_000
PAGES = 3
# Each row that is looked at is met once to see how far a page goes, and once to see whether it is asked for.
ENTRIES = 2 * MOST_READ + 500
STEPS = 60 * MOST_READ

FILTERS: dict[str, list[dict[str, Any]]] = {
    "tenant_id": [{"tenant_id": 1}, {"tenant_id": 9}, {"tenant_id": 99}],
    "status": [{"status": (state,)} for state in State],
    "errored": [{"errored": True}],
    "fresh": [{"status": (State.FAILED, State.QUEUED), "fresh": (State.FAILED,)}],
    "failed": [{"status": (State.FAILED, State.QUEUED), "failed": (State.QUEUED,)}],
    "type": [{"type": "plain"}, {"type": "rare"}, {"type": "none"}],
    "lane": [{"lane": "l1"}, {"lane": "rare"}],
    "category": [{"category": "c1"}, {"category": "rare"}],
    "creator": [{"creator": 3}, {"creator": 9}, {"creator": 0, "tenant_id": 9}],
    "mutex": [{"mutex": "m1"}, {"mutex": "rare"}, {"mutex": "none"}],
    "parent_id": [{"parent_id": 1}, {"parent_id": 10**9}],
    "agent_id": [{"agent_id": "rare"}],
    "correlation_id": [{"correlation_id": "k1"}, {"correlation_id": "rare"}, {"correlation_id": "none"}],
    "created_after": [{"created_after": START + timedelta(seconds=500)}, {"created_after": START + timedelta(days=9)}],
    "created_before": [{"created_before": START + timedelta(seconds=500)}, {"created_before": START}],
    "q": [{"q": "rare"}, {"q": "none of them"}],
}
TOGETHER: list[dict[str, Any]] = [
    {"tenant_id": 1, "status": (State.FAILED, State.RUNNING), "type": "plain"},
    {"creator": 3, "q": "none of them"},
    {"correlation_id": "k1", "status": (State.DEAD,), "tenant_id": 2},
    {"lane": "l1", "created_before": START + timedelta(seconds=300), "errored": True},
    {"mutex": "m1", "agent_id": "rare"},
]
COMBINATIONS = 40


def combined(dice: random.Random) -> dict[str, Any]:
    """A few filters at once."""
    names = dice.sample(sorted(FILTERS), dice.randint(2, 4))
    return {name: value for field in names for name, value in dice.choice(FILTERS[field]).items()}


def test_every_thing_that_a_list_can_ask_for_is_looked_at():
    """Spec: X4"""
    assert FILTERS.keys() == {field.name for field in fields(Filter)}


def filled(store: Store) -> int:
    """One of every rare kind, and behind them the kinds that there are many of; the last id before those."""
    for task_type in (*TYPES, TaskType("rare")):
        store.types.put(task_type)
    parent = store.tasks.submit(NewTask("plain", delay_seconds=10**6)).id
    assert parent == 1
    for rare in (
        {"parent_id": parent}, {"tenant_id": 9}, {"type": "rare"}, {"lane": "rare"}, {"category": "rare"},
        {"creator": 9}, {"mutex": "rare"}, {"agent_id": "rare"}, {"correlation_id": "rare"}, {"name": "rare"},
    ):  # fmt: skip
        store.tasks.submit(NewTask("plain", delay_seconds=10**6)._replace(**rare))
    for state in State:
        if state is not State.QUEUED:
            put(store, state)
    last = store.tasks.find(limit=1).items[0].id
    for number in range(20):
        new = NewTask(
            "plain", tenant_id=number % 3, creator=number % 4, lane=f"l{number % 2}", category=f"c{number % 2}",
            correlation_id=f"k{number % 2}", mutex="m1" if number % 4 == 0 else None,
        )  # fmt: skip
        store.tasks.cancel(store.tasks.submit(new).id)
        if number % 2:
            store.tasks.submit(new._replace(delay_seconds=None if number % 4 == 1 else 10**6))
    while store.history.archive():
        pass
    return last


def costs(store: Store, spent: Callable[[], int]) -> dict[str, int]:
    """What each page of each list cost."""
    found = {}
    dice = random.Random(7)
    every: list[dict[str, Any]] = [{}, *(each for several in FILTERS.values() for each in several), *TOGETHER]
    every += [combined(dice) for _ in range(COMBINATIONS)]
    for filters in every:
        wanted, cursor = replace(Filter(), **filters), None
        for number in range(PAGES):
            before = spent()
            page = store.tasks.find(wanted, cursor=cursor)
            found[f"page {number} of {filters}"] = spent() - before
            if (cursor := page.next_cursor) is None:
                break
    return found


def above(limit: int, found: dict[str, int]) -> dict[str, int]:
    return {name: cost for name, cost in found.items() if cost > limit}


# PostgreSQL

_FLUSH = Statement(postgres="SELECT pg_stat_force_next_flush()")
_READ = """
SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes
         WHERE relid IN ('headgate_task'::regclass, 'headgate_task_his'::regclass))
     + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables
         WHERE relid IN ('headgate_task'::regclass, 'headgate_task_his'::regclass))
"""


@pytest.fixture
def connection(postgres: str) -> Iterator["psycopg.Connection[Any]"]:
    """For the meter, while nobody else reads."""
    with psycopg.connect(postgres, autocommit=True) as connected:
        for table in ("headgate_task", "headgate_task_his"):  # it reads, too, and when it likes
            connected.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        yield connected
        for table in ("headgate_task", "headgate_task_his"):
            connected.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)")


def test_a_page_reads_a_bounded_number_of_rows_on_postgres(postgres, connection):
    """Spec: X4. Whenever it was planned, and whatever the planner was told by then."""
    forget = "DELETE FROM pg_statistic WHERE starelid IN ('headgate_task'::regclass, 'headgate_task_his'::regclass)"

    def check(planned: str) -> None:
        def spent() -> int:
            store.database.read(lambda db: db.rows(_FLUSH))
            [[count]] = connection.execute(_READ).fetchall()
            return int(count)

        assert above(ENTRIES, costs(store, spent)) == {}, planned

    with open_store(postgres, Clock()) as store:
        last = filled(store)
        connection.execute(forget)
        check("few")
        multiply(postgres, MANY, after=last, analyze=False)
        check("planned for few")
    with open_store(postgres, Clock()) as store:
        check("planned for many that nobody has counted")
        connection.execute("VACUUM (ANALYZE) headgate_task, headgate_task_his")
        check("planned for many")


# SQLite


@pytest.mark.parametrize("analyzed", [False, True], ids=["not counted", "counted"])
def test_a_page_takes_a_bounded_number_of_steps_on_sqlite(tmp_path, analyzed):
    """Spec: X4"""
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url, Clock()) as store:
        store.migrate()
        last = filled(store)
        if analyzed:
            store.database.write(lambda db: db.send(Statement("ANALYZE")))
        multiply(url, MANY, after=last)
        store.tasks.find()
        reader: Any = store.database._idle[0]  # type: ignore[attr-defined]
        steps = 0

        def tick() -> None:
            nonlocal steps
            steps += 100

        reader.set_progress_handler(tick, 100)
        assert above(STEPS, costs(store, lambda: steps)) == {}
