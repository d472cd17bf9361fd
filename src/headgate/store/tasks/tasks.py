"""Tasks: submitted, looked up, and acted upon by people."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

from headgate.core.errors import Invalid, NotFound, Refused
from headgate.core.gates import Gate, evaluate
from headgate.core.machine import (
    CancelRequested,
    Delivered,
    Discarded,
    Event,
    PauseRequested,
    Prioritized,
    Rescheduled,
    Resolved,
    Resumed,
    RetryAsked,
)
from headgate.core.states import FINAL, State
from headgate.core.task import Execution, NewTask, Task, check_new_task, check_start
from headgate.core.type_defaults import makes_keys, with_type_defaults
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.database import Database
from headgate.store.db.deferred import settled
from headgate.store.db.group_commit import GroupCommit, SharedCall
from headgate.store.db.pages import Page
from headgate.store.db.statement import Db, clock
from headgate.store.events.audit import PERSON, SYSTEM, record_system
from headgate.store.reading.facts import facts_of
from headgate.store.reading.lists import Filter, find
from headgate.store.tasks.actions import act, copy_of, head_of_lane
from headgate.store.tasks.families import Families
from headgate.store.tasks.idempotency import Idempotency
from headgate.store.tasks.rows import read, read_many, read_page
from headgate.store.tasks.submit import Submitted, Wish, insert, insert_once, insert_under

MOST_PER_TRANSACTION = 5_000
MOST_SHARED = 500

Shared = SharedCall[tuple[list[Wish], str], list[Submitted]]  # one caller's tasks and its actor


class Tasks:
    """Every task, live and in history. Another tenant's is as absent as one that never was."""

    def __init__(self, database: Database, catalog: Catalog, families: Families) -> None:
        self._database = database
        self._catalog = catalog
        self._families = families
        self._submits: GroupCommit[tuple[list[Wish], str], list[Submitted]] = GroupCommit(self._submit_together)

    # submitting

    def submit(self, new: NewTask, *, actor: str = PERSON, once: Idempotency | None = None) -> Submitted:
        """Make a task; it is on disk when this returns. Concurrent callers share a commit."""
        return self.submit_many([new], actor=actor, once=once)[0]

    def submit_many(
        self,
        new_tasks: Sequence[NewTask],
        *,
        actor: str = PERSON,
        once: Idempotency | None = None,
        under: Execution | None = None,
        lock_seconds: float | None = None,
    ) -> list[Submitted]:
        """Make many tasks, all or none, in the order given.

        `under` is the execution that submits them: `StaleExecution` if it owns its task no more. `Busy` if a key of
        theirs is held by an open transaction for more than `lock_seconds`.
        """
        if not new_tasks:
            return []
        if len(new_tasks) > MOST_PER_TRANSACTION:
            raise Invalid(f"one call takes at most {MOST_PER_TRANSACTION} tasks")
        for new in new_tasks:
            check_new_task(new)
        new_tasks = self._catalog.with_type_defaults(new_tasks)
        wishes = list(
            zip(new_tasks, self._catalog.make_streams(new_tasks, most_names=self._catalog.most_names), strict=True)
        )
        if once is not None:
            if len({new.tenant_id for new in new_tasks}) > 1:
                raise Invalid("all tasks of an idempotent call must have the same tenant")
            return self._database.write(
                lambda db: insert_once(db, self._catalog, wishes, actor, once), lock_seconds=lock_seconds
            )
        if under is not None:
            return self._database.write(lambda db: insert_under(db, self._catalog, wishes, actor, under))
        if len(new_tasks) <= MOST_SHARED and not any(new.mutex or new.parent_id or new.unique_key for new in new_tasks):
            return self._submits.call((wishes, actor))
        return self._database.write(lambda db: insert(db, self._catalog, wishes, actor), lock_seconds=lock_seconds)

    def keys_of(self, new_tasks: Sequence[NewTask], once: Idempotency | None = None) -> frozenset[tuple[object, ...]]:
        """The keys at which a submit of these tasks may have to wait, as far as this process knows their types."""
        keys: set[tuple[object, ...]] = set()
        for new in new_tasks:
            task_type = self._catalog.types.get(new.type)
            if task_type is None:
                keys.add(("type", new.type))
            elif makes_keys(task_type):
                with suppress(Invalid):  # raised again when the task is submitted
                    new = with_type_defaults(new, task_type)
            if new.unique_key is not None:
                keys.add(("unique", new.tenant_id, new.type, new.unique_key))
            if new.mutex is not None:
                keys.add(("mutex", new.tenant_id, new.mutex))
            if new.parent_id is not None:
                keys.add(("parent", new.parent_id))
            if once is not None:
                keys.add(("once", new.tenant_id, once.key))
        return frozenset(keys)

    def _submit_together(self, inbox: deque[Shared]) -> None:
        """Make the tasks of every caller that waits (with one actor) in one transaction; if that fails, one by one."""
        calls = [inbox.popleft()]
        size, actor = len(calls[0].item[0]), calls[0].item[1]
        while inbox and inbox[0].item[1] == actor and size + len(inbox[0].item[0]) <= MOST_SHARED:
            size += len(inbox[0].item[0])
            calls.append(inbox.popleft())
        wishes = [wish for call in calls for wish in call.item[0]]
        try:
            made = self._database.write(lambda db: insert(db, self._catalog, wishes, actor))
            for call in calls:
                count = len(call.item[0])
                call.succeed(made[:count])
                del made[:count]
        except (Invalid, NotFound, Refused) as error:  # nothing was made: retry one by one, so that valid calls succeed
            if len(calls) == 1:
                calls[0].fail(error)
            else:
                for call in calls:
                    self._submit_together(deque([call]))
        except BaseException as error:  # the tasks may have been made: do not try again
            for call in calls:
                call.fail(error)
            if not isinstance(error, Exception):
                raise

    # looking up

    def get(self, task_id: int, tenant_id: int | None = None) -> Task:
        """The task, live or in history; `NotFound`, also for another tenant's."""
        return self._database.read(lambda db: read(db, task_id, tenant_id))

    def get_many(self, ids: Sequence[int], tenant_id: int | None = None) -> dict[int, Task]:
        """The tasks among `ids` that there are, by id; another tenant's are not among them."""
        return self._database.read(lambda db: read_many(db, list(ids), tenant_id))

    def get_page(self, ids: Sequence[int], tenant_id: int | None = None) -> list[Task]:
        """The tasks among `ids` that there are, in this order: all of them, or as many of the first as a page holds."""
        return self._database.snapshot(lambda db: read_page(db, list(ids), tenant_id))

    def find(self, wanted: Filter | None = None, *, cursor: int | None = None, limit: int = 50) -> Page[Task]:
        """A page of tasks, live and in history, newest first; it may have few, or none, and yet a `next_cursor`."""
        return self._database.snapshot(lambda db: find(db, self._catalog.fresh(db), wanted or Filter(), cursor, limit))

    def why(self, task_id: int, tenant_id: int | None = None) -> list[Gate]:
        """Every gate of a task, open or closed, and the reason."""

        def why(db: Db) -> list[Gate]:
            task = read(db, task_id, tenant_id)
            return evaluate(task, facts_of(db, self._catalog.fresh(db), task, tenant_id), clock(db))

        return self._database.read(why)

    # acting upon a task

    def cancel(self, task_id: int, reason: str = "", *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """End a task early: at once before its start, else by asking its execution, or its children, to stop."""
        task = self._act(task_id, CancelRequested(reason), actor, tenant_id)
        if not task.has_children:
            return task
        self._families.cancel(task.id, "its parent was cancelled", actor=actor)
        return self.get(task_id)

    def pause(self, task_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """Hold a task: at once before its start, else at its execution's next checkpoint."""
        return self._act(task_id, PauseRequested(), actor, tenant_id)

    def resume(self, task_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """Let a paused task continue."""
        return self._act(task_id, lambda db, task: Resumed(task.start_time <= clock(db)), actor, tenant_id)

    def prioritize(
        self, task_id: int, priority: int | None = None, *, actor: str = PERSON, tenant_id: int | None = None
    ) -> Task:
        """Give a task another priority; None puts it at the head of its lane."""
        if priority is None:
            return self._act(task_id, lambda db, task: Prioritized(head_of_lane(db, task)), actor, tenant_id)
        if not -(1 << 63) <= priority < 1 << 63:
            raise Invalid.of("field-out-of-range", field="priority")
        return self._act(task_id, Prioritized(priority), actor, tenant_id)

    def reschedule(
        self,
        task_id: int,
        start_time: datetime | None = None,
        *,
        delay_seconds: float | None = None,
        actor: str = PERSON,
        tenant_id: int | None = None,
    ) -> Task:
        """Start a task that has not started at that time, or in `delay_seconds`; a queued task leaves its queue."""
        check_start(start_time, delay_seconds)

        def rescheduled(db: Db, task: Task) -> Rescheduled:
            due = not delay_seconds if start_time is None else start_time <= clock(db)
            return Rescheduled(start_time, delay_seconds, due)

        return self._act(task_id, rescheduled, actor, tenant_id)

    def retry(self, task_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """Run a task again: a dead or retrying one itself, at once; a final one as a linked copy."""
        task = self.get(task_id, tenant_id)
        if task.status in FINAL:
            return self.get(self._copy(task, actor).id)
        return self._act(task_id, RetryAsked(), actor, tenant_id)

    def _copy(self, task: Task, actor: str) -> Submitted:
        new_tasks = self._catalog.with_type_defaults([copy_of(task)])
        wishes = list(
            zip(new_tasks, self._catalog.make_streams(new_tasks, most_names=self._catalog.most_names), strict=True)
        )

        def write(db: Db) -> Submitted:
            [made] = settled(insert(db, self._catalog, wishes, actor))
            record_system(db, "copied", actor, json.dumps({"task": task.id, "copy": made.id}))
            return made

        return self._database.write(write)

    def resolve(self, task_id: int, remark: str, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """A person dealt with a dead task."""
        return self._act(task_id, Resolved(remark), actor, tenant_id)

    def discard(self, task_id: int, remark: str = "", *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """A person gives a dead task up."""
        return self._act(task_id, Discarded(remark), actor, tenant_id)

    def delivered(self, task_id: int, *, actor: str = SYSTEM) -> Task:
        """A task's callback has arrived: `notifying` → `succeeded`."""
        return self._act(task_id, Delivered(), actor, None)

    def _act(self, task_id: int, event: Event | Callable[[Db, Task], Event], actor: str, tenant_id: int | None) -> Task:
        find = event if callable(event) else lambda db, task: event
        task = self._database.write(lambda db: act(db, self._catalog.fresh(db), task_id, find, actor, tenant_id))
        if task.status in FINAL or task.status is State.DEAD:
            self._families.look_after([task.parent_id])
        return task
