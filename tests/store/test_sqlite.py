"""The SQLite file under strain: threads come and go, others keep the file, and connections cannot be opened."""

import fcntl
import os
import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest

import headgate.store.db.sqlite as sqlite
from headgate.core.errors import Unavailable
from headgate.store.db.file_lock import FileLock
from headgate.store.store import open_store


@pytest.fixture
def path(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        store.migrate()
    return tmp_path / "s.db"


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def kept(path):
    """Another process, as it were, keeps the file."""
    with open(f"{path}.writer", "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_threads_that_have_read_and_ended_leave_no_file_open(path):
    """Spec: X4"""
    with open_store(f"sqlite:///{path}") as store:
        store.lanes.all()
        before = open_files()
        for _ in range(50):
            thread = threading.Thread(target=store.lanes.all)
            thread.start()
            thread.join()
        assert open_files() == before


def test_a_file_that_is_kept_by_another_is_unavailable_after_a_while_and_then_free(path, hurried):
    """Spec: X4"""
    with open_store(f"sqlite:///{path}") as store:
        with kept(path):
            for _ in range(2):
                with pytest.raises(Unavailable, match="another process"):
                    store.lanes.set_capacity("lane", 1)
            assert store.lanes.all()
        store.lanes.set_capacity("lane", 2)


def test_who_gives_up_waiting_does_not_keep_the_file_when_his_turn_comes(path):
    """Spec: X4"""
    with closing(FileLock(f"{path}.writer")) as turn, closing(FileLock(f"{path}.writer")) as other:
        with kept(path), pytest.raises(Unavailable), turn.taken(0.05):
            pass
        with other.taken(30):
            pass
        with turn.taken(30), pytest.raises(Unavailable), other.taken(0.05):
            pass


def test_a_writer_that_cannot_be_opened_again_is_opened_by_a_later_write(path, hurried, monkeypatch):
    """Spec: X4"""
    with open_store(f"sqlite:///{path}") as store, closing(sqlite3.connect(path, isolation_level=None)) as rival:
        rival.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable):
            store.lanes.set_capacity("lane", 1)
        rival.execute("ROLLBACK")
        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", lambda *_, **__: rival.execute("ATTACH '/nowhere/at/all' AS it"))
            for _ in range(2):
                with pytest.raises(Unavailable, match="unable to open"):
                    store.lanes.set_capacity("lane", 1)
        store.lanes.set_capacity("lane", 2)


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_taken_on_into_a_file_that_was_removed(path, replaced):
    """Spec: C12, D2"""
    with open_store(f"sqlite:///{path}") as store:
        store.check_writable()
        for file in path.parent.glob("s.db*"):
            if file.is_file():
                file.unlink()
        if replaced:
            open_store(f"sqlite:///{path}").close()
        with pytest.raises(Unavailable, match="removed or replaced"):
            store.check_writable()
    assert path.exists() is replaced


def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path):
    """Spec: A12"""
    with pytest.raises(Unavailable, match="cannot be opened"):
        open_store(f"sqlite:///{tmp_path}/nowhere/s.db")
