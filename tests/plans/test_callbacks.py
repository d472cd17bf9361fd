"""Callbacks are looked for by an index, however many were delivered before; a sender's turn costs the same."""

import sqlite3
from contextlib import closing
from functools import partial

import psycopg
import pytest

import headgate.store.callbacks.deliveries as deliveries
import headgate.store.callbacks.outbox as outbox
import headgate.store.callbacks.report as reports
from headgate.core.callbacks import CallbackKind, Delivery
from headgate.store.db.postgres import _SET_ONCE
from headgate.store.db.statement import Statement
from headgate.store.store import open_store
from tests.factories import TYPES
from tests.plans.test_plans import nodes
from tests.plans.test_plans import plan_of as plan_of_postgres
from tests.plans.test_sqlite import plan_of as plan_of_sqlite
from tests.plans.test_sqlite import steps_of

MANY = 20_000
# The index each statement is to go by, and the column it is to be asked for.
MEANT: dict[str, tuple[Statement, str, str]] = {
    "lines": (deliveries.LINES, "headgate_callback_delivery_due", "type"),
    "turns": (deliveries.TURNS, "headgate_callback_delivery_turn", "tenant_id"),
    "lease": (deliveries.LEASE, "headgate_callback_delivery_turn", "tenant_id"),
    "record": (deliveries.RECORD, "headgate_callback_delivery_pkey", "id"),
    "call off": (outbox.CALL_OFF, "headgate_callback_delivery_task", "task_id"),
    "of a task": (reports.OF_TASK, "headgate_callback_delivery_task", "task_id"),
    "attempts of a task": (reports.TRIES, "headgate_callback_attempt_task", "task_id"),
    "count": (reports.COUNT, "headgate_callback_delivery_status", "status"),
    "list of a status": (reports._list(("status",)), "headgate_callback_delivery_status", "status"),
    "list of a tenant": (reports._list(("tenant_id",)), "headgate_callback_delivery_pkey", "id"),
    "floor": (reports.FLOOR_OF_STATUS, "headgate_callback_delivery_status", "status"),
    "attempts after": (reports.ATTEMPTS, "headgate_callback_attempt_pkey", "id"),
}
# In a table of a few rows PostgreSQL may ask for the id in each of the four states: that is as good.
ALSO = {"record": "headgate_callback_delivery_status"}
_DELIVERED = (
    "INSERT INTO headgate_callback_delivery (webhook_id, task_id, tenant_id, type, kind, seq, status, due_at,"
    " created_at,"
    " update_date) SELECT 'msg_' || n, n, 0, 'called-back', 'success', 4, CASE WHEN n % 50 = 0 THEN 'pending' ELSE"
    " 'delivered' END, {later}, {later}, {later} FROM {numbers}",
    "INSERT INTO headgate_callback_attempt (delivery_id, lease, task_id, at, host, status, seconds, error, body)"
    " SELECT n, 'x', n, {later}, 'example.org', 204, 0.1, '', '' FROM {numbers}",
)


@pytest.fixture
def store_on_file(tmp_path, clock):
    with open_store(f"sqlite:///{tmp_path}/store.db", clock) as opened:
        opened.migrate()
        for task_type in TYPES:
            opened.types.put(task_type)
        yield opened


def fill(tmp_path, count):
    numbers = f"(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT n FROM s)"
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        for text in _DELIVERED:
            connection.execute(text.format(later="4000000000000000 + n", numbers=numbers))


@pytest.mark.parametrize("analyzed", [False, True], ids=["not counted", "counted"])
@pytest.mark.parametrize("count", [0, 10, MANY])
def test_on_postgres_callbacks_are_read_by_their_indexes(postgres, count, analyzed):
    """Spec: B6, X4"""
    numbers = f"generate_series(1, {count}) AS numbers(n)"
    wrong = []
    with psycopg.connect(postgres, autocommit=True, prepare_threshold=None) as connection:
        for text in _DELIVERED:
            connection.execute(text.format(later="now() + n * interval '1 hour'", numbers=numbers))
        if analyzed:
            connection.execute("ANALYZE")
        connection.execute(_SET_ONCE)
        for name, (statement, index, column) in MEANT.items():
            found = [node for node in nodes(plan_of_postgres(connection, statement)) if "Scan" in node["Node Type"]]
            wrong += [f"{name}: {node}" for node in found if node["Node Type"] == "Seq Scan"]
            good = {index, ALSO.get(name)}
            conditions = [node.get("Index Cond", "") for node in found if node.get("Index Name") in good]
            # Once PostgreSQL has counted that a table is empty, any of its indexes costs the same.
            if not (count == 0 and analyzed) and not any(column in condition for condition in conditions):
                wrong.append(f"{name} does not go by {column} of {index}: {found}")
    assert wrong == []


@pytest.mark.parametrize("analyzed", [False, True], ids=["not counted", "counted"])
@pytest.mark.parametrize("name", MEANT)
def test_on_sqlite_callbacks_are_read_by_their_indexes(tmp_path, store_on_file, name, analyzed):
    """Spec: B6, X4"""
    fill(tmp_path, 500)
    statement, index, _ = MEANT[name]
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        if analyzed:
            connection.execute("ANALYZE")
        plan = "\n".join(plan_of_sqlite(connection, statement.sqlite))
    key = index.endswith("_pkey")
    assert ("INTEGER PRIMARY KEY" if key else f"INDEX {index}") in plan, plan


def test_on_sqlite_a_look_and_a_lease_take_no_more_steps_among_many_than_among_few(tmp_path, store_on_file):
    """Spec: B6, X4"""

    def look():
        store_on_file.deliveries.lines()
        store_on_file.deliveries.record_and_lease([], [("called-back", CallbackKind.SUCCESS, 10)], 60.0)

    look()
    few = steps_of(store_on_file, look)
    fill(tmp_path, MANY)
    assert steps_of(store_on_file, look) <= 2 * few + 1000


@pytest.mark.parametrize("status", [None, *Delivery])
@pytest.mark.parametrize(
    "filters", [{}, {"tenant_id": 9}, {"kind": CallbackKind.ERROR}, {"type": "none"}, {"host": "none.example"}]
)
def test_on_sqlite_a_page_reads_a_bounded_number_of_callbacks(tmp_path, store_on_file, status, filters):
    """Spec: B6, X4"""
    fill(tmp_path, MANY)
    wanted = reports.DeliveryFilter(status=status, **filters)
    second = store_on_file.deliveries.find(wanted).next_cursor
    for cursor in {None, second, MANY // 2}:
        steps = steps_of(store_on_file, partial(store_on_file.deliveries.find, wanted, cursor=cursor))
        assert steps <= 30 * reports.MOST_READ, cursor
