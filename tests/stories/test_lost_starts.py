"""Agents are killed between the claim of an assigned task and the confirmation of its start; two servers run."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.core.events import AuditEvent
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.store import Store, open_store
from tests.factories import PLAIN

HEADGATE = str(Path(sys.executable).with_name("headgate"))
PATIENCE = 120.0
FIGURES = {
    "BASE": "0.2",
    "STEP": "0.2",
    "MAX": "1",
    "THRESHOLD": "0.8",
    "START_INTERVAL": "0.3",
    "STATUS_SECONDS": "0.5",
}
TASKS = 5
# Fetches a task, says so, and is killed before it has confirmed anything: it has no lease that would give it away.
VICTIM = """
import json, sys, time, urllib.request
address, agent = sys.argv[1:]
body = json.dumps({"wait_seconds": 30}).encode()
while True:
    request = urllib.request.Request(f"{address}/api/agents/{agent}/claim", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        for task in json.load(answer)["tasks"]:
            print(json.dumps(task), flush=True)
            time.sleep(3600)
"""


class Server:
    """`headgate serve` in a process of its own, with all duties."""

    def __init__(self, url: str) -> None:
        figures = {f"HEADGATE_COMPENSATION_{name}": value for name, value in FIGURES.items()}
        self.process = subprocess.Popen(
            [HEADGATE, "serve", "--port", "0", "--url", url],
            env=os.environ | figures,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self.address = re.findall(r"http://\S+", self.wait_for_line("the API and the console are at"))[0]

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.lines.append(line.rstrip())
                self._more.notify_all()

    def wait_for_line(self, words: str) -> str:
        """The first line with these words, as soon as it is logged."""
        with self._more:
            assert self._more.wait_for(lambda: any(words in line for line in self.lines), PATIENCE), self.lines
            return next(line for line in self.lines if words in line)

    def ask(self, path: str, body: Any) -> Any:
        return httpx.post(self.address + path, json=body, timeout=PATIENCE, trust_env=False, verify=False)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def servers(url: str, count: int) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        running = []
        for _ in range(count):
            running.append(Server(url))
            stack.callback(running[-1].kill)
        yield running


def kill_before_the_start(address: str) -> dict[str, Any]:
    """An agent that gets a task and is gone; the task it got."""
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, address, "rig"], stdout=subprocess.PIPE, text=True)
    try:
        assert victim.stdout is not None
        task: dict[str, Any] = json.loads(victim.stdout.readline())
    finally:
        victim.kill()
        victim.communicate(timeout=PATIENCE)
    return task


def work_off(server: Server, store: Store, ids: list[int]) -> None:
    """An agent that does its work, until all is done."""
    end = time.monotonic() + PATIENCE
    while any(store.tasks.get(task_id).status is not State.SUCCEEDED for task_id in ids):
        assert time.monotonic() < end, [store.tasks.get(task_id) for task_id in ids]
        for task in server.ask("/api/agents/rig/claim", {"wait_seconds": 5}).json()["tasks"]:
            own = {"exec_id": task["exec_id"]}
            if server.ask(f"/api/agents/rig/tasks/{task['id']}/start", own).status_code == 200:
                assert server.ask(f"/api/agents/rig/tasks/{task['id']}/complete", own).status_code == 200


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        opened.types.put(PLAIN)
        yield opened


def happened(store: Store, ids: list[int]) -> list[AuditEvent]:
    return sorted((event for task_id in ids for event in store.events.of(task_id)), key=lambda event: event.id)


def test_every_start_that_an_agent_took_to_its_grave_is_made_again(store: Store, url: str):
    """Spec: E1, E2, E3, E4"""
    ids = [store.tasks.submit(NewTask("plain", agent_id="rig")).id for _ in range(TASKS)]
    with servers(url, 2) as (one, other):
        lost = [kill_before_the_start(address) for address in (one.address, other.address, one.address)]
        work_off(other, store, ids)
        status = [server.wait_for_line("Task compensation polling status: interval=") for server in (one, other)]
    events = happened(store, ids)
    for task in lost:
        ends = [event for event in events if event.exec_id == task["exec_id"]]
        assert [(event.kind, event.actor) for event in ends][-1] == ("compensated", "system:compensation")
    starts = [event.at for event in events if event.kind == "scheduled"]
    assert all(after - before >= timedelta(seconds=0.3) for before, after in pairwise(starts))
    assert len(starts) == TASKS + len([event for event in events if event.kind == "compensated"])
    assert [event.kind for event in events].count("completed") == TASKS
    assert {(task.attempt > 1) for task in map(store.tasks.get, [task["id"] for task in lost])} == {True}
    lines = [line for server in (one, other) for line in server.lines]
    for words in (" tasks need compensation", "waitingTime=", "Task start queue has ", "skipping compensation"):
        assert any(words in line for line in lines), words
    assert all(re.search(r"queueSize=\d+, lastPoll=\d+, nextPollIn=\d+ms$", line) for line in status)


def test_a_server_that_is_killed_with_a_claim_leaves_nothing_stuck(store: Store, url: str):
    """Spec: E2, C12"""
    ids = [store.tasks.submit(NewTask("plain", agent_id="rig")).id for _ in range(2)]
    with servers(url, 1) as (doomed,):
        [task] = doomed.ask("/api/agents/rig/claim", {}).json()["tasks"]
        doomed.process.kill()
    with servers(url, 1) as (heir,):
        work_off(heir, store, ids)
        late = heir.ask(f"/api/agents/rig/tasks/{task['id']}/start", {"exec_id": task["exec_id"]})
    assert (late.status_code, store.tasks.get(task["id"]).attempt) == (409, 2)
    kinds = [event.kind for event in store.events.of(task["id"])]
    assert kinds == ["submitted", "scheduled", "compensated", "scheduled", "started", "completed"]
