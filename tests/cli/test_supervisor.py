"""The supervisor passes each signal on once (a second one means "at once"), and waits for no worker for ever."""

import asyncio
import signal
import sys

import pytest

import headgate.cli.supervisor as supervisor
from headgate.cli.plan import ProcessPlan
from headgate.cli.supervisor import Supervisor
from tests.cli.test_running import wait_until

# Says how many signals it heard, some time after the first.
COUNTING = """
import signal, sys, time
heard = []
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: heard.append(1))
open(sys.argv[1], 'w').close()
while not heard:
    time.sleep(0.01)
time.sleep(0.3)
sys.exit(10 + len(heard))
"""


@pytest.fixture(autouse=True)
def lonely(monkeypatch):
    """A supervisor has no children but its workers; the process of these tests has, a database server among them."""
    monkeypatch.setattr(supervisor, "kill_orphans", lambda *_: None)


def test_a_process_that_starts_while_stopping_costs_the_others_no_second_signal(tmp_path, monkeypatch):
    """Spec: D9"""
    ready = tmp_path / "ready"
    words = iter([[sys.executable, "-c", COUNTING, str(ready)], [sys.executable, "-c", "input()"]])
    monkeypatch.setattr(supervisor, "command_line", lambda *_: next(words))

    async def live() -> tuple[int | None, int | None]:
        crew = Supervisor(ProcessPlan(modules=()))
        first = asyncio.create_task(crew._run_once(1))
        await asyncio.to_thread(wait_until, ready.exists)
        second = asyncio.create_task(crew._run_once(2))
        await asyncio.sleep(0)  # it is being started
        crew.stop(signal.SIGTERM)
        return (await first).process.returncode, (await second).process.returncode

    assert asyncio.run(live()) == (11, -signal.SIGTERM)


def test_nobody_waits_for_ever_for_a_worker_that_never_signs_on(monkeypatch, caplog):
    """Spec: D9"""
    monkeypatch.setattr(supervisor, "command_line", lambda *_: [sys.executable, "-c", "input()"])
    monkeypatch.setattr(supervisor, "BEGIN_SECONDS", 0.1)

    async def live() -> tuple[bool, bool]:
        crew = Supervisor(ProcessPlan(modules=()))
        starting = asyncio.create_task(crew.start())
        begun = await crew.wait_until_begun()
        crew.stop(signal.SIGTERM)
        await starting
        return begun, await crew.wait_until_begun()

    assert asyncio.run(live()) == (True, False)
    assert [record.getMessage() for record in caplog.records] == [
        "no worker process has signed on in 0.1 s: continuing without one"
    ]
