"""Eight processes work and meddle, two of them die; the audit then proves that no limit was ever exceeded."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from headgate.core.errors import Refused
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.simulation.checker import check
from headgate.store.reading.lists import Filter
from headgate.store.store import Store, open_store
from tests.stories.evidence import collected, made, rows
from tests.stories.worker_process import LANES, Signals, run

PROCESSES = 8
DOOMED = 2
TASKS = 2_000
MUTEXES = 30
TOOLS = 2
PATIENCE = 120.0


def prepare(store: Store) -> range:
    store.types.put(TaskType("plain"))
    store.types.put(TaskType("tooled", uses=("tool",)))
    store.resources.set("tool", TOOLS)
    for lane in LANES:
        store.lanes.set_capacity(lane, 5)
    ids = []
    for start in range(0, TASKS, 500):
        new_tasks = [
            NewTask(
                "tooled" if number % 5 == 0 else "plain",
                lane=LANES[number % 3],
                tenant_id=number % 2,
                mutex=f"{os.getpid()} {number % MUTEXES}" if number % 4 == 0 else None,
                priority=number % 3,
            )
            for number in range(start, start + 500)
        ]
        ids += [made.id for made in store.tasks.submit_many(new_tasks)]
    assert len(ids) == TASKS
    return range(min(ids), max(ids) + 1)


class Cast:
    """The processes, and what they say."""

    def __init__(self, url: str, ids: range) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._hold, self._stop = spawn.Event(), spawn.Event()
        self._members: dict[Connection, BaseProcess] = {}
        for number in range(PROCESSES):
            pipe, child_end = spawn.Pipe(duplex=False)
            signals = Signals(self._hold, self._stop, child_end)
            process = spawn.Process(target=run, args=(url, number, ids, number < DOOMED, signals))
            process.start()
            child_end.close()
            self._members[pipe] = process

    def kill_two_that_hold_something(self) -> dict[int, list[int]]:
        """Who was killed with which tasks in its hands."""
        self._hold.set()
        killed: dict[int, list[int]] = {}
        while len(killed) < DOOMED:
            pipe, (kind, detail) = self._receive()
            assert kind == "holds", detail
            self._members[pipe].kill()
            self._members.pop(pipe).join()
            killed[detail[0]] = detail[1]
        return killed

    def stop(self) -> None:
        """Let everybody finish; nobody may have raised anything."""
        self._stop.set()
        while self._members:
            pipe, (kind, detail) = self._receive()
            assert kind == "stopped", detail
            self._members.pop(pipe).join()

    def close(self) -> None:
        self._stop.set()
        for process in self._members.values():
            process.kill()
            process.join()

    def check(self) -> None:
        """Fail at once if somebody raised something."""
        for pipe in wait(list(self._members), timeout=0):
            assert isinstance(pipe, Connection)
            kind, detail = pipe.recv()
            raise AssertionError(f"{kind}: {detail}")

    def _receive(self) -> tuple[Connection, tuple[str, Any]]:
        ready = wait(list(self._members), timeout=PATIENCE)
        assert ready, "nobody says anything"
        pipe = ready[0]
        assert isinstance(pipe, Connection)
        return pipe, pipe.recv()


@contextmanager
def cast(url: str, ids: range) -> Iterator[Cast]:
    members = Cast(url, ids)
    try:
        yield members
    finally:
        members.close()


def rescue(store: Store, killed: dict[int, list[int]]) -> None:
    """What the reaper does once a lease is over."""
    for worker in store.workers.all():
        if worker.id in killed:
            assert store.workers.mark_lost(worker.id, worker.lease_until)
    rescued = [task.id for worker_id in killed for task in store.executions.rescue(worker_id)]
    assert sorted(rescued) == sorted(task_id for held in killed.values() for task_id in held)
    assert store.workers.lost_holders() == []


def play_out(store: Store, url: str, members: Cast) -> None:
    """Do the duties, and let go of what is paused, until nothing is open."""
    deadline = time.monotonic() + PATIENCE
    while rows(url, "SELECT count(*) FROM headgate_task WHERE finished_at IS NULL")[0][0]:
        assert time.monotonic() < deadline, rows(url, "SELECT status, lane, count(*) FROM headgate_task GROUP BY 1, 2")
        members.check()
        store.due.bring()
        for task in store.tasks.find(Filter(status=(State.PAUSED,)), limit=200).items:
            try:
                store.tasks.resume(task.id)
            except Refused:
                assert store.tasks.get(task.id).status is not State.PAUSED


def test_no_limit_is_exceeded_and_every_task_ends_once_while_eight_processes_meddle_and_two_die(url):
    """Spec: A9, A10, A11, B3, B8, C13"""
    with open_store(url) as store:
        ids = prepare(store)
        with cast(url, ids) as members:
            killed = members.kill_two_that_hold_something()
            rescue(store, killed)
            play_out(store, url, members)
            members.stop()
    assert check(collected(url, submits=[made(ids)])) == []
