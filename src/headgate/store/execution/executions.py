"""Executions: settled and reported on by their executors, or ended from outside. Each write names its exec_id."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any

import headgate.store.execution.reports as reports
import headgate.store.execution.revoke as revoke
from headgate.core.errors import HeadgateError, Invalid, StaleExecution, Unavailable
from headgate.core.machine import (
    CancelReached,
    Event,
    GivenBack,
    LeaseLost,
    Overdue,
    PauseReached,
    Raised,
    Returned,
    Snoozed,
    decide,
)
from headgate.core.states import FINAL, HELD, State
from headgate.core.task import MAX_PROGRESS_BYTES, Execution, Task, check_json, check_name, clip
from headgate.core.usage import Usage
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.version import AWAIT_EDITS
from headgate.store.claim.contract import (
    Claimed,
    ClaimRequest,
    Claims,
    Control,
    HeldBack,
    Outcome,
    execution_of,
    require_live,
)
from headgate.store.claim.freed import give_up, take_again
from headgate.store.db.database import Database
from headgate.store.db.deferred import Deferred, settled
from headgate.store.db.statement import Db, Row, Statement, moment
from headgate.store.events.audit import SYSTEM
from headgate.store.execution.handed import EXEC_ID, HandedStarts, Report, look_and_start, start_in
from headgate.store.execution.reports import LogLine
from headgate.store.execution.revoke import REAPER, take_away
from headgate.store.execution.usage import keep_usage
from headgate.store.tasks.families import Families
from headgate.store.tasks.mutex_queue import lock, settle_queues
from headgate.store.tasks.rows import hold
from headgate.store.tasks.transitions import Write, apply, finish, write_of

MUTEX_SECONDS = 2 * 3600.0
PROGRESS_EVENT_SECONDS = 1.0  # between two events of one execution's progress
Settled = tuple[list[State | None], Claimed]
Started = tuple[list[State | None], HandedStarts]
_ENDS = Raised | Snoozed | PauseReached | CancelReached | GivenBack | LeaseLost

STALE = json.dumps({"refusal": "stale-execution"})
REFUSE = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, exec_id, detail)
    SELECT id, tenant_id, 0, {now}, 'refused', :actor, :exec_id, :detail FROM headgate_task WHERE id = :id
    """
)


class Executions:
    """What is running, or handed over and about to run."""

    def __init__(self, database: Database, catalog: Catalog, claims: Claims, families: Families) -> None:
        self._database = database
        self._catalog = catalog
        self._claims = claims
        self._families = families

    # settled

    def settle(
        self, outcomes: Sequence[Outcome], *, actor: str = SYSTEM, frees_slots: bool = False
    ) -> list[State | None]:
        """Record how executions ended; what each task is now, or None where another exec_id owns it.

        Looks after families afterwards, in transactions of their own. `frees_slots`: the dispatcher is to hear of it.
        """
        if frees_slots:
            return self.settle_and_start(outcomes, 0, [], actor=actor)[0]
        return self.settle_and_claim(outcomes, None, actor=actor)[0]

    def settle_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, *, actor: str = SYSTEM
    ) -> Settled:
        """`settle` and `Claims.take` in one transaction: what a busy worker does all day."""
        if not outcomes and request is None:
            return [], Claimed([])
        done, claimed = self._database.write(lambda db: self._settle_and_claim(db, outcomes, request, actor))
        self._look_after_families(outcomes, done)
        return done, claimed

    def settle_and_start(
        self, outcomes: Sequence[Outcome], worker_id: int, handed: Sequence[Report], *, actor: str = ""
    ) -> Started:
        """`settle` and `start_handed` in one transaction; the dispatcher hears of the slots that are free again.

        Starts that have to be looked at first are in a second transaction.
        """
        actor = actor or f"worker:{worker_id}"

        def settle_and_start(db: Db) -> Started | Deferred[Started]:
            alive = db.send(reports.HOLD_LIVE_WORKER, worker_id=worker_id) if outcomes and handed else None
            done = self.settle_in(db, outcomes, actor) if outcomes else []
            if done:
                db.news.room["slots"] = len(done)
            if alive is not None:  # else the outcomes are not settled either
                require_live(alive.rows(), worker_id)
            started = start_in(db, self._catalog, worker_id, handed, actor)
            return Deferred(lambda: (done, settled(started)))

        done, started = self._database.write(settle_and_start)
        if started.unclear:
            started = self._start_unclear(started, worker_id, actor, keep=bool(done))
        self._look_after_families(outcomes, done)
        if started.held_back:
            with suppress(Unavailable):  # they stay handed over, come again, and are held back then
                self._take_away(lambda db: [*started.held_back], GivenBack(), actor, status=State.SCHEDULING)
        return done, started

    def _start_unclear(self, started: HandedStarts, worker_id: int, actor: str, *, keep: bool) -> HandedStarts:
        """Look at what could not be started at once; an error must not hide what is committed."""
        try:
            rest = self._database.write(lambda db: look_and_start(db, self._catalog, worker_id, started.unclear, actor))
        except HeadgateError:
            if not keep and not started.executions:
                raise
            rest = HandedStarts([], busy=started.unclear)
        executions = [*started.executions, *rest.executions]
        return HandedStarts(executions, started.stale | rest.stale, rest.held_back, rest.busy)

    def _look_after_families(self, outcomes: Sequence[Outcome], done: Sequence[State | None]) -> None:
        self._families.look_after(
            execution.id if after is State.WAITING else execution.parent_id
            for (execution, *_), after in zip(outcomes, done, strict=True)
            if after is State.WAITING or after in FINAL or after is State.DEAD
        )

    def _settle_and_claim(
        self, db: Db, outcomes: Sequence[Outcome], request: ClaimRequest | None, actor: str
    ) -> Settled | Deferred[Settled]:
        done = self.settle_in(db, outcomes, actor) if outcomes else []
        claimed = Claimed([]) if request is None else self._claims.take_in(db, request)

        def filled(claimed: Claimed) -> Settled:
            take_again(db, self._catalog, claimed.executions)
            return done, claimed

        if isinstance(claimed, Deferred):
            return Deferred(lambda: filled(claimed.finish()))
        return filled(claimed)

    def settle_in(self, db: Db, outcomes: Sequence[Outcome], actor: str) -> list[State | None]:
        """`settle`, as part of a transaction: decided by the state machine, written under the exec_id that reports."""
        catalog = self._catalog.fresh(db)
        reported = _first_reports(outcomes)
        keys = [(e.tenant_id, e.mutex) for e, _ in reported.values() if e.mutex is not None]
        lock(db, keys)
        # Of two reports on one task at least one is stale: the second, and what is no exec_id, is looked at singly.
        firsts: dict[int, Report] = {}
        for report in reported:
            if EXEC_ID.fullmatch(report[1]):
                firsts.setdefault(report[0], report)
        for outcome in sorted(outcomes, key=lambda outcome: outcome.execution.id):
            if outcome.progress is not None:
                _note_progress(db, outcome.execution.id, outcome.execution.exec_id, outcome.progress, actor, 0.0)
        measured = [outcome for outcome in outcomes if outcome.usage is not None]
        used = {(each.execution.id, each.execution.exec_id): each.usage for each in reversed(measured)}
        plain: dict[tuple[str, bool], list[tuple[int, str, str]]] = defaultdict(list)
        others: list[Write] = []
        for execution, event in (reported[report] for report in firsts.values()):
            if isinstance(event, Returned):
                plain[execution.type, event.completed].append((execution.id, execution.exec_id, event.result))
            else:
                change = decide(execution, event, catalog.type(execution.type))
                others.append(
                    Write(
                        execution.id, execution.status, change, exec_id=execution.exec_id, attempt=execution.attempt,
                        usage=used.get((execution.id, execution.exec_id)),
                    )
                )  # fmt: skip
        done: dict[Report, State] = {}
        for (type_code, completed), ended in plain.items():
            # A plain success is decided once for all of its type: nothing but the result differs.
            running = reported[firsts[ended[0][0]]][0]._replace(status=State.RUNNING)
            change = decide(running, Returned(completed=completed), catalog.type(type_code))
            done |= {firsts[task_id]: change.status for task_id in finish(db, change, ended, actor)}
        written = apply(db, others, actor)
        done |= {firsts[write.id]: write.change.status for write in others if write.id in written}
        if missed := {report: each for report, each in reported.items() if report not in done}:
            done |= _settle_again(db, catalog, missed, used, actor)
        if measured:
            keep_usage(db, [each for each in measured if (each.execution.id, each.execution.exec_id) in done])
        give_up(db, catalog, [reported[report][0] for report in done])
        settle_queues(db, keys)
        return [done.get((outcome.execution.id, outcome.execution.exec_id)) for outcome in outcomes]

    # started by who was handed it

    def start_handed(self, worker_id: int, handed: Sequence[Report], *, actor: str = "") -> HandedStarts:
        """Start tasks that the broker delivered to a worker, which owns them from now on; `WorkerLost` if it is lost.

        What was paused since goes back to its queue, in a transaction of its own: nothing is counted.
        """
        return self.settle_and_start([], worker_id, handed, actor=actor)[1]

    def start(self, task_id: int, exec_id: str, *, actor: str = SYSTEM) -> Execution | HeldBack | None:
        """Confirm the start of a task handed over as `scheduling`; None if it is not this exec_id's to start.

        What was paused since is held back. It goes to its queue as if given back: no error is counted, but the attempt
        and the tokens are used up, for the hand-over is on record.
        """
        return self._database.write(lambda db: self._start(db, task_id, exec_id, actor))

    def _start(self, db: Db, task_id: int, exec_id: str, actor: str) -> Execution | HeldBack | None:
        db.send(AWAIT_EDITS)
        found = db.rows(reports.TYPE_AND_STREAM, id=task_id)  # before the catalog: others must not wait for it
        if not found:
            return None
        [[type_code, stream_id]], catalog = found, self._catalog.fresh(db)
        stream = catalog.streams.get(stream_id)
        if stream is None:  # it was removed as the task came in, and the task gets another at once
            raise Unavailable(f"task {task_id} is being moved to another stream: try again")
        if (pause := catalog.pause_of(db, stream)) is not None:
            taken = take_away(db, catalog, [(task_id, exec_id)], GivenBack(), SYSTEM, State.SCHEDULING)
            return HeldBack(pause.text) if taken else None
        timeout = catalog.type(type_code).timeout_seconds
        started = db.rows(reports.START, id=task_id, exec_id=exec_id, before="scheduling", timeout=timeout, actor=actor)
        if not started:
            return None
        *row, seq = started[0]
        execution = execution_of(tuple(row), catalog)
        db.note(lambda: [(task_id, execution.tenant_id, seq, "started", "scheduling", "running", exec_id, None)], actor)
        return execution

    # reported on

    def progress(
        self, task_id: int, exec_id: str, progress: str, *, actor: str = SYSTEM, event: bool = False
    ) -> Control:
        """Note how far an execution is (JSON); what is asked of it. `StaleExecution` if it owns the task no more.

        Without `event`, a report within a second of the last progress event gets none of its own.
        """
        check_json("progress", progress, MAX_PROGRESS_BYTES)

        def note(db: Db, attempt: int) -> None:
            _note_progress(db, task_id, exec_id, progress, actor, 0.0 if event else PROGRESS_EVENT_SECONDS)

        return self._report(task_id, exec_id, note)

    def note_late_progress(self, task_id: int, exec_id: str, progress: str, *, actor: str = SYSTEM) -> None:
        """Write the event of a task's last progress after its execution has ended."""
        self._database.write(
            lambda db: db.rows(reports.NOTE_LATE_PROGRESS, id=task_id, exec_id=exec_id, progress=progress, actor=actor)
        )

    def add_log(self, task_id: int, exec_id: str, lines: Sequence[tuple[str, str]]) -> Control:
        """Keep log lines (level, message) with the task; like `progress` otherwise."""

        def add(db: Db, attempt: int) -> None:
            rows = [(task_id, attempt, clip(level), clip(text)) for level, text in lines]
            db.each(reports.ADD_LOG, ("task_id", "attempt", "level", "message"), rows)

        return self._report(task_id, exec_id, add)

    def save_checkpoint(self, task_id: int, exec_id: str, name: str, state: str) -> Control:
        """Keep a named state (JSON) that later executions of the task find; like `progress` otherwise."""
        check_name("checkpoint", name)
        check_json("checkpoint", state)

        def save(db: Db, attempt: int) -> None:
            db.send(reports.SAVE_CHECKPOINT, task_id=task_id, name=name, state=state)

        return self._report(task_id, exec_id, save)

    def _report(self, task_id: int, exec_id: str, keep: Callable[[Db, int], None]) -> Control:
        """Store what an execution reports, given its attempt, if it owns its task; returns what is requested of it."""

        @wraps(keep)  # a transaction goes by the name of the method that asks for it
        def report(db: Db) -> Control:
            for cancel, pause, attempt in db.rows(reports.OWNED, id=task_id, exec_id=exec_id):
                keep(db, attempt)
                return Control(bool(cancel), bool(pause))
            raise _stale(task_id, exec_id)

        return self._database.write(report)

    def log(self, task_id: int, *, after: int = 0, limit: int = 200) -> list[LogLine]:
        """A task's own log lines, oldest first."""
        rows = self._database.read(lambda db: db.rows(reports.LOG, task_id=task_id, after=after, limit=limit))
        return [LogLine(number, moment(at), attempt, level, message) for number, at, attempt, level, message in rows]

    def checkpoints(self, task_id: int) -> dict[str, str]:
        """What a task's executions have saved, by name, as JSON."""
        return self.checkpoints_of([task_id]).get(task_id, {})

    def checkpoints_of(self, ids: Sequence[int]) -> dict[int, dict[str, str]]:
        """`checkpoints` of many tasks; tasks without any are left out."""
        found: dict[int, dict[str, str]] = {}
        for task_id, name, state in self._database.read(lambda db: db.rows(reports.CHECKPOINTS, ids=list(ids))):
            found.setdefault(task_id, {})[name] = state
        return found

    # taken away

    def give_back(self, task_id: int, exec_id: str, *, actor: str = SYSTEM) -> None:
        """Release a task that has not failed: back to its queue, nothing counted."""
        if not self._take_away(lambda db: [(task_id, exec_id)], GivenBack(), actor):
            raise _stale(task_id, exec_id)

    def give_back_strays(self, worker_id: int, types: Collection[str], known: Collection[str]) -> list[Task]:
        """Give back tasks of `types` that a worker holds besides its `known` exec_ids: claims whose answer was lost."""

        def strays(db: Db) -> list[Row]:
            db.rows(revoke.HOLD_WORKER, worker_id=worker_id)
            held = db.rows(revoke.STRAYS, worker_id=worker_id, types=sorted(types))
            return sorted((task_id, exec_id) for task_id, exec_id in held if str(exec_id) not in known)

        return self._take_away(strays, GivenBack(), f"worker:{worker_id}")

    def rescue(self, worker_id: int, *, limit: int = 500) -> list[Task]:
        """Give back a page of what a lost worker held; returns those tasks as they were.

        It is unknown what ended the process: any of the tasks may have, and the loss counts only against one that was
        alone. A page never leaves a single task behind, which would then seem to have been alone.
        """
        held = self._database.read(lambda db: db.rows(revoke.HELD_BY, worker_id=worker_id, limit=limit + 2))
        page = held[:limit] if len(held) == limit + 2 else held
        return self._lose(page, LeaseLost(alone=len(held) == 1), REAPER)

    def bury(self, worker_id: int, death: revoke.Death, *, actor: str = SYSTEM) -> list[Task]:
        """End what a worker held, whose process the caller knows to be dead; returns those tasks as they were.

        A stuck execution is overdue if its deadline has passed. A task that may have killed the process is suspect, or
        counted if it was alone. All others are given back.
        """
        # Before it is declared lost: a reaper would take them for lost by an unknown cause.
        ended = self._end_left_behind(worker_id, death, actor)
        self._database.write(lambda db: db.rows(revoke.BURY, worker_id=worker_id))
        # A claim of its last moment may have been committed meanwhile.
        return ended + self._end_left_behind(worker_id, death, actor)

    def _end_left_behind(self, worker_id: int, death: revoke.Death, actor: str) -> list[Task]:
        left = self._database.read(lambda db: db.rows(revoke.LEFT_BEHIND, worker_id=worker_id))
        late = [(task_id, exec_id) for task_id, exec_id, is_late in left if is_late and str(exec_id) in death.stuck]
        ended = self._take_away(lambda db: late, Overdue(revoke.OUTLIVED), actor) if late else []
        others: dict[Event, list[Row]] = defaultdict(list)
        for task_id, exec_id, _ in left:
            if (task_id, exec_id) not in late:
                others[death.event(task_id, alone=len(left) == 1)].append((task_id, exec_id))
        for event, seen in others.items():
            ended += self._lose(seen, event, actor)
        return ended

    def _lose(self, seen: list[Row], event: Event, actor: str) -> list[Task]:
        """End executions whose process died. A task lost often enough beside others is counted as well: not every
        handler can be run apart, and one that kills its worker would do so for ever."""
        often: set[int] = set()
        if isinstance(event, LeaseLost) and not event.alone:
            losses = self._database.read(lambda db: db.rows(revoke.LOSSES, ids=[task_id for task_id, _ in seen]))
            often = {task_id for task_id, count in losses if count >= revoke.MOST_UNCOUNTED}
        ended = self._take_away(lambda db: [row for row in seen if row[0] not in often], event, actor)
        if isinstance(event, LeaseLost) and often:
            counted = LeaseLost(event.reason)
            ended += self._take_away(lambda db: [row for row in seen if row[0] in often], counted, actor)
        return ended

    def is_suspect(self, task_id: int) -> bool:
        """Whether the process of a task's last execution died, perhaps because of it: then it should run apart."""
        ends = self._database.read(lambda db: db.rows(revoke.LAST_END, task_id=task_id))
        return [kind for (kind,) in ends] == ["lease_lost"]

    def end_overdue(self, *, limit: int = 500, mutex_seconds: float = MUTEX_SECONDS) -> list[Task]:
        """End what is past its deadline, then what has held its mutex too long; those tasks, as they were.

        A worker that beats and ends such executions itself is left to it; what a silent one holds waits for `rescue`.
        Two transactions.
        """
        reports_it = {"says_so": revoke.SAYS_SO}
        if not self._database.read(lambda db: db.rows(revoke.ANY_OVERDUE, seconds=mutex_seconds, **reports_it)[0][0]):
            return []
        reason = Overdue(f"it held its mutex for more than {mutex_seconds:g} s")
        late = self._take_away(lambda db: db.rows(revoke.OVERDUE, limit=limit, **reports_it), Overdue(), REAPER)
        return late + self._take_away(
            lambda db: db.rows(revoke.MUTEX_OVERDUE, limit=limit, seconds=mutex_seconds, **reports_it), reason, REAPER
        )

    def return_unstarted(
        self, worker_id: int, only: Sequence[Report] | None = None, *, reason: str = "", actor: str = SYSTEM
    ) -> list[Task]:
        """Put tasks that a worker handed on and that have not started back in their queues: all, or `only` these."""

        def find(db: Db) -> list[Row]:
            return db.rows(revoke.UNSTARTED, worker_id=worker_id) if only is None else [*only]

        detail = {"reason": reason} if reason else None
        return self._take_away(find, GivenBack(), actor, status=State.SCHEDULING, detail=detail)

    def _take_away(
        self,
        find: Callable[[Db], list[Row]],
        event: Event,
        actor: str,
        *,
        status: State | None = None,
        detail: dict[str, Any] | None = None,
    ) -> list[Task]:
        """End what `find` finds (id, exec_id) in one transaction, then look after its families."""

        @wraps(find)  # a transaction goes by the name of the method that asks for it
        def take(db: Db) -> list[Task]:
            return take_away(db, self._catalog.fresh(db), find(db), event, actor, status, detail)

        ended = self._database.write(take)
        self._families.look_after(
            each for task in ended for each in (task.id if task.has_children else None, task.parent_id)
        )
        return ended


def _first_reports(outcomes: Sequence[Outcome]) -> dict[Report, tuple[Execution, Event]]:
    """Each execution's report, the first one if it reports twice; `Invalid` for what cannot be one."""
    reported: dict[Report, tuple[Execution, Event]] = {}
    for outcome in outcomes:
        execution, event = outcome.execution, outcome.event
        if isinstance(event, Returned):
            if event.result != "null":
                check_json("result", event.result)
        elif not isinstance(event, _ENDS):
            raise Invalid(f"{type(event).__name__} does not end an execution")
        if outcome.progress is not None:
            check_json("progress", outcome.progress, MAX_PROGRESS_BYTES)
        reported.setdefault((execution.id, execution.exec_id), (execution, event))
    return reported


def _note_progress(db: Db, task_id: int, exec_id: str, progress: str, actor: str, seconds: float) -> None:
    """Keep an execution's progress, and tell it unless that was done less than `seconds` ago."""
    ids = {"id": task_id, "exec_id": exec_id}
    db.send(reports.SET_PROGRESS, **ids, progress=progress)
    db.send(reports.DROP_PROGRESS, **ids, seconds=seconds)
    db.send(reports.NOTE_PROGRESS, **ids, progress=progress, actor=actor)


def _settle_again(
    db: Db,
    catalog: Catalog,
    missed: dict[Report, tuple[Execution, Event]],
    used: Mapping[Report, Usage | None],
    actor: str,
) -> dict[Report, State]:
    """What `decide` could not know: a parent waits for its children, a request comes first. The rest was stale."""
    held = {task.id: task for task in hold(db, [task_id for task_id, _ in missed])}
    writes, stale = [], []
    for (task_id, exec_id), (execution, event) in missed.items():
        task = held.get(task_id)
        if task is not None and task.status in HELD and task.exec_id == exec_id:
            change = decide(task, event, catalog.type(task.type))
            writes.append(write_of(task, change, used.get((task_id, exec_id))))
        else:
            stale.append(execution)
    _refuse(db, stale, actor)
    written = apply(db, writes, actor)
    return {(write.id, write.exec_id or ""): write.change.status for write in writes if write.id in written}


def _refuse(db: Db, stale: Sequence[Execution], actor: str) -> None:
    """Record that a report came under an exec_id that no longer owns its task (seq 0: no transition)."""
    for execution in stale:
        exec_id = execution.exec_id if EXEC_ID.fullmatch(execution.exec_id) else None
        db.send(REFUSE, id=execution.id, exec_id=exec_id, actor=actor, detail=STALE)


def _stale(task_id: int, exec_id: str) -> StaleExecution:
    return StaleExecution.of("stale-execution", exec_id=exec_id, task_id=task_id, status=None)
