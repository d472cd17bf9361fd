"""The SQLite file under strain: threads come and go, others keep the file, and connections cannot be opened."""

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import AbstractContextManager, closing, contextmanager

import pytest

import headgate.store.db.sqlite as sqlite
from headgate.cli.doctor import run_checks
from headgate.core.errors import StoreFull, Unavailable
from headgate.core.task import NewTask, TaskType
from headgate.store.db import wal
from headgate.store.db.file_lock import FileLock
from headgate.store.store import open_store
from tests.factories import together

CALLERS = 10


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
    """Spec: C12"""
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
    with pytest.raises(Unavailable, match="cannot be opened"):
        open_store(f"sqlite:///{tmp_path}/nowhere/s.db")


def test_everybody_who_waits_for_a_file_that_is_kept_hears_of_it_at_once(path, monkeypatch):
    """Spec: X4. One after the other, the last of them would wait for all the others' time."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 1.0)
    waits, taken = list[float](), FileLock.taken

    def counted(lock: FileLock, seconds: float) -> AbstractContextManager[None]:
        waits.append(seconds)
        return taken(lock, seconds)

    monkeypatch.setattr(FileLock, "taken", counted)
    with open_store(f"sqlite:///{path}") as store, kept(path):
        answers = together(*[lambda: store.lanes.set_capacity("lane", 1)] * CALLERS)
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert len(waits) < CALLERS / 2


FREEZE = "os.kill(os.getpid(), signal.SIGSTOP)"


@pytest.fixture
def frozen(path):
    """The pid of a process that has stopped with the writer's turn in its hands."""
    program = f"import fcntl, os, signal; f = open({f'{path}.writer'!r}); fcntl.flock(f, fcntl.LOCK_EX); {FREEZE}"
    process = subprocess.Popen([sys.executable, "-c", program])
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    yield process.pid
    process.kill()
    process.wait()


def test_a_frozen_process_that_has_the_writers_turn_is_named(path, hurried, frozen):
    """Spec: X4"""
    url = f"sqlite:///{path}"
    with pytest.raises(Unavailable, match=rf"another process \(pid {frozen}, stopped\) has locked the store's file"):
        open_store(url)
    [check] = [check for check in run_checks(url) if check.state == "fail"]
    assert f"pid {frozen}, stopped" in check.found


def test_a_log_that_grows_behind_an_open_reader_is_warned_about_once(path, monkeypatch, caplog):
    """Spec: X4"""
    monkeypatch.setattr(wal, "LONG_BYTES", 1 << 20)
    monkeypatch.setattr(sqlite, "LOOK_AT_WAL_SECONDS", 0.0)
    url = f"sqlite:///{path}"
    with open_store(url) as store, closing(sqlite3.connect(path, isolation_level=None)) as reader:
        store.types.put(TaskType("plain"))
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM headgate_lane").fetchall()
        while wal.wal_bytes(str(path)) <= 2 << 20:
            store.tasks.submit(NewTask("plain", ext=json.dumps({"text": "x" * 50_000})))
        [warning] = [record.getMessage() for record in caplog.records if record.name == "headgate.store"]
        assert "write-ahead log too long" in warning
        assert {check.state for check in run_checks(url) if check.name == "log"} == {"warn"}


def test_a_store_without_room_on_its_disk_is_not_ready_though_a_small_write_goes_through(path, monkeypatch):
    """Spec: X6"""
    with open_store(f"sqlite:///{path}") as store:
        store.check_writable()
        usage = shutil.disk_usage(path.parent)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
        with pytest.raises(StoreFull):
            store.check_writable()
