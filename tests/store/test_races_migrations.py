"""The schema, brought up to date by several processes at once."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from urllib.parse import quote

import psycopg
import pytest

from headgate.store.db.migrate import migrations
from headgate.store.store import open_store
from tests.store.races import Stage, only

PROCESSES = 4


def _migrate(url: str) -> list[int]:
    with open_store(url) as store:
        return [step.version for step in store.migrate()]


@pytest.fixture
def fresh(postgres_server):
    """An empty schema of this test's own."""
    name = f"fresh_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{postgres_server}?options={quote(f'-csearch_path={name}')}"
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_processes_that_migrate_at_once_take_each_step_once(database, fresh, tmp_path):
    """Spec: C12"""
    url = fresh if database == "postgres" else f"sqlite:///{tmp_path}/fresh.db"
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as processes:
        taken = [version for steps in processes.map(_migrate, [url] * 2 * PROCESSES) for version in steps]
    assert sorted(taken) == [step.version for step in migrations(database)]
    with open_store(url) as store:
        assert store.migration_plan() == []


def test_those_who_come_while_one_migrates_wait_and_find_it_done(fresh, clock):
    """Spec: C12"""
    with open_store(fresh) as first:
        first.migrate()
    with Stage(fresh, clock) as stage:
        rival = stage.rival()
        rival.run("LOCK TABLE headgate_migration IN ACCESS EXCLUSIVE MODE")
        calls = [stage.beside(stage.store().migrate) for _ in range(3)]
        stage.await_waiters(*calls)
        rival.commit()
        assert [only(call) for call in calls] == [[], [], []]


def test_two_who_make_room_for_the_coming_days_at_once_make_it_once(fresh, clock):
    with open_store(fresh) as first:
        first.migrate()
    with Stage(fresh, clock) as stage:
        clock.advance(10 * 24 * 3600)
        rival = stage.rival()
        rival.run("LOCK TABLE headgate_task_event IN SHARE UPDATE EXCLUSIVE MODE")
        calls = [stage.beside(stage.store().events.make_partitions) for _ in range(2)]
        stage.await_waiters(*calls)
        rival.commit()
        made = [day for call in calls for day in only(call)]
        assert len(set(made)) == 3
        assert stage.store().events.make_partitions() == []
