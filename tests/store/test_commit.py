"""A commit that fails: its caller hears of it, nothing of it stays, and nobody is woken."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import headgate.store.db.sqlite as sqlite
from headgate.core.compensation import CompensationSettings
from headgate.core.errors import StoreFull
from headgate.core.task import NewTask, TaskType
from headgate.settings import Pooler
from headgate.store.store import open_store
from tests.factories import sql, start
from tests.store.ears import Ears

_REFUSE_AT_THE_COMMIT = (
    """
    CREATE FUNCTION refuse_at_the_commit() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN RAISE EXCEPTION ''not now''; END'
    """,
    """
    CREATE CONSTRAINT TRIGGER refuse_at_the_commit AFTER INSERT ON headgate_task
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_at_the_commit()
    """,
)


@pytest.fixture
def refusing(postgres):
    """A database in which no commit of a new task goes through, until it is told otherwise."""
    with open_store(postgres) as store:
        store.types.put(TaskType("plain"))
    sql(postgres, *_REFUSE_AT_THE_COMMIT)
    yield postgres
    sql(postgres, "DROP FUNCTION IF EXISTS refuse_at_the_commit CASCADE")


@pytest.mark.parametrize("fields", [{}, {"mutex": "key"}], ids=["one exchange", "several"])
@pytest.mark.parametrize("pooler", [Pooler.OFF, Pooler.TRANSACTION])
def test_a_submit_whose_commit_fails_is_not_acknowledged_and_tells_nobody(refusing, fields, pooler):
    """Spec: X4, D1. The statement had succeeded; a transaction of one exchange is committed after its answer."""
    with open_store(refusing) as listening, open_store(refusing, pooler=pooler) as store:
        ears, heard = Ears(store), Ears(listening).listening()
        with pytest.raises(psycopg.errors.RaiseException):
            store.tasks.submit(NewTask("plain", **fields))
        assert ears.silent
        assert sql(refusing, "SELECT count(*) FROM headgate_task") == [(0,)]
        sql(refusing, "DROP FUNCTION refuse_at_the_commit CASCADE")
        made = store.tasks.submit(NewTask("plain", **fields))
        assert [task_id for _, task_id in ears.next_wake().values()] == [made.id]
        if pooler is Pooler.OFF:
            assert [task_id for _, task_id in heard.next_wake().values()] == [made.id]


class FullDisk:
    """A connection on which no COMMIT of a new stream goes through, as on a full disk, while `full` says so."""

    def __init__(self, connection, catalog):
        self._connection = connection
        self._catalog = catalog
        self._with_stream = False
        self.full = True
        self.known = []  # which streams the process knew when each commit failed

    def execute(self, text, *parameters):
        if text.startswith("BEGIN"):
            self._with_stream = False
        self._with_stream |= "INSERT INTO headgate_stream" in text
        if text == "COMMIT" and self._with_stream and self.full:
            self.known.append(dict(self._catalog.ids))
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._connection.execute(text, *parameters)

    def __getattr__(self, name):
        return getattr(self._connection, name)


@pytest.fixture
def two_processes(tmp_path, monkeypatch):
    """Two stores on one file, each of which takes along whatever waits, however long a commit gets."""
    monkeypatch.setattr(sqlite, "LONGEST_COMMIT_SECONDS", 60.0)
    url = f"sqlite:///{tmp_path}/s.db"
    with open_store(url) as store, open_store(url) as other:
        store.migrate()
        for code in ("charge", "wipe"):
            store.types.put(TaskType(code))
        yield store, other


def one_behind_the_other(store, *calls):
    """What the calls return, or raise, when all of them wait for the same writer, in this order."""
    results, inbox = [], store.database._group._inbox

    def occupy(db):
        for waiting, call in enumerate(calls, start=1):
            results.append(pool.submit(call))
            while len(inbox) < waiting:
                time.sleep(0.001)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(store.database.write, occupy)
        first.exception()
    return [result.exception() or result.result() for result in (first, *results)]


CHARGE, WIPE = NewTask("charge", '{"a": 1}', tenant_id=1), NewTask("wipe", '{"b": 1}', tenant_id=2)


def test_a_stream_whose_commit_fails_is_never_known_and_its_id_is_the_next_ones(two_processes):
    """Spec: X4, D1. The file gives the stream's id, and the catalog's version, to whoever comes next."""
    store, other = two_processes
    disk = store.database._writer = FullDisk(store.database._writer, store.catalog)
    look = CompensationSettings()
    first, charged, *_ = one_behind_the_other(
        store, lambda: store.tasks.submit(CHARGE), lambda: store.compensation.poll_on(look)
    )
    assert (type(first), type(charged)) == (StoreFull, StoreFull)
    assert disk.known == [{}]
    disk.full = False
    wanted = {
        task.id: (new.type, new.tenant_id, new.ext)
        for task, new in [
            (other.tasks.submit(WIPE), WIPE),
            (store.tasks.submit(CHARGE), CHARGE),
            (store.tasks.submit(WIPE), WIPE),
        ]
    }
    assert {each.id: (each.type, each.tenant_id, each.ext) for each in start(other, 10)} == wanted
