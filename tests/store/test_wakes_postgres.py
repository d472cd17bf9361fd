"""Wake-ups on PostgreSQL: they survive the server, keep to their installation, and do without behind a pooler."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from headgate.core.errors import Unavailable
from headgate.core.task import NewTask, TaskType
from headgate.settings import Pooler
from headgate.store.store import Store, open_store
from lab.postgres import Postgres
from tests.factories import TYPES, start, submit
from tests.store.ears import Ears


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server that may be stopped and started again."""
    with tempfile.TemporaryDirectory(prefix="headgate-wakes-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with Postgres(Path(folder), durable=True) as started:
            yield started


def submit_stubbornly(store: Store) -> int:
    """Submit, past the connections that went with the server."""
    for _ in range(20):
        try:
            return store.tasks.submit(NewTask("plain")).id
        except Unavailable:
            continue
    raise AssertionError("the server is not back")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_listener_survives_the_restart_of_its_server_and_wakes_everybody_afterwards(server, mode):
    """Spec: T09"""
    with open_store(server.url) as store, open_store(server.url) as other:
        store.migrate()
        store.types.put(TaskType("plain"))
        worker_id = store.workers.register("listening")
        ears = Ears(store).listening()
        ears.wake_for(submit_stubbornly(other))
        server.stop(mode)
        server.start()
        assert ears.next_wake() == {}
        assert ears.next_asked() == {worker_id}
        ears.wake_for(submit_stubbornly(other))


def test_a_listener_that_began_without_a_server_hears_once_there_is_one(server):
    """Spec: T09"""
    with open_store(server.url) as store, open_store(server.url) as other:
        store.migrate()
        store.types.put(TaskType("plain"))
        server.stop()
        ears = Ears(store)
        store.wakeups.listen()
        server.start()
        assert ears.next_wake() == {}
        ears.wake_for(submit_stubbornly(other))


def test_whoever_does_not_listen_believes_a_stream_empty_for_a_second(postgres, clock):
    """Spec: A9. This is what listening is for; if it is ever otherwise, the floor's test proves nothing."""
    with open_store(postgres, clock) as deaf, open_store(postgres, clock) as other:
        for kind in TYPES:
            deaf.types.put(kind)
        submit(deaf)
        start(deaf)
        assert start(deaf) == []
        made = submit(other)
        assert start(deaf) == []
        clock.advance(1)
        assert [execution.id for execution in start(deaf)] == [made.id]


def test_another_installation_in_the_same_database_is_not_heard(postgres, postgres_server):
    """Spec: X4"""
    schema = f"elsewhere_{threading.get_native_id()}"
    elsewhere = f"{postgres_server}?options={quote(f'-csearch_path={schema}')}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        try:
            with open_store(postgres) as store, open_store(elsewhere) as stranger, open_store(elsewhere) as neighbour:
                stranger.migrate()
                for opened in (store, stranger):
                    opened.types.put(TaskType("plain"))
                ears, theirs = Ears(store).listening(), Ears(neighbour).listening()
                theirs.wake_for(stranger.tasks.submit(NewTask("plain")).id)
                made = store.tasks.submit(NewTask("plain"))
                assert [task_id for _, task_id in ears.next_wake().values()] == [made.id]
        finally:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


def test_behind_a_pooler_nobody_listens_and_nobody_notifies(postgres):
    """Spec: T19"""
    with open_store(postgres) as store:
        store.types.put(TaskType("plain"))
        outside = Ears(store).listening()
        threads = threading.active_count()
        with open_store(postgres, pooler=Pooler.TRANSACTION) as pooled:
            ears = Ears(pooled)
            pooled.wakeups.listen()
            own = pooled.tasks.submit(NewTask("plain"))
            ears.wake_for(own.id)
            assert threading.active_count() == threads
        made = store.tasks.submit(NewTask("plain"))
        assert [task_id for _, task_id in outside.next_wake().values()] == [made.id]
