"""A store as the model speaks to it, and the way back to an empty one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headgate.core.limits import Rate
from headgate.core.machine import Delivered, Discarded, Event, PauseRequested, Rescheduled, Resolved
from headgate.core.pause import PauseKey, PauseScope
from headgate.core.states import State
from headgate.core.task import Execution, NewTask, Task, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from tests.factories import Clock
from tests.kept import kept
from tests.store.model import Handle

DATABASES = ("sqlite", "postgres")
_SEEDED = {  # what a migration puts there stays
    "headgate_migration": "true",
    "headgate_lane": "name IN ('*', 'default')",
    "headgate_resource": "name = 'disk-writer'",
    "headgate_rate_limit": "name = 'key:*'",
    "headgate_catalog": "true",
}


DEFAULT_RATE = "UPDATE headgate_rate_limit SET rate = 10, burst = 20, lifted = false"


def empty(url: str) -> None:
    """Make a PostgreSQL store what it was when it was migrated; fifty times as fast as TRUNCATE."""
    connection = kept(url)
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename !~ '^headgate_task_event_'"
    ).fetchall()
    deletes = [f"DELETE FROM {name} WHERE NOT ({_SEEDED.get(name, 'false')})" for (name,) in tables]
    connection.execute("; ".join([*deletes, "UPDATE headgate_lane SET capacity = NULL", DEFAULT_RATE]))


def fresh(database: str, postgres_url: str, clock: Clock) -> Store:
    """An empty store, quickly."""
    if database == "postgres":
        empty(postgres_url)
        return open_store(postgres_url, clock)
    store = open_store("sqlite://", clock)
    store.migrate()
    return store


class Driven:
    """A store that speaks the model's language: numbers in the order of making, for tasks and for workers."""

    def __init__(self, store: Store, types: Mapping[str, TaskType], rates: Mapping[str, Rate]) -> None:
        self.store = store
        store.claims.turns.random_number = lambda: 0.0  # as the model
        self.ids: list[int] = [0]
        self.workers: list[int] = []
        self.executions: dict[Handle, Execution] = {}
        for kind in types.values():
            store.types.put(kind)
        for name, rate in rates.items():
            store.rate_limits.set(name, rate)

    def set_capacity(self, lane: str, capacity: int | None) -> None:
        self.store.lanes.set_capacity(lane, capacity)

    def set_resource(self, name: str, capacity: int) -> None:
        self.store.resources.set(name, capacity)

    def start_pause(self, key: PauseKey, until: datetime | None) -> bool:
        return self.store.pauses.set(PauseScope(key[0]), key[1], until=until)

    def end_pause(self, key: PauseKey) -> bool:
        return self.store.pauses.end(PauseScope(key[0]), key[1])

    def submit(self, new: Sequence[NewTask]) -> list[tuple[int, bool]]:
        known = [wish if wish.parent_id is None else wish._replace(parent_id=self.ids[wish.parent_id]) for wish in new]
        return [self._number(made.id, made.created) for made in self.store.tasks.submit_many(known)]

    def _number(self, task_id: int, created: bool) -> tuple[int, bool]:
        if created:
            self.ids.append(task_id)
        return self.ids.index(task_id), created

    def act(self, number: int, event: Event) -> None:
        task_id = self.ids[number]
        match event:
            case PauseRequested():
                self.store.tasks.pause(task_id)
            case Resolved(remark):
                self.store.tasks.resolve(task_id, remark)
            case Discarded():
                self.store.tasks.discard(task_id)
            case Delivered():
                self.store.tasks.delivered(task_id)
            case Rescheduled(start_time):
                self.store.tasks.reschedule(task_id, start_time)

    def cancel(self, number: int) -> None:
        self.store.tasks.cancel(self.ids[number], "no more")

    def resume(self, number: int) -> None:
        self.store.tasks.resume(self.ids[number])

    def prioritize(self, number: int, priority: int | None) -> None:
        self.store.tasks.prioritize(self.ids[number], priority)

    def retry(self, number: int) -> tuple[int, bool] | None:
        task = self.store.tasks.retry(self.ids[number])
        return None if task.id == self.ids[number] else self._number(task.id, task.id not in self.ids)

    def register(self) -> int:
        self.workers.append(self.store.workers.register("worker"))
        return len(self.workers) - 1

    def beat(self, worker: int) -> list[tuple[int, bool, bool]]:
        asked = self.store.workers.beat(self.workers[worker], self.ids)
        return sorted((self.ids.index(one.task_id), one.cancel, one.pause) for one in asked)

    def claim(self, worker: int, limit: int, confirm: bool = False, **wanted: Any) -> list[Handle]:
        claimed = self.store.claims.take(ClaimRequest(self.workers[worker], limit, confirm=confirm, **wanted))
        assert not claimed.busy
        return [self._handle(execution) for execution in claimed.executions]

    def _handle(self, execution: Execution) -> Handle:
        handle = self.ids.index(execution.id), execution.attempt
        self.executions[handle] = execution
        return handle

    def try_start(self, handle: Handle) -> bool:
        execution = self.store.executions.start(self.ids[handle[0]], self.executions[handle].exec_id)
        return isinstance(execution, Execution) and self._handle(execution) == handle

    def settle(self, outcomes: Sequence[tuple[Handle, Event]]) -> list[State | None]:
        return self.store.executions.settle([Outcome(self.executions[handle], event) for handle, event in outcomes])

    def progress(self, handle: Handle) -> tuple[bool, bool]:
        control = self.store.executions.progress(self.ids[handle[0]], self.executions[handle].exec_id, "0.5")
        return control.cancel, control.pause

    def give_back(self, handle: Handle) -> None:
        self.store.executions.give_back(self.ids[handle[0]], self.executions[handle].exec_id)

    def mark_lost(self, worker: int) -> bool:
        lease = {one.id: one.lease_until for one in self.store.workers.all(lost_too=True)}
        return self.store.workers.mark_lost(self.workers[worker], lease[self.workers[worker]])

    def rescue(self, worker: int) -> set[int]:
        return {self.ids.index(task.id) for task in self.store.executions.rescue(self.workers[worker])}

    def end_overdue(self, mutex_seconds: float) -> set[int]:
        return {self.ids.index(task.id) for task in self.store.executions.end_overdue(mutex_seconds=mutex_seconds)}

    def bring_due(self, limit: int) -> int:
        return self.store.due.bring(limit)

    def archive(self, limit: int) -> int:
        return self.store.history.archive(limit=limit)

    def close_family(self, number: int) -> bool:
        return self.store.families.close(self.ids[number])

    def tasks(self) -> list[Task]:
        page = self.store.tasks.find(limit=200)
        assert page.next_cursor is None
        return page.items[::-1]

    def seen(self) -> dict[int, tuple[object, ...]]:
        """All that the model knows of each task."""
        return {
            self.ids.index(task.id): (
                task.status, task.error_count, task.lost_count, task.priority, task.attempt, task.cancel_requested,
                task.pause_requested, task.has_children, task.gave_up, task.skip_callback, task.error_info, task.result,
                task.remark, task.start_time, task.executing_deadline, task.finished_at, task.seq,
                None if task.worker_id is None else self.workers.index(task.worker_id),
            )
            for task in self.tasks()
        }  # fmt: skip
