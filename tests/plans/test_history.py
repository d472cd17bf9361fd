"""What leaves reads so much and no more, whatever stays before it."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from headgate.core.machine import Returned
from headgate.core.task import NewTask
from headgate.store.claim.contract import Outcome
from headgate.store.db.postgres import _SET_ONCE
from headgate.store.history.history import FINISHED, OLD
from headgate.store.reading.samples import FINISHED as MEASURED
from headgate.store.store import open_store
from tests.plans.test_depth import MANY
from tests.plans.test_plans import nodes, plan_of
from tests.plans.test_sqlite import plan_of as sqlite_plan_of

LIMIT = 50
MEANT = {"what goes": (FINISHED, "headgate_task_finished"), "what is removed": (OLD, "headgate_task_his_ended")}


def test_a_page_reads_no_more_however_many_children_wait_for_their_parent(deep):
    """Spec: B4, X4"""
    store = deep.store
    deep.know_nothing()
    parent = store.tasks.submit(NewTask("plain")).id
    deep.claim(1)
    child = store.tasks.submit(NewTask("plain", parent_id=parent)).id
    [execution] = deep.claim(1)
    store.executions.settle([Outcome(execution, Returned())])
    deep.remember(child)
    deep.clock.advance(1)
    deep.load(2 * LIMIT)
    move = store.history.move
    deep.cost(lambda: move(seconds=0, limit=LIMIT))
    few = deep.cost(lambda: move(seconds=0, limit=LIMIT))
    deep.load(MANY)
    many = deep.cost(lambda: move(seconds=0, limit=LIMIT))
    assert (many.scans, store.tasks.get(child).parent_id) == (0, parent)
    assert many.entries <= few.entries + 20
    assert many.pages <= 2 * few.pages + 100


@pytest.mark.parametrize("what", MEANT)
def test_what_leaves_is_found_by_its_own_index(postgres, tmp_path, what):
    """Spec: A7, B4"""
    statement, index = MEANT[what]
    with psycopg.connect(postgres, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(_SET_ONCE)
        used = {node["Index Name"] for node in nodes(plan_of(connection, statement)) if "Index Name" in node}
    assert index in used
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        store.migrate()
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        plan = sqlite_plan_of(connection, statement.sqlite)
    assert any(line.startswith("SEARCH") and index in line for line in plan), plan


def test_what_finished_lately_is_found_by_its_time(postgres):
    """Spec: X3, A8"""
    with psycopg.connect(postgres, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(_SET_ONCE)
        used = {node["Index Name"] for node in nodes(plan_of(connection, MEASURED)) if "Index Name" in node}
    assert used == {"headgate_task_finished", "headgate_task_his_finished"}
