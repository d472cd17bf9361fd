"""A program's store is opened once, at first use, and knows the program's types."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from headgate import Headgate, fixed
from headgate.core.errors import Invalid, Unavailable
from headgate.core.task import TaskType
from headgate.settings import Settings
from headgate.store.store import open_store
from tests.app import elsewhere
from tests.app.connections import bare
from tests.factories import sql, together


def test_types_are_registered_at_first_use_and_as_they_come(app):
    """Spec: B5"""
    app.task(elsewhere.fetch)
    assert set(app.store.types.by_code()) == {"fetch"}
    app.task(lane="numbers", retry=fixed(3, retries=2))(elsewhere.count)
    assert app.store.types.by_code()["count"].retry == fixed(3, retries=2)
    assert "numbers" in {room.name for room in app.store.lanes.all()}


def test_a_program_never_overwrites_what_a_person_edited(app, url):
    """Spec: B5"""
    count = app.task(lane="declared")(elsewhere.count)
    edited = TaskType("count", lane="edited", timeout_seconds=5)
    app.store.types.put(edited, edited=True)
    again = Headgate(settings=Settings(url=url))
    again.task(lane="declared")(elsewhere.count)
    assert again.store.types.by_code()["count"] == edited
    assert count.submit_sync(1).record_sync().lane == "edited"
    again.close()


def test_a_program_updates_what_a_program_registered(app, url):
    """Spec: B5"""
    app.task(lane="old")(elsewhere.count)
    assert app.store.types.by_code()["count"].lane == "old"
    newer = Headgate(settings=Settings(url=url))
    newer.task(lane="new")(elsewhere.count)
    assert newer.store.types.by_code()["count"].lane == "new"
    newer.close()


def test_a_handler_declared_anew_is_registered_anew(app):
    """Spec: B5"""
    app.task(lane="old")(elsewhere.count)
    assert app.store.types.by_code()["count"].lane == "old"
    app.task(lane="new")(elsewhere.count)
    assert app.store.types.by_code()["count"].lane == "new"


def test_a_program_that_starts_again_writes_nothing_it_has_written(app, url):
    """Spec: B5"""
    app.task(elsewhere.count)
    assert app.store.types.by_code()
    before = sql(url, "SELECT version FROM headgate_catalog"), sql(url, "SELECT count(*) FROM headgate_task_event")
    again = Headgate(settings=Settings(url=url))
    again.task(elsewhere.count)
    assert again.store.types.by_code()
    assert (
        sql(url, "SELECT version FROM headgate_catalog"),
        sql(url, "SELECT count(*) FROM headgate_task_event"),
    ) == before
    again.close()


def test_threads_that_come_at_once_share_one_store(app):
    """Spec: X6"""
    count = app.task(elsewhere.count)
    tasks = together(*[lambda page=page: count.submit_sync(page) for page in range(8)])
    assert len({task.id for task in tasks}) == 8
    assert len({id(store) for store in together(*[lambda: app.store] * 8)}) == 1


def test_a_store_that_was_closed_is_opened_anew(app):
    """Spec: X6"""
    count = app.task(elsewhere.count)
    first = count.submit_sync(1)
    app.close()
    app.close()
    second = count.submit_sync(2)
    assert [task.id for task in app.store.tasks.find().items] == [second.id, first.id]


def test_a_store_that_is_lent_is_used_and_not_closed(app, url):
    """Spec: X6"""
    count = app.task(elsewhere.count)
    own = app.store
    with open_store(url) as lent:
        app.bind(lent)
        assert app.store is lent
        assert count.submit_sync(1).created
        app.close()
        assert len(lent.tasks.find().items) == 1
        assert app.store not in (lent, own)


def test_a_file_is_set_up_by_whoever_comes_first(tmp_path):
    """Spec: X6"""
    app = Headgate(f"sqlite:///{tmp_path}/new.db")
    assert app.task(elsewhere.count).submit_sync(1).created
    app.close()


def test_a_server_is_set_up_by_its_owner(postgres_server):
    """Spec: X6"""
    schema = "test_never_migrated"
    with psycopg.connect(bare(postgres_server), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    app = Headgate(f"{postgres_server}?options=-csearch_path%3D{schema}")
    with pytest.raises(Unavailable, match="run `headgate migrate` first"):
        app.task(elsewhere.count).submit_sync(1)
    app.close()


def test_a_url_of_something_else_is_refused():
    """Spec: X6"""
    with pytest.raises(Invalid, match="begin with sqlite:// or postgresql://"):
        _ = Headgate("mysql://localhost/x").store


def test_a_url_goes_before_the_settings():
    """Spec: X6"""
    app = Headgate("sqlite:///b.db", settings=Settings(url="sqlite:///a.db", poll_seconds=9))
    assert (app._settings.url, app._settings.poll_seconds) == ("sqlite:///b.db", 9)


FORKING = """
import os, sys
from headgate import Headgate

app = Headgate(sys.argv[1])

@app.task
def count(page: int) -> int:
    return page

first = count.submit_sync(1)
child = os.fork()
if child == 0:
    second = count.submit_sync(2)
    print(second.id - first.id, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(count.submit_sync(3).id - first.id)
"""


def test_a_process_that_was_forked_opens_a_store_of_its_own(url, tmp_path):
    """Spec: X6"""
    script = Path(tmp_path / "forking.py")
    script.write_text(FORKING)
    result = subprocess.run([sys.executable, script, url], capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    assert result.stdout.split() == ["1", "2"]


def test_on_sqlite_a_store_can_be_opened_while_another_writes(tmp_path):
    """Spec: X1"""
    url = f"sqlite:///{tmp_path}/store.db"
    for opened in range(2):
        app = Headgate(url)
        app.task(elsewhere.count)
        if opened:
            writer = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
            writer.execute("BEGIN IMMEDIATE")
            assert set(app.store.types.by_code()) == {"count"}
            writer.close()
        assert app.store.types.by_code()
        app.close()
