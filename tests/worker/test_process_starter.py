"""Processes of handlers are forked from one that has Headgate loaded; nobody notices but by the time it takes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import headgate.worker.process_starter as process_starter
from headgate.app import Headgate
from headgate.pauses import Backoff
from headgate.settings import Settings
from headgate.worker.process_starter import ForkedProcess, ProcessStarter
from tests.worker import forked
from tests.worker.conftest import until, working

FORKED, STARTED_ANEW = "headgate.worker.fork_server", "headgate.worker.child"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Headgate]:
    forked.app.close()
    forked.app._settings = Settings(url=f"sqlite:///{tmp_path}/tasks.db", poll_seconds=0.2)
    forked.app.store.migrate()
    yield forked.app
    forked.app.close()


def told() -> dict[str, Any]:
    task = forked.tell.submit_sync()
    result = task.wait_sync(60).result
    record = task.record_sync()
    assert (record.attempt, record.error_count, record.lost_count) == (1, 0, 0)
    return result


def servers() -> list[psutil.Process]:
    """The fork servers of this process."""
    found = []
    for child in psutil.Process().children():
        try:
            if FORKED in child.cmdline() and os.getsid(child.pid) == child.pid:
                found.append(child)
        except (psutil.Error, OSError):
            continue
    return found


def test_each_task_has_a_process_of_its_own_that_has_loaded_the_program_by_itself(app: Headgate):
    """Spec: A6"""
    with working(app):
        first, second = told(), told()
    for each in (first, second):
        assert (each["module"], each["parent"]) == (FORKED, os.getpid())
        assert each["loaded_by"] == each["session"] == each["pid"]
        assert each["found_headgate"]
    assert first["pid"] != second["pid"]
    assert first["lots"] != second["lots"]


def test_a_fork_server_ends_with_its_worker(app: Headgate):
    with working(app):
        told()
        [server] = servers()
    assert not psutil.pid_exists(server.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_fork_server_that_dies_or_hangs_costs_no_task_anything(
    app: Headgate, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
):
    """Spec: A11"""
    monkeypatch.setattr(process_starter, "RESTARTS", Backoff(0.001, 0.001))
    with working(app):
        told()
        [server] = servers()
        monkeypatch.setattr(process_starter, "ANSWER_SECONDS", 0.2)
        server.send_signal(number)
        assert told()["module"] in (FORKED, STARTED_ANEW)
        until(lambda: not psutil.pid_exists(server.pid))  # and no zombie either
        monkeypatch.setattr(process_starter, "ANSWER_SECONDS", 60.0)
        until(lambda: told()["module"] == FORKED)


def test_a_process_with_threads_is_not_forked(app: Headgate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """What every Python loads, such as a `sitecustomize`, may start one."""
    (tmp_path / "sitecustomize.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with working(app):
        assert [told()["module"] for _ in range(2)] == [STARTED_ANEW] * 2
        assert servers() == []


def test_a_handler_has_the_environment_that_its_worker_has_by_now(app: Headgate, monkeypatch: pytest.MonkeyPatch):
    with working(app):
        monkeypatch.setenv("WORD_OF_THE_DAY", "monday")
        assert told()["word"] == "monday"
        monkeypatch.setenv("WORD_OF_THE_DAY", "tuesday")
        assert told()["word"] == "tuesday"
        assert len(servers()) == 1


def test_a_fork_server_with_nothing_to_do_ends_and_another_one_takes_its_place():
    pids: set[int] = set()

    async def start_and_wait(starter: ProcessStarter) -> None:
        process, connection = await starter.start("x" * 36, __name__)
        assert isinstance(process, ForkedProcess)
        assert starter._server is not None
        pids.add(starter._server._process.pid)  # it may have ended by now
        connection.close()  # it is not needed after all
        assert await process.wait() == 0
        while servers():  # noqa: ASYNC110 it tells nobody when it ends
            await asyncio.sleep(0.01)

    async def work() -> None:
        starter = ProcessStarter(idle_seconds=0.05)
        await start_and_wait(starter)
        await start_and_wait(starter)
        await starter.close()

    asyncio.run(work())
    assert len(pids) == 2


SCRIPT = """
import asyncio
from headgate.worker.process_starter import ProcessStarter, ForkedProcess

async def main():
    starter = ProcessStarter()
    process, connection = await starter.start("x" * 36, "headgate.packs")
    assert isinstance(process, ForkedProcess)
    print(process.pid, starter._server._process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_nothing_is_left_of_a_worker_that_was_killed():
    """Spec: A11"""
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        pids = [int(pid) for pid in worker.stdout.readline().split()]
        assert len(pids) == 2
        worker.kill()
    until(lambda: not any(_lives(pid) for pid in pids))


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
