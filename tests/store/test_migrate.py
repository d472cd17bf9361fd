"""The schema: brought up to date once, by whoever comes first, whole or not at all."""

import os
import signal
import subprocess
import sys
import threading
from urllib.parse import quote

import psycopg
import pytest

from headgate.core.errors import Unavailable
from headgate.core.task import NewTask, TaskType
from headgate.store.db.migrate import migrate
from headgate.store.db.statement import Statement
from headgate.store.store import open_store
from tests.factories import sql, together

DATABASES = ("sqlite", "postgres")
MIGRATE = [sys.executable, "-c", "from headgate.cli.main import main; main()", "migrate"]


@pytest.fixture
def empty_postgres(postgres_server):
    """A schema with nothing in it, gone afterwards."""
    schema = f"fresh_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{postgres_server}?options={quote(f'-csearch_path={schema}')}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=DATABASES)
def empty(request, tmp_path):
    """Where a database is that Headgate has never seen, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/fresh.db"
    return request.getfixturevalue("empty_postgres")


def tables(url):
    if url.startswith("sqlite"):
        rows = sql(url, "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    else:
        rows = sql(url, "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace")
    return {name for (name,) in rows}


def works(url):
    with open_store(url) as store:
        store.types.put(TaskType("any"))
        return store.tasks.submit(NewTask("any")).created


def test_the_plan_shows_the_steps_and_takes_none(empty):
    """Spec: C12"""
    with open_store(empty) as store:
        steps = store.migration_plan()
        assert steps
        assert [step.version for step in steps] == sorted({step.version for step in steps})
        assert tables(empty) == set()
        assert store.migrate() == steps
        assert store.migration_plan() == []


def test_migrating_twice_takes_no_step_twice_and_loses_nothing(empty):
    """Spec: C12"""
    with open_store(empty) as store:
        store.migrate()
        store.types.put(TaskType("any"))
        task_id = store.tasks.submit(NewTask("any")).id
        before = tables(empty)
        assert store.migrate() == []
        assert store.tasks.get(task_id).type == "any"
    assert tables(empty) == before


def test_the_steps_may_take_longer_than_any_other_statement(empty_postgres):
    """Spec: X13"""
    limit = Statement("SELECT current_setting('statement_timeout')")
    with open_store(empty_postgres) as store:
        taken, [[meanwhile]] = store.database.write(lambda db: (migrate(db), db.rows(limit)))
        [[afterwards]] = store.database.read(lambda db: db.rows(limit))
        assert (bool(taken), meanwhile, afterwards) == (True, "0", "1min")


def test_of_many_threads_that_migrate_at_once_one_takes_the_steps(empty):
    """Spec: C12"""
    stores = [open_store(empty) for _ in range(6)]
    taken = together(*[store.migrate for store in stores])
    for store in stores:
        store.close()
    assert [error for error in taken if not isinstance(error, list)] == []
    assert [bool(steps) for steps in taken].count(True) == 1
    assert works(empty)


def test_of_many_processes_that_migrate_at_once_one_takes_the_steps(empty):
    """Spec: C12"""
    command = [*MIGRATE, "--url", empty]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(text.splitlines()[0].split()[0] for text in said) == ["applied", "up", "up", "up"]
    assert works(empty)


def test_the_plan_of_the_command_line_does_nothing(empty):
    """Spec: C12"""
    command = [*MIGRATE, "--plan", "--url", empty]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert said.startswith("would apply 0010_baseline.sql")
    assert tables(empty) == set()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("UPDATE headgate_migration SET checksum = 'another' WHERE version = 10", "not the one"),
        ("UPDATE headgate_migration SET version = 9999, name = '9999_future.sql' WHERE version = 10", "newer"),
    ],
)
def test_a_schema_this_program_does_not_know_is_refused_and_left_alone(empty, edit, said):
    """Spec: C12"""
    with open_store(empty) as store:
        store.migrate()
        sql(empty, edit)
        before = sql(empty, "SELECT version, name, checksum FROM headgate_migration"), tables(empty)
        for ask in (store.migrate, store.migration_plan):
            with pytest.raises(Unavailable, match=said):
                ask()
    assert (sql(empty, "SELECT version, name, checksum FROM headgate_migration"), tables(empty)) == before


KILLED = """
import os, signal, sqlite3, sys
from headgate.store.store import open_store

real = sqlite3.connect

def connect(*args, **options):
    connection = real(*args, **options)
    connection.set_trace_callback(lambda text: "TABLE headgate_worker" in text and os.kill(os.getpid(), signal.SIGKILL))
    return connection

sqlite3.connect = connect
open_store(sys.argv[1]).migrate()
"""


def test_a_migration_killed_half_way_on_sqlite_leaves_nothing(tmp_path):
    """Spec: C12"""
    url = f"sqlite:///{tmp_path}/killed.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, url], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert tables(url) == set()
    with open_store(url) as store:
        assert store.migrate()
    assert works(url)


def test_a_migration_killed_half_way_on_postgres_leaves_nothing(empty_postgres):
    """Spec: C12"""
    with psycopg.connect(empty_postgres) as blocker, psycopg.connect(empty_postgres, autocommit=True) as killer:
        blocker.execute("CREATE TABLE headgate_worker (id int)")  # uncommitted: whoever makes it too must wait
        with open_store(empty_postgres) as store:
            failed = threading.Event()

            def migrate():
                try:
                    store.migrate()
                except Unavailable:
                    failed.set()

            thread = threading.Thread(target=migrate)
            thread.start()
            waiting = "SELECT pid FROM pg_locks WHERE NOT granted AND %s = ANY(pg_blocking_pids(pid))"
            while not (found := killer.execute(waiting, [blocker.info.backend_pid]).fetchall()):
                assert thread.is_alive()
            killer.execute("SELECT pg_terminate_backend(%s)", found[0])
            thread.join(timeout=60)
            assert failed.is_set()
            blocker.rollback()
            assert tables(empty_postgres) == set()
            assert store.migrate()
    assert works(empty_postgres)


def test_a_day_of_the_audit_is_made_once_and_ahead(empty_postgres):
    with open_store(empty_postgres) as store:
        store.migrate()
        days = {name for name in tables(empty_postgres) if name.startswith("headgate_task_event_2")}
        assert store.events.make_partitions() == []
    assert len([day for day in days if len(day) == len("headgate_task_event_20260101")]) == 3
