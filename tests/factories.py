"""Tasks in any state, made the way the product makes them."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import psycopg

from headgate.core.events import AuditEvent
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import Execution, NewTask, Task, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.execution.reports import LogLine
from headgate.store.store import Store

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


PLAIN = TaskType("plain")
TYPES = (
    PLAIN,
    TaskType("manual", need_manual=True),
    TaskType("called-back", callback={"success": {"url": "https://example.org", "method": "POST"}}),
)


def worker(store: Store) -> int:
    """A worker that serves everything."""
    return store.workers.register("tester")


def start(store: Store, limit: int = 1, **wanted: Any) -> list[Execution]:
    """What a fresh worker gets."""
    return store.claims.take(ClaimRequest(worker(store), limit, **wanted)).executions


def submit(store: Store, type_code: str = "plain", **fields: Any) -> Task:
    return store.tasks.get(store.tasks.submit(NewTask(type_code, **fields)).id)


def running(store: Store, type_code: str = "plain", **fields: Any) -> Execution:
    """A task of this kind that has just started; nothing else may be claimable."""
    task = submit(store, type_code, **fields)
    [execution] = start(store, types=frozenset({type_code}))
    assert execution.id == task.id
    return execution


def settle(store: Store, execution: Execution, event: Any) -> State | None:
    return store.executions.settle([Outcome(execution, event)])[0]


def _waiting(store: Store) -> int:
    parent = running(store)
    store.tasks.submit(NewTask("plain", parent_id=parent.id, delay_seconds=10**6))
    settle(store, parent, Returned())
    return parent.id


def _partial(store: Store) -> int:
    parent = running(store)
    for event in (Returned(), Raised("no")):
        store.tasks.submit(NewTask("plain", parent_id=parent.id))
        [child] = start(store)
        settle(store, child, event)
    settle(store, parent, Returned())
    return parent.id


def _blocked(store: Store) -> int:
    running(store, mutex="taken")
    return submit(store, mutex="taken").id


def _scheduling(store: Store) -> int:
    task = submit(store)
    start(store, confirm=True)
    return task.id


def _ended(type_code: str, event: Any) -> Callable[[Store], int]:
    def make(store: Store) -> int:
        execution = running(store, type_code)
        settle(store, execution, event)
        return execution.id

    return make


def _acted(make: Callable[[Store], int], act: Callable[[Store, int], object]) -> Callable[[Store], int]:
    def made(store: Store) -> int:
        task_id = make(store)
        act(store, task_id)
        return task_id

    return made


def _submitted(**fields: Any) -> Callable[[Store], int]:
    return lambda store: submit(store, **fields).id


_WAYS: dict[State, Callable[[Store], int]] = {
    State.PENDING: _submitted(delay_seconds=3600),
    State.BLOCKED: _blocked,
    State.QUEUED: _submitted(),
    State.SCHEDULING: _scheduling,
    State.RUNNING: lambda store: running(store).id,
    State.WAITING: _waiting,
    State.PAUSED: _acted(_submitted(), lambda store, task_id: store.tasks.pause(task_id)),
    State.RETRYING: _ended("plain", Raised("again", 60.0)),
    State.NOTIFYING: _ended("called-back", Returned()),
    State.SUCCEEDED: _ended("plain", Returned()),
    State.PARTIAL: _partial,
    State.FAILED: _ended("plain", Raised("no")),
    State.DEAD: _ended("manual", Raised("no")),
    State.RESOLVED: _acted(
        _ended("manual", Raised("no")), lambda store, task_id: store.tasks.resolve(task_id, "done by hand")
    ),
    State.CANCELLED: _acted(_submitted(), lambda store, task_id: store.tasks.cancel(task_id)),
}


def put(store: Store, state: State) -> Task:
    """A task in `state`; the only one that could be claimed, if it can."""
    task = store.tasks.get(_WAYS[state](store))
    assert task.status is state
    return task


def record(store: Store, task_id: int) -> tuple[Task, list[AuditEvent], list[LogLine], dict[str, str]]:
    """All that is kept about a task, but for the reports that were refused."""
    events = [event for event in store.events.of(task_id) if event.kind != "refused"]
    return store.tasks.get(task_id), events, store.executions.log(task_id), store.executions.checkpoints(task_id)


def kinds(store: Store, task_id: int) -> list[str]:
    return [event.kind for event in store.events.of(task_id)]


def drain(store: Store, **wanted: Any) -> list[int]:
    """Run everything that can start, one after the other; the ids in the order of their start."""
    started = []
    while executions := start(store, **wanted):
        started.append(executions[0].id)
        settle(store, executions[0], Returned())
    return started


def robbed(store: Store, clock: Clock, **fields: Any) -> tuple[Execution, Execution]:
    """An execution that was overdue, and the one that owns its task now."""
    old = running(store, max_error_count=3, timeout_seconds=10, **fields)
    clock.advance(11)
    end_overdue(store)
    [new] = start(store)
    assert new.id == old.id
    return old, new


def end_overdue(store: Store, **options: Any) -> list[Task]:
    """End what is too late, all workers having just beaten."""
    for each in store.workers.all():
        store.workers.beat(each.id)
    return store.executions.end_overdue(**options)


def lose(store: Store, worker_id: int) -> None:
    """Declare a worker lost, as it stands."""
    [worker] = [worker for worker in store.workers.all() if worker.id == worker_id]
    assert store.workers.mark_lost(worker_id, worker.lease_until)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls return, or raise, when all of them are made at once."""
    ready = Barrier(len(calls))

    def call(wanted: Callable[[], Any]) -> Any:
        ready.wait(timeout=60)
        try:
            return wanted()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


def sql(url: str, *texts: str) -> list[tuple[Any, ...]]:
    """Run statements past the store, in one transaction; the rows of the last."""
    connection: Any
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    else:
        connection = psycopg.connect(url, autocommit=True)
    with closing(connection):
        connection.execute("BEGIN")
        for text in texts:
            cursor = connection.execute(text)
        rows = cursor.fetchall() if cursor.description else []
        connection.execute("COMMIT")
    return rows
