"""Looking for what is due, and for what goes on, reads by an index, however many schedules there are."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

import headgate.store.schedules.rows as schedule_rows
import headgate.store.schedules.tick_runs as tick_runs
import headgate.store.schedules.ticks as ticks
from headgate.store.db.postgres import _SET_ONCE
from headgate.store.db.statement import Statement
from headgate.store.store import open_store
from tests.factories import TYPES
from tests.plans.test_plans import nodes
from tests.plans.test_plans import plan_of as plan_of_postgres
from tests.plans.test_sqlite import plan_of as plan_of_sqlite
from tests.plans.test_sqlite import steps_of
from tests.schedules import online, tick

MANY = 20_000
# The index each statement is to go by, and the column it is to be asked for.
MEANT: dict[str, tuple[Statement, str, str]] = {
    "due": (schedule_rows.DUE, "headgate_periodic_task_due", "next_tick"),
    "next due": (schedule_rows.NEXT_DUE, "headgate_periodic_task_due", "next_tick"),
    "hold": (ticks.HOLD, "headgate_periodic_task_pkey", "id"),
    "busy": (ticks.BUSY, "headgate_periodic_run_of", "periodic_task_id"),
    "what goes on": (tick_runs.TASK_RUNS, "headgate_periodic_run_pkey", "id"),
    "the end": (tick_runs.END, "headgate_periodic_run_pkey", "id"),
    "a line of a tick": (ticks.REMOVE_UNFIRED, "headgate_periodic_task_log_tick", "tick"),
    "log": (schedule_rows.LOGS, "headgate_periodic_task_log_of", "periodic_task_id"),
    "list of a tenant": (schedule_rows.LIST_OF_TENANT, "headgate_periodic_task_tenant", "tenant_id"),
    "tenants whose calls wait": (tick_runs.WAITING_TENANTS, "headgate_periodic_run_waiting", "tenant_id"),
    "hosts of a tenant's calls": (tick_runs.WAITING_HOSTS, "headgate_periodic_run_waiting", "tenant_id"),
    "calls of a tenant to a host": (tick_runs.TAKE, "headgate_periodic_run_waiting", "host"),
    "calls under way": (tick_runs.UNDER_WAY, "headgate_periodic_run_call", ""),
}
_FILL = (
    "INSERT INTO headgate_periodic_task (tenant_id, type, creator, cron_expressions, timezone, status, log, ext,"
    " missed,"
    " overlap, options, next_tick, create_date, update_date) SELECT n, 'plain', 0, '* * * * *', 'UTC', 'online',"
    " 'none', '{{}}', 'skip', 'allow', '{{}}', {later}, {later}, {later} FROM {numbers}",
    "INSERT INTO headgate_periodic_run (periodic_task_id, tick, task_id) SELECT n, {later}, n FROM {numbers}",
    "INSERT INTO headgate_periodic_run (periodic_task_id, tick, tenant_id, host)"
    " SELECT n, {later}, n % 10, 'host' || n % 100 FROM {numbers}",
    "INSERT INTO headgate_periodic_task_log (periodic_task_id, tenant_id, result, tick, create_date, update_date)"
    " SELECT n % 100, 0, 'success', {later}, {later}, {later} FROM {numbers}",
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
        for text in _FILL:
            connection.execute(text.format(later="4000000000000000 + n", numbers=numbers))


@pytest.mark.parametrize("analyzed", [False, True], ids=["not counted", "counted"])
@pytest.mark.parametrize("count", [0, 10, MANY])
def test_on_postgres_schedules_are_read_by_their_indexes(postgres, count, analyzed):
    """Spec: B9, X4"""
    numbers = f"generate_series(1, {count}) AS numbers(n)"
    wrong = []
    with psycopg.connect(postgres, autocommit=True, prepare_threshold=None) as connection:
        for text in _FILL:
            connection.execute(text.format(later="now() + n * interval '1 hour'", numbers=numbers))
        if analyzed:
            connection.execute("ANALYZE")
        connection.execute(_SET_ONCE)
        for name, (statement, index, column) in MEANT.items():
            found = [node for node in nodes(plan_of_postgres(connection, statement)) if "Scan" in node["Node Type"]]
            wrong += [f"{name}: {node}" for node in found if node["Node Type"] == "Seq Scan"]
            conditions = [node.get("Index Cond", "") for node in found if node.get("Index Name") == index]
            if not any(column in condition for condition in conditions):
                wrong.append(f"{name} does not go by {column} of {index}: {found}")
    assert wrong == []


@pytest.mark.parametrize("analyzed", [False, True], ids=["not counted", "counted"])
@pytest.mark.parametrize("name", MEANT)
def test_on_sqlite_schedules_are_read_by_their_indexes(tmp_path, store_on_file, name, analyzed):
    """Spec: B9, X4"""
    fill(tmp_path, 500)
    statement, index, _ = MEANT[name]
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        if analyzed:
            connection.execute("ANALYZE")
        plan = "\n".join(plan_of_sqlite(connection, statement.sqlite))
    key = index.endswith("_pkey")
    assert ("INTEGER PRIMARY KEY" if key else f"INDEX {index}") in plan, plan
    assert key or "SCAN headgate_periodic_task\n" not in f"{plan}\n"


def test_on_sqlite_a_tick_takes_no_more_steps_among_many_schedules_than_among_few(tmp_path, store_on_file, clock):
    """Spec: B9, X4"""
    online(store_on_file, log="none")
    tick(store_on_file, clock)
    few = steps_of(store_on_file, lambda: tick(store_on_file, clock))
    fill(tmp_path, MANY)
    assert steps_of(store_on_file, lambda: tick(store_on_file, clock)) <= 2 * few + 1000
