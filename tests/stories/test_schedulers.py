"""Schedulers are killed at any moment, `headgate duties` each of them; every tick fires once, and no call twice."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from headgate import demo
from headgate.core.cron import Missed, Overlap
from headgate.core.schedule import Endpoint, LogMode, NewSchedule, ScheduleStatus
from headgate.core.task import NewTask
from headgate.simulation.checker import check
from headgate.simulation.evidence import Arrival
from headgate.store.store import Store, open_store
from tests.stories.crew import SEED, until
from tests.stories.evidence import collected, rows

HEADGATE = str(Path(sys.executable).with_name("headgate"))
SCHEDULERS, KILLS = 3, 8
EVERY_SECOND = "* * * * * *"
FIRED = "SELECT count(*) FROM headgate_task_event WHERE actor = 'system:periodic' AND kind = 'submitted'"
OPEN = "SELECT 1 FROM headgate_task WHERE finished_at IS NULL LIMIT 1"
EXECUTING = "SELECT 1 FROM headgate_periodic_task_log WHERE result = 'executing' AND task_id IS NOT NULL LIMIT 1"


class Processes:
    """Commands that run until they are stopped or killed, and what they said."""

    def __init__(self, url: str, log: Path) -> None:
        self._environment = os.environ | {"HEADGATE_URL": url, "HEADGATE_CALLBACK_ALLOW": "127.0.0.0/8"}
        self._log = log
        self.alive: list[subprocess.Popen[bytes]] = []
        self.schedulers = 0

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        self.schedulers += words == ("duties",)
        with self._log.open("ab") as log:
            process = subprocess.Popen([HEADGATE, *words], env=self._environment, stdout=log, stderr=log)
        self.alive.append(process)
        return process

    def all_begun(self) -> None:
        """Until each scheduler that was started, dead or alive, has said that it begins."""
        until(
            lambda: self._log.read_text().count("running the background duties") >= self.schedulers, "schedulers begin"
        )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        assert process.poll() is None, self._log.read_text()[-4000:]
        process.kill()
        assert process.wait() == -signal.SIGKILL
        self.alive.remove(process)

    def stop_all(self) -> None:
        for process in self.alive:
            process.terminate()
        for process in self.alive:
            assert process.wait(60) == 0, self._log.read_text()[-4000:]
        self.alive.clear()


@contextmanager
def processes(url: str, log: Path) -> Iterator[Processes]:
    running = Processes(url, log)
    try:
        yield running
    finally:
        for process in running.alive:
            process.kill()
            process.wait()


@contextmanager
def endpoint() -> Iterator[tuple[str, list[Arrival]]]:
    """An address that answers every call, and what was called."""
    arrivals: list[Arrival] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            arrivals.append(Arrival(body["periodic_task_id"], body["tick"], True))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", arrivals
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def add_schedules(store: Store, address: str) -> None:
    """One of each kind; none of their ticks may be lost."""
    new_task = NewTask(demo.hello._handler.code, '{"name": "story"}')
    for log in LogMode:
        for overlap in Overlap:
            if overlap is Overlap.SKIP and log is not LogMode.TRANS:
                continue  # of what it skips only this log tells
            new = NewSchedule(new_task, EVERY_SECOND, log=log, missed=Missed.ALL, overlap=overlap)
            store.schedules.add(new, status=ScheduleStatus.ONLINE)
    for overlap in (Overlap.ALLOW, Overlap.QUEUE):
        calls = NewSchedule(new_task, EVERY_SECOND, missed=Missed.ALL, overlap=overlap, http=Endpoint(address))
        store.schedules.add(calls, status=ScheduleStatus.ONLINE)


def test_each_tick_fires_once_while_schedulers_are_killed_at_any_moment(url: str, tmp_path: Path):
    """Spec: B9, B10"""
    dice = random.Random(SEED)
    with open_store(url) as store, endpoint() as (address, arrivals), processes(url, tmp_path / "log") as running:
        store.types.put(demo.hello._handler.type)
        add_schedules(store, address)
        schedulers = [running.start("duties") for _ in range(SCHEDULERS)]
        running.start("work", "headgate.demo")
        for _ in range(KILLS):
            running.all_begun()
            wanted = rows(url, FIRED)[0][0] + dice.randrange(1, 12)
            until(lambda wanted=wanted: rows(url, FIRED)[0][0] >= wanted, "ticks fire")  # type: ignore[misc]
            running.kill(schedulers.pop(dice.randrange(len(schedulers))))
            schedulers.append(running.start("duties"))
        running.all_begun()
        healed = time.time()
        until(lambda: store.schedules.next_due() or 0.0, "somebody fires again")
        until(lambda: not store.schedules.due(1)[0] and arrivals, "all that was due has been fired")
        for schedule in store.schedules.find():
            store.schedules.offline(schedule.id)
        until(lambda: not rows(url, OPEN), "all tasks end")
        until(lambda: not rows(url, EXECUTING), "all logs end")
        running.stop_all()
        evidence = collected(url)
    # A call whose caller was killed is given up after a minute, which is not waited for here.
    lines = [line._replace(result="failure") if line.result == "executing" else line for line in evidence.log_lines]
    assert check(replace(evidence, log_lines=lines, arrivals=arrivals, ticks_until=healed)) == []
    assert rows(url, FIRED)[0][0] > 5 * KILLS
