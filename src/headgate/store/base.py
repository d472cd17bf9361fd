"""The store: what the rest of Headgate may rely on, promise by promise, on either database.

Each method is one transaction, on disk when it returns; where it takes more than one it says so. Whatever raises has
changed nothing.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Self, TypeVar

import headgate.store.audit as audit
import headgate.store.catalog as catalogs
import headgate.store.claim_postgres as claim_postgres
import headgate.store.claim_sqlite as claim_sqlite
import headgate.store.due as due
import headgate.store.executing as executing
import headgate.store.feed as feed
import headgate.store.history as history
import headgate.store.lists as lists
import headgate.store.partitions as partitions
import headgate.store.reports as reports
import headgate.store.rescue as rescue
import headgate.store.samples as samples
import headgate.store.settle as settle
import headgate.store.tasks as tasks
import headgate.store.workers as workers
from headgate.core.errors import Invalid, NotFound, Refused
from headgate.core.events import Happening
from headgate.core.gates import Bucket, Gate, Room, evaluate
from headgate.core.limits import Rate
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
from headgate.core.task import Execution, NewTask, Task, TaskType, check, check_start
from headgate.outside import monotonic
from headgate.store.agents import Agents
from headgate.store.audit import PERSON, SYSTEM
from headgate.store.claims import Claimed, ClaimRequest, Control, Outcome
from headgate.store.compensation import Compensation
from headgate.store.deferred import Deferred
from headgate.store.deliveries import Deliveries
from headgate.store.desk import Desk
from headgate.store.facts import facts_of
from headgate.store.families import Families
from headgate.store.feed import Cursor
from headgate.store.forecasts import Forecasts
from headgate.store.ground import Ground
from headgate.store.group import Call, Group
from headgate.store.history import History
from headgate.store.keys import Keys
from headgate.store.kinds import Kinds
from headgate.store.line import Key
from headgate.store.listeners import Listeners
from headgate.store.lists import Filter, Page
from headgate.store.memory import Memory
from headgate.store.migrate import Migration, migrate, plan
from headgate.store.news import Wakes
from headgate.store.reports import Count, LogLine, TypeStatistics
from headgate.store.room import take_again
from headgate.store.rows import read, read_many
from headgate.store.schedules import Schedules
from headgate.store.series import Series
from headgate.store.sessions import Sessions
from headgate.store.sql import Db, moment
from headgate.store.start_queues import StartQueues
from headgate.store.tasks import Idempotency, Submitted
from headgate.store.usages import Usages
from headgate.store.workers import Asked, Worker

if TYPE_CHECKING:  # a process loads the one it uses: a driver takes 13 MB
    from headgate.store.postgres import Postgres
    from headgate.store.sqlite import Sqlite

T = TypeVar("T")

MOST_PER_TRANSACTION = 5_000
MOST_SHARED = 500
MUTEX_SECONDS = 2 * 3600.0
MIGRATE_SECONDS = 3600.0
BEAT_SHARE = 0.5  # of a lease: a beat that takes longer has failed, and there is time for another


class Store(Ground):
    """Tasks, and all that decides when they run, on SQLite or PostgreSQL."""

    def __init__(self, database: "Sqlite | Postgres", monotonic: Callable[[], float] = monotonic) -> None:
        super().__init__(database, monotonic)
        self.families = Families(self)
        self.deliveries = Deliveries(self, self.families)
        self.schedules = Schedules(self)
        self.compensation = Compensation(self)
        self.start_queues = StartQueues(self)
        self.forecasts = Forecasts(self)
        self.history = History(self)
        self.usages = Usages(self)
        self.series = Series(self)
        self.sessions = Sessions(self)
        self.desk = Desk(self, self.families)
        self.kinds = Kinds(self)
        self.keys = Keys(self)
        self.agents = Agents(self, self._claim)
        self._memory = Memory(monotonic)
        self._listeners = Listeners(self._memory)
        self._beat_seconds: dict[int, float] = {}
        self._submits: Group[tuple[list[NewTask], str], list[Submitted]] = Group(self._submit_together)
        database.on_news = self._listeners.tell

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every connection."""
        self._database.close()

    def on_wake(self, listener: Callable[[Wakes], None]) -> None:
        """Call `listener` after each commit that made something claimable: of this process, or of any (`listen`).

        It gets the first (priority, id) of each stream as far as that is known, and must neither wait nor fail.
        """
        self._listeners.of_wakes.append(listener)

    def on_asked(self, listener: Callable[[set[int]], None]) -> None:
        """Call `listener` with the ids of workers of whose running tasks a cancel or a pause is asked."""
        self._listeners.of_requests.append(listener)

    def on_owed(self, listener: Callable[[None], None]) -> None:
        """Call `listener` after each commit that made a callback due; like `on_wake` otherwise."""
        self._listeners.of_callbacks.append(listener)

    def listen(self) -> None:
        """Hear of other processes' commits too, from the call with which every listener is told that it begins.

        Hints: what is missed costs the time until the next look. Nobody is heard where that cannot be done: behind a
        pooler, in memory.
        """
        self._database.listen()

    # schema

    def migrate(self) -> list[Migration]:
        """Bring the schema up to date; the steps taken. Any number of processes may call it at once."""
        taken = self.write(migrate, MIGRATE_SECONDS)
        self.make_partitions()
        return taken

    def migration_plan(self) -> list[Migration]:
        """The steps `migrate` would take."""
        return self.read(plan)

    def check_writable(self) -> None:
        """Write something that changes nothing; whatever stands in the way is raised."""
        self.write(catalogs.touch)

    def make_partitions(self) -> list[str]:
        """Make room for the audit rows of the next days (PostgreSQL)."""
        return self.write(partitions.make_partitions)

    # types, lanes, resources, rate limits

    def put_type(self, kind: TaskType, *, edited: bool = False, actor: str = SYSTEM) -> None:
        """Add or replace a task type. A program's registration never overwrites what a person `edited`."""
        self.write(
            lambda db: catalogs.put_type(db, kind, before=catalogs.hold_type(db, kind.code), edited=edited, actor=actor)
        )
        self.read(self.fresh_catalog)

    def remove_type(self, code: str, *, actor: str = PERSON) -> None:
        """Forget a type: nothing new of it is taken on; what is there ends by the defaults."""
        self.write(lambda db: catalogs.remove_type(db, code, actor))
        self.read(self.fresh_catalog)

    def types(self) -> dict[str, TaskType]:
        """Every type, by its code, as it stands."""
        return dict(self.read(self.fresh_catalog).types)

    def type_of(self, code: str) -> TaskType:
        """A type as this process knows it: as of its last claim, or a second ago."""
        return self.catalog.type(code)

    def set_capacity(self, lane: str, capacity: int | None, *, actor: str = PERSON) -> None:
        """How many tasks of a lane may run at once, from now on; None lifts the limit. Older runs may go on."""
        self._edit(lambda db: catalogs.set_capacity(db, lane, capacity, actor))
        self._memory.forget()

    def pause_lane(self, lane: str | None = None, *, actor: str = PERSON) -> bool:
        """Let nothing more of a lane start, or nothing at all (None); False if it was so already."""
        return self.write(lambda db: catalogs.set_paused(db, lane, True, actor))

    def resume_lane(self, lane: str | None = None, *, actor: str = PERSON) -> bool:
        """Take back `pause_lane`; False if it was not paused."""
        return self._edit(lambda db: catalogs.set_paused(db, lane, False, actor))

    def everything_paused(self) -> bool:
        return self.read(catalogs.everything_paused)

    def lanes(self) -> list[Room]:
        return self.read(catalogs.lanes)

    def set_resource(self, name: str, capacity: int, *, actor: str = PERSON) -> None:
        """How many tasks may use a resource at once, from now on."""
        self._edit(lambda db: catalogs.set_resource(db, name, capacity, actor))

    def resources(self) -> list[Room]:
        return self.read(catalogs.resources)

    def set_rate_limit(self, name: str, limit: Rate | None, *, actor: str = PERSON) -> None:
        """Limit the starts of `lane:NAME`, `type:CODE` or `key:NAME`, over all processes; None lifts the limit."""
        self._edit(lambda db: catalogs.set_rate_limit(db, name, limit, actor))
        self._memory.forget()

    def rate_limits(self) -> list[Bucket]:
        return self.read(catalogs.rate_limits)

    # submitting

    def submit(self, new: NewTask, *, actor: str = PERSON, once: Idempotency | None = None) -> Submitted:
        """Make a task; it is on disk when this returns. Concurrent callers share a commit."""
        return self.submit_many([new], actor=actor, once=once)[0]

    def submit_many(
        self,
        wishes: Sequence[NewTask],
        *,
        actor: str = PERSON,
        once: Idempotency | None = None,
        under: Execution | None = None,
    ) -> list[Submitted]:
        """Make many tasks, all or none, in the order given.

        `under` is the execution that submits them: `StaleExecution` if it owns its task no more.
        """
        if not wishes:
            return []
        if len(wishes) > MOST_PER_TRANSACTION:
            raise Invalid(f"{MOST_PER_TRANSACTION} tasks at most in one call")
        for new in wishes:
            check(new)
        wishes = [self.completed(new) for new in wishes]
        self.make_streams(wishes)
        if once is not None:
            if len({new.tenant_id for new in wishes}) > 1:
                raise Invalid("an idempotent call is for one tenant")
            return self.write(lambda db: tasks.insert_once(db, self.catalog, wishes, actor, once))
        if under is not None:
            return self.write(lambda db: tasks.insert_under(db, self.catalog, wishes, actor, under))
        if len(wishes) <= MOST_SHARED and not any(new.mutex or new.parent_id or new.unique_key for new in wishes):
            return self._submits.call((list(wishes), actor))
        return self.write(lambda db: tasks.insert(db, self.catalog, wishes, actor))

    def _submit_together(self, inbox: "deque[Call[tuple[list[NewTask], str], list[Submitted]]]") -> None:
        """Make the tasks of every caller that waits (with one actor) in one transaction; if that fails, one by one."""
        calls = [inbox.popleft()]
        size, actor = len(calls[0].item[0]), calls[0].item[1]
        while inbox and inbox[0].item[1] == actor and size + len(inbox[0].item[0]) <= MOST_SHARED:
            size += len(inbox[0].item[0])
            calls.append(inbox.popleft())
        wishes = [new for call in calls for new in call.item[0]]
        try:
            made: list[Submitted] = self.write(lambda db: tasks.insert(db, self.catalog, wishes, actor))
            for call in calls:
                count = len(call.item[0])
                call.succeed(made[:count])
                del made[:count]
        except (Invalid, NotFound, Refused) as error:  # nothing was made: whoever broke no rule gets theirs
            if len(calls) == 1:
                calls[0].fail(error)
            else:
                self._submit_apart(calls)
        except BaseException as error:  # they may have been made: what is not known is not tried again
            for call in calls:
                call.fail(error)
            if not isinstance(error, Exception):
                raise

    def _submit_apart(self, calls: "list[Call[tuple[list[NewTask], str], list[Submitted]]]") -> None:
        for call in calls:
            self._submit_together(deque([call]))

    # looking up

    def get(self, task_id: int, tenant_id: int | None = None) -> Task:
        """The task, live or in history; `NotFound`, also for another tenant's."""
        return self.read(lambda db: read(db, task_id, tenant_id))

    def get_many(self, ids: Sequence[int], tenant_id: int | None = None) -> dict[int, Task]:
        """The tasks among `ids` that there are, by id; another tenant's are not among them."""
        return self.read(lambda db: read_many(db, list(ids), tenant_id))

    def find(self, wanted: Filter | None = None, *, cursor: int | None = None, limit: int = 50) -> Page:
        """A page of tasks, live and in history, newest first; it may have few, or none, and yet a `next_cursor`."""
        return self.snapshot(lambda db: lists.find(db, self.fresh_catalog(db), wanted or Filter(), cursor, limit))

    def events(self, task_id: int, *, after: int = 0, limit: int = 200, progress: bool = True) -> list[Happening]:
        """What happened to a task, oldest first; with or without each time it said how far it was."""
        return self.read(lambda db: feed.events_of(db, task_id, after, limit, progress))

    def feed(self, cursor: Cursor, limit: int = 500) -> tuple[list[Happening], Cursor]:
        """Everything that happened after `cursor`, each event once; late commits come late, none is skipped."""
        return self.read(lambda db: feed.read_feed(db, cursor, limit))

    def last_event(self) -> Cursor:
        """A cursor behind everything that is visible now."""
        return self.read(feed.last_event)

    def log(self, task_id: int, *, after: int = 0, limit: int = 200) -> list[LogLine]:
        """A task's own log lines, oldest first."""
        return self.read(lambda db: reports.log_of(db, task_id, after, limit))

    def checkpoints(self, task_id: int) -> dict[str, str]:
        """What a task's executions have saved, by name, as JSON."""
        return self.read(lambda db: reports.checkpoints_of(db, task_id))

    def why(self, task_id: int, tenant_id: int | None = None) -> list[Gate]:
        """Every gate of a task, open or shut, and the reason."""
        return self.read(lambda db: self._why(db, task_id, tenant_id))

    def _why(self, db: Db, task_id: int, tenant_id: int | None) -> list[Gate]:
        task = read(db, task_id, tenant_id)
        facts = facts_of(db, self.fresh_catalog(db), task)
        return evaluate(task, facts, moment(db.rows(tasks.NOW)[0][0]))

    def take_sample(self) -> None:
        """Count what waits, for `counts`, and measure what finished, for forecasts. Two transactions."""
        sample = self.read(samples.read_sample)
        self.write(lambda db: samples.keep_sample(db, sample))

    def counts(self) -> list[Count]:
        """How many tasks of each lane are in each state: what runs exactly, the rest as last sampled."""
        return self.read(reports.counts)

    def depth(self, lane: str) -> int:
        """How many tasks of a lane are queued; 10,001 stands for anything above 10,000."""
        return self.read(lambda db: reports.depth(db, self.fresh_catalog(db), lane))

    def statistics(self, seconds: float = 24 * 3600, tenant_id: int | None = None) -> list[TypeStatistics]:
        """Run times and success rate per type, over what finished in the last `seconds`."""
        return self.read(lambda db: reports.statistics(db, seconds, tenant_id))

    # acting upon a task

    def cancel(self, task_id: int, reason: str = "", *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """End a task early: at once before its start, else by asking its execution, or its children, to stop."""
        task = self._act(task_id, lambda task: CancelRequested(reason), actor, tenant_id)
        if not task.has_children:
            return task
        self.families.cancel(task.id, "its parent was cancelled", actor=actor)
        return self.get(task_id)

    def pause(self, task_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """Hold a task: at once before its start, else at its execution's next checkpoint."""
        return self._act(task_id, lambda task: PauseRequested(), actor, tenant_id)

    def resume(self, task_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """Let a paused task go on."""
        return self.write(
            lambda db: tasks.act(
                db, self.fresh_catalog(db), task_id, lambda task: Resumed(tasks.is_due(db, task)), actor, tenant_id
            )
        )

    def prioritize(
        self, task_id: int, priority: int | None = None, *, actor: str = PERSON, tenant_id: int | None = None
    ) -> Task:
        """Give a task another priority; None puts it at the head of its lane."""
        if priority is not None and not -(1 << 63) <= priority < 1 << 63:
            raise Invalid("priority is out of range")
        return self.write(
            lambda db: tasks.act(
                db,
                self.fresh_catalog(db),
                task_id,
                lambda task: Prioritized(tasks.head_of_lane(db, task) if priority is None else priority),
                actor,
                tenant_id,
            )
        )

    def reschedule(
        self,
        task_id: int,
        start_time: datetime | None = None,
        *,
        delay_seconds: float | None = None,
        actor: str = PERSON,
        tenant_id: int | None = None,
    ) -> Task:
        """Let a task that has not started start then, or in so many seconds, and no sooner; one in line leaves it."""
        check_start(start_time, delay_seconds)
        return self.write(
            lambda db: tasks.act(
                db,
                self.fresh_catalog(db),
                task_id,
                lambda task: Rescheduled(start_time, delay_seconds, tasks.is_over(db, start_time, delay_seconds)),
                actor,
                tenant_id,
            )
        )

    def retry(self, task_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """Run a task again: a dead or retrying one itself, at once; a final one as a linked copy."""
        task = self.get(task_id, tenant_id)
        if task.status in FINAL:
            return self.get(self.submit(tasks.copy_of(task), actor=actor).id)
        return self._act(task_id, lambda task: RetryAsked(), actor, tenant_id)

    def resolve(self, task_id: int, remark: str, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """A person dealt with a dead task."""
        return self._act(task_id, lambda task: Resolved(remark), actor, tenant_id)

    def discard(self, task_id: int, remark: str = "", *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """A person gives a dead task up."""
        return self._act(task_id, lambda task: Discarded(remark), actor, tenant_id)

    def delivered(self, task_id: int, *, actor: str = SYSTEM) -> Task:
        """A task's callback has arrived: `notifying` → `succeeded`."""
        return self._act(task_id, lambda task: Delivered(), actor, None)

    def _act(self, task_id: int, event: Callable[[Task], Event], actor: str, tenant_id: int | None) -> Task:
        task = self.write(lambda db: tasks.act(db, self.fresh_catalog(db), task_id, event, actor, tenant_id))
        if task.status in FINAL or task.status is State.DEAD:
            self.families.look_after([task.parent_id])
        return task

    # executing

    def register(
        self,
        name: str,
        *,
        types: Collection[str] | None = None,
        lease_seconds: float = 30.0,
        agent_id: str | None = None,
        tenant_id: int | None = None,
        detail: str | None = None,
    ) -> int:
        """A new worker, or agent, with a fresh lease; its id. `detail` is what it says of itself, as for `beat`."""
        worker_id = self.write(lambda db: workers.register(db, name, types, lease_seconds, agent_id, tenant_id, detail))
        self._listeners.workers.add(worker_id)
        self._beat_seconds[worker_id] = BEAT_SHARE * lease_seconds
        return worker_id

    def beat(self, worker_id: int, held: Collection[int] = (), detail: str | None = None) -> list[Asked]:
        """Renew a worker's lease; what is asked of the tasks it holds. `WorkerLost`: stop everything, register anew.

        `detail` is what the worker says of itself, as JSON; None leaves what it said before.
        """
        return self.write(lambda db: workers.beat(db, worker_id, held, detail), self._beat_seconds.get(worker_id))

    def asked(self, worker_id: int, held: Collection[int]) -> list[Asked]:
        """What is asked of the tasks a worker holds."""
        return self.read(lambda db: workers.asked(db, worker_id, held))

    def owned(self, worker_id: int, held: Collection[int]) -> set[str]:
        """The exec_ids of the tasks `held` that are still this worker's; whatever else it runs must stop."""
        return self.read(lambda db: workers.owned(db, worker_id, held))

    def leave(self, worker_id: int) -> None:
        """A worker goes in good order."""
        self.write(lambda db: workers.leave(db, worker_id))
        self._listeners.workers.discard(worker_id)

    def workers(self, *, lost_too: bool = False) -> list[Worker]:
        return self.read(lambda db: workers.workers(db, lost_too=lost_too))

    def claim(self, request: ClaimRequest) -> Claimed:
        """Start what every gate lets through, in the order of priority, then creation.

        At most one caller gets a task. Lanes, resources, rate limits and mutexes are never exceeded. `WorkerLost`
        if the worker was declared lost.
        """
        return self.write(lambda db: self._claim(db, request))

    def settle(self, outcomes: Sequence[Outcome], *, actor: str = SYSTEM) -> list[State | None]:
        """Record how executions ended; what each task is now, or None where another exec_id owns it by now.

        Looks after families afterwards, in transactions of their own.
        """
        done, _ = self.settle_and_claim(outcomes, None, actor=actor)
        return done

    def settle_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, *, actor: str = SYSTEM
    ) -> tuple[list[State | None], Claimed]:
        """`settle` and `claim` in one transaction: what a busy worker does all day."""
        if not outcomes and request is None:
            return [], Claimed([])
        done, claimed = self.write(lambda db: self._settle_and_claim(db, outcomes, request, actor))
        self.families.look_after(
            execution.id if after is State.WAITING else execution.parent_id
            for (execution, _, _), after in zip(outcomes, done, strict=True)
            if after is State.WAITING or after in FINAL or after is State.DEAD
        )
        return done, claimed

    def try_start(self, task_id: int, exec_id: str, *, actor: str = SYSTEM) -> Execution | None:
        """Confirm the start of a task handed over as `scheduling`; None if it is not this exec_id's to start."""
        return self.write(lambda db: executing.try_start(db, self.fresh_catalog(db), task_id, exec_id, actor))

    def progress(self, task_id: int, exec_id: str, progress: str, *, actor: str = SYSTEM) -> Control:
        """Note how far an execution is (JSON); what is asked of it. `StaleExecution` if it owns the task no more."""
        return self.write(lambda db: executing.report_progress(db, task_id, exec_id, progress, actor))

    def add_log(self, task_id: int, exec_id: str, lines: Sequence[tuple[str, str]]) -> Control:
        """Keep log lines (level, message) with the task; like `progress` otherwise."""
        return self.write(lambda db: executing.add_log(db, task_id, exec_id, lines))

    def save_checkpoint(self, task_id: int, exec_id: str, name: str, state: str) -> Control:
        """Keep a named state (JSON) that later executions of the task find; like `progress` otherwise."""
        return self.write(lambda db: executing.save_checkpoint(db, task_id, exec_id, name, state))

    def give_back(self, task_id: int, exec_id: str, *, actor: str = SYSTEM) -> None:
        """Let go of a task without having failed: back to the line, nothing counted."""
        self._ended(self.write(lambda db: rescue.give_back(db, self.fresh_catalog(db), task_id, exec_id, actor)))

    def give_back_strays(self, worker_id: int, types: Collection[str], known: Collection[str]) -> list[Task]:
        """Give back tasks of `types` that a worker holds besides its `known` exec_ids: claims it never heard about."""
        return self._ended(
            self.write(lambda db: rescue.give_back_strays(db, self.fresh_catalog(db), worker_id, types, known))
        )

    # duties

    def bring_due(self, limit: int = 1000) -> int:
        """Move tasks whose time has come on to the line; how many."""
        return self.write(lambda db: due.bring_due(db, self.fresh_catalog(db), limit))

    def next_due(self) -> float | None:
        """Seconds until the next task's time comes, 0 or less if it has; None if none waits for its time."""
        return self.read(due.next_due)

    def repair_lines(self, after: Key = (-(1 << 63), ""), limit: int = 200) -> Key | None:
        """Put a page of mutex lines in order; where to go on, or None at the end."""
        return self.write(lambda db: due.repair_lines(db, after, limit))

    def mark_lost(self, worker_id: int, lease_until: datetime) -> bool:
        """Declare a worker lost whose lease still is `lease_until`; False if it has beaten since."""
        return self.write(lambda db: workers.mark_lost(db, worker_id, lease_until, rescue.ACTOR))

    def lost_holders(self) -> list[int]:
        """Lost workers that still hold tasks."""
        return self.read(workers.lost_holders)

    def rescue(self, worker_id: int, *, limit: int = 500) -> list[Task]:
        """Give back a page of what a lost worker held; those tasks, as they were. Looks after families."""
        return self._ended(self.write(lambda db: rescue.rescue(db, self.fresh_catalog(db), worker_id, limit)))

    def end_overdue(self, *, limit: int = 500, mutex_seconds: float = MUTEX_SECONDS) -> list[Task]:
        """End what is past its deadline or has held its mutex too long; those tasks, as they were."""
        if not self.read(lambda db: rescue.any_overdue(db, mutex_seconds)):
            return []
        return self._ended(self.write(lambda db: rescue.end_overdue(db, self.fresh_catalog(db), limit, mutex_seconds)))

    def return_unstarted(self, seconds: float, *, limit: int = 500, actor: str = SYSTEM) -> list[Task]:
        """Put back in line what was handed over more than `seconds` ago and never confirmed.

        What is assigned to an agent is left to `compensation`.
        """
        return self.write(lambda db: rescue.return_unstarted(db, self.fresh_catalog(db), seconds, limit, actor))

    def archive(self, *, seconds: float = 0.0, limit: int = 1000) -> int:
        """Move a batch of tasks finished more than `seconds` ago to history; how many."""
        return self.history.move_some(seconds, limit)

    def purge(self, states: Collection[State], *, seconds: float, limit: int = 1000) -> int:
        """Remove a batch of history in `states` that ended more than `seconds` ago; how many."""
        return self.history.remove_some(states, seconds, limit)

    def forget_outdated(self, *, seconds: float, limit: int = 1000) -> int:
        """Forget a batch of idempotency keys, answers to claims, last starts and gone workers, older than that."""
        return self.write(lambda db: history.forget_outdated(db, seconds, limit))

    def forget_acts(self, *, seconds: float, limit: int = 1000) -> int:
        """Remove a batch of audit rows that belong to no task and are older than that; how many."""
        return self.write(lambda db: history.forget_acts(db, seconds, limit))

    def drop_partitions(self, before: datetime) -> list[str]:
        """Drop a day of audit rows before `before` of which nothing is left, if there is one (PostgreSQL)."""
        return self.write(lambda db: partitions.drop_partitions(db, before))

    def record_act(self, kind: str, detail: str, *, actor: str = SYSTEM) -> None:
        """Note in the audit what was done to the system itself."""
        self.write(lambda db: audit.record_system(db, kind, actor, detail))

    def last_act(self, kind: str) -> datetime | None:
        """When something of this kind was last done to the system itself."""
        return self.read(lambda db: history.last_act(db, kind))

    # inside

    def _settle_and_claim(
        self, db: Db, outcomes: Sequence[Outcome], request: ClaimRequest | None, actor: str
    ) -> "tuple[list[State | None], Claimed] | Deferred[tuple[list[State | None], Claimed]]":
        done = settle.settle(db, self.fresh_catalog(db), outcomes, actor) if outcomes else []
        claimed = Claimed([]) if request is None else self._claim(db, request)
        if isinstance(claimed, Deferred):
            return Deferred(lambda: (done, self._filled(db, claimed.finish())))
        return done, self._filled(db, claimed)

    def _filled(self, db: Db, claimed: Claimed) -> Claimed:
        take_again(db, self.catalog, claimed.executions)
        return claimed

    def _claim(self, db: Db, request: ClaimRequest) -> "Claimed | Deferred[Claimed]":
        if self.dialect == "postgres":
            return claim_postgres.claim(db, self.catalog, request, self._memory)
        now = moment(db.rows(tasks.NOW)[0][0]).timestamp()
        claimed = claim_sqlite.claim(db, self.catalog, request, self._memory.last_tenant, now)
        if claimed.executions:
            self._memory.last_tenant = claimed.executions[-1].tenant_id
        return claimed

    def _ended(self, ended: list[Task]) -> list[Task]:
        self.families.look_after(
            each for task in ended for each in (task.id if task.has_children else None, task.parent_id)
        )
        return ended

    def _edit(self, operation: Callable[[Db], T]) -> T:
        """A change of limits: something may start that could not before."""

        def edit(db: Db) -> T:
            result = operation(db)
            db.news.room["any"] = 1
            return result

        return self.write(edit)
