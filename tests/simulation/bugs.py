"""Bugs to be planted in the engine, one at a time: each as a tired colleague might have written it."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pytest

import headgate.core.machine as machine
import headgate.store.claim.contract as claims
import headgate.store.claim.sqlite as claim_sqlite
import headgate.store.db.migrate as migrate
import headgate.store.events.feed as feed
import headgate.store.execution.executions as executions
import headgate.store.execution.reports as reports
import headgate.store.execution.revoke as revoke
import headgate.store.history.history as history
import headgate.store.tasks.actions as actions
import headgate.store.tasks.families as families
import headgate.store.tasks.idempotency as idempotency
import headgate.store.tasks.mutex_queue as mutex_queue
import headgate.store.tasks.tasks as tasks
import headgate.store.tasks.transitions as transitions
from headgate.core.choice import Candidate, Choice, choose
from headgate.core.compensation import Polling
from headgate.core.end_reasons import EndReason
from headgate.core.holds import Asked
from headgate.core.limits import Rate
from headgate.core.machine import Change, LeaseLost, Subject, decide
from headgate.core.mutex import QueuePlace, rearrange
from headgate.core.states import HELD, State
from headgate.core.task import Execution, NewTask, Task, TaskType
from headgate.core.turns import Turns, Weights
from headgate.duties.reaper import Reaper
from headgate.simulation.agent import LoopAgent
from headgate.simulation.plan import AGENTS, CHAOS_SECONDS, CLIENTS, DUTIES, WORKERS, Move, Plan, plan
from headgate.simulation.tasks import ERRAND
from headgate.store.claim.contract import LANES_AND_PAUSES, ClaimRequest
from headgate.store.claim.sqlite import SqliteClaims
from headgate.store.db.sqlite import Sqlite
from headgate.store.db.statement import NOW, Db, PendingRows, Row, Statement
from headgate.store.execution.executions import Executions
from headgate.store.reading.lists import Filter
from headgate.store.store import Store
from headgate.store.tasks.idempotency import Idempotency
from headgate.store.tasks.submit import Submitted
from headgate.store.tasks.transitions import Write
from headgate.worker.pool import Pool

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


class Bug(NamedTuple):
    """What to plant, which promises it may be seen to break, on which database, and what has to happen besides.

    `alone`: instead of what else would happen. `broker`: where there is one.
    """

    plant: Plant
    breaks: frozenset[str]
    database: str
    more: tuple[Move, ...]
    alone: bool
    broker: bool

    def plan(self, seed: int) -> Plan:
        drawn = plan(seed, self.broker or None)
        others = () if self.alone else drawn.moves
        return Plan(seed, sorted([*others, *self.more], key=lambda move: move.at), drawn.broker)


BUGS: dict[str, Bug] = {}


def bug(
    *breaks: str, database: str = "sqlite", more: Iterable[Move] = (), alone: bool = False, broker: bool = False
) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        BUGS[plant.__name__] = Bug(plant, frozenset(breaks), database, tuple(more), alone, broker)
        return plant

    return keep


def submits(
    at: float, count: int, type: str, *, seconds: float = 0.05, stubborn: bool = False, ends: Sequence[str] = ("ok",),
    children: int = 0,
) -> list[Move]:  # fmt: skip
    parameters = {"type": type, "seconds": seconds, "ends": list(ends), "children": children, "stubborn": stubborn}
    return [
        Move(at, "submit", {**parameters, "client": CLIENTS[number % 2], "key": f"one more wish {number}"})
        for number in range(count)
    ]


def cancels(*times: float) -> list[Move]:
    return [Move(at, "cancel", {"client": CLIENTS[0], "pick": at % 1}) for at in times]


def faults(what: str, processes: Iterable[str], *times: float, within: str | None = None) -> list[Move]:
    return [Move(at, what, {"process": process, "within": within}) for at in times for process in processes]


def reworded(statement: Statement, before: str, after: str) -> Statement:
    """The statement with something else in SQLite's text."""
    assert before in statement.sqlite
    other = copy(statement)
    object.__setattr__(other, "sqlite", statement.sqlite.replace(before, after))
    return other


class Through:
    """A transaction as it is, but for what a subclass does otherwise."""

    def __init__(self, db: Any) -> None:
        self.db = db

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)


# Who goes first


def flood() -> list[Move]:
    """Many urgent tasks of one tenant, and behind them one of another."""
    urgent = submits(0.5, 80, "narrow", seconds=0.3)
    quiet = Move(0.6, "submit", {**urgent[0].parameters, "key": "a quiet wish", "priority": 9, "tenant_id": 1})
    return [*(Move(at, what, {**parameters, "priority": 1}) for at, what, parameters in urgent), quiet]


@bug("I14", alone=True, more=flood())
def priority_comes_before_fairness(patch: Patch) -> None:
    """Priorities are compared whosever tasks they are of."""

    def choose_by_priority(
        candidates: Iterable[Candidate], room: Mapping[str, int], limit: int, turns: Turns, weights: Weights,
        asked: Asked,
    ) -> Choice:  # fmt: skip
        known = {candidate.id: candidate for candidate in candidates}
        alike = [c._replace(tenant_id=0, mutex=c.mutex and f"{c.tenant_id} {c.mutex}") for c in known.values()]
        choice = choose(alike, room, limit, turns, weights, asked)
        choice.chosen = [known[candidate.id] for candidate in choice.chosen]
        return choice

    patch.setattr(claims, "choose", choose_by_priority)
    patch.setattr(claim_sqlite, "choose", choose_by_priority)


# Who owns a task


@bug("I1", "I2", "I3", "I5", "I6")  # and whom it robs is told nothing
def the_fence_is_dropped(patch: Patch) -> None:
    """A report of an end is taken by the task's id, whichever execution it comes from."""
    finish_by_id = reworded(transitions.FINISH, "AND exec_id = :exec_id ", "")

    def finish(db: Db, change: Change, ended: Sequence[tuple[int, str, str]], actor: str) -> set[int]:
        before, after = State.RUNNING.value, change.status.value
        found = {row[0]: row for row in db.rows(transitions.STILL_OWNED, ids=[row[0] for row in ended])}
        running = [row for row in sorted(ended) if row[0] in found]
        db.many(finish_by_id, ("id", "exec_id", "result"), running, before=before, after=after)
        db.note(
            lambda: [
                (task_id, found[task_id][2], found[task_id][3] + 1, change.kind, before, after, exec_id, None)
                for task_id, exec_id, _ in running
            ],
            actor,
        )
        return {row[0] for row in running}

    patch.setattr(executions, "finish", finish)
    patch.setattr(transitions, "APPLY", reworded(transitions.APPLY, "THEN exec_id = :exec_id", "THEN true"))


@bug("I2", "I3", "I10")
def the_reaper_goes_by_id(patch: Patch) -> None:
    """What a lost worker held is read in one transaction and put back in another, as it was when it was read."""
    guard = transitions.APPLY.sqlite.partition("WHERE id = :id")[2].partition("RETURNING")[0]
    apply_by_id = reworded(transitions.APPLY, guard, " ")

    class ById(Through):
        def each(self, statement: Statement, names: Sequence[str], rows: Sequence[Row], **common: Any) -> PendingRows:
            answer: PendingRows = self.db.each(apply_by_id, names, rows, **common)
            return answer

    def put_back(self: Store, held: Sequence[Task]) -> None:
        def put(db: Db) -> None:
            keys = [(task.tenant_id, task.mutex) for task in held if task.mutex is not None]
            changes = {task.id: decide(task, LeaseLost(), self.types.recent(task.type)) for task in held}
            writes = [Write(task.id, task.status, changes[task.id], task.seq, task.exec_id) for task in held]
            transitions.apply(ById(db), writes, "system:reaper")
            mutex_queue.settle_queues(db, keys)

        self.database.write(put)

    async def rescue(self: Reaper) -> int:
        running = await self._in_thread(partial(self._store.tasks.find, Filter(status=tuple(HELD)), limit=200))
        workers = await self._in_thread(partial(self._store.workers.all, lost_too=True))
        lost = {worker.id for worker in workers if worker.lost}
        held = [task for task in running.items if task.worker_id in lost]
        if held:
            await self._in_thread(self._store.put_back, held)  # type: ignore[attr-defined]
        return len(held)

    patch.setattr(Store, "put_back", put_back, raising=False)
    patch.setattr(Reaper, "_rescue", rescue)


@bug("I1", "I8", more=faults("no_answer", WORKERS, 0.1, 0.4, 1.0, 2.0, within="Executions.settle_and_claim"))
def a_claim_nobody_heard_of_is_forgotten(patch: Patch) -> None:
    """After an error the worker goes on with what it knows."""

    def give_back_strays(
        self: Executions, worker_id: int, types: Collection[str], known: Collection[str]
    ) -> list[Task]:
        return []

    patch.setattr(Executions, "give_back_strays", give_back_strays)


@bug("I1", "I8")
def a_report_that_failed_is_forgotten(patch: Patch) -> None:
    """After an error the worker begins afresh, with what it has begun."""
    back_off = Pool._back_off

    def begin_afresh(self: Pool, error: Exception) -> None:
        self._ended.clear()
        back_off(self, error)

    patch.setattr(Pool, "_back_off", begin_afresh)


@bug("I1", "I6", "I8")
def poison_has_no_end(patch: Patch) -> None:
    """That a lease was lost is not the task's fault, and is not counted."""
    lost = machine._lease_lost

    def uncounted(task: Subject, reason: str, alone: bool, rules: TaskType) -> Change:
        return replace(lost(task, reason, alone, rules), lost_count=None)

    patch.setattr(machine, "_lease_lost", uncounted)


# Limits


@bug("I4", "I5", more=[*submits(0.1, 8, "narrow", seconds=4.0, stubborn=True), *cancels(0.8, 1.7, 2.9, 3.95)])
def room_is_given_up_when_a_cancel_is_asked(patch: Patch) -> None:
    """Whoever was asked to stop is as good as gone."""
    counted = reworded(claim_sqlite.HELD_IN_LANE, "lane = :lane", "lane = :lane AND NOT cancel_requested")
    patch.setattr(claim_sqlite, "HELD_IN_LANE", counted)


@bug("I4", "I5")
def room_is_counted_in_an_earlier_transaction(patch: Patch) -> None:
    """A claim goes by what the process counted in the claim before it, and counts for the next one."""
    claim = SqliteClaims.take_in

    class Recalled(Through):
        def __init__(self, db: Any, counts: dict[str, list[Row]]) -> None:
            super().__init__(db)
            self.counts = counts

        def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
            found: list[Row] = self.db.rows(statement, **parameters)
            if statement is not claim_sqlite.HELD_IN_LANE:
                return found
            before = self.counts.get(parameters["lane"], found)
            self.counts[parameters["lane"]] = found
            return before

    def recall(self: SqliteClaims, db: Any, request: ClaimRequest) -> Any:
        return claim(self, Recalled(db, self.__dict__.setdefault("counts", {})), request)

    patch.setattr(SqliteClaims, "take_in", recall)


@bug("I4")
def a_pause_is_heard_of_a_second_later(patch: Patch) -> None:
    """Lanes are seldom edited: a process looks at them once a second."""
    claim = SqliteClaims.take_in

    class Recalled(Through):
        def __init__(self, db: Any, claims: SqliteClaims) -> None:
            super().__init__(db)
            self.claims = claims

        def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
            if statement is not LANES_AND_PAUSES:
                return self.db.rows(statement, **parameters)  # type: ignore[no-any-return]
            now, lanes = self.claims._cursors.monotonic(), str(parameters["names"])
            known = self.claims.__dict__.setdefault("lanes", {})
            if now - known.get(lanes, (-1.0, []))[0] >= 1.0:
                known[lanes] = now, self.db.rows(statement, **parameters)
            return known[lanes][1]  # type: ignore[no-any-return]

    patch.setattr(SqliteClaims, "take_in", lambda self, db, request: claim(self, Recalled(db, self), request))


@bug("I4", "I5")
def a_second_task_of_a_mutex_comes_forward(patch: Patch) -> None:
    """The line moves on whether or not somebody holds the mutex; and the index behind it is for speed alone."""

    def move_on(
        held: bool, family: Collection[int], queued: Iterable[QueuePlace], blocked: Iterable[QueuePlace]
    ) -> tuple[list[QueuePlace], list[QueuePlace]]:
        return rearrange(False, family, queued, blocked)

    schema, *later = migrate.migrations("sqlite")
    assert "UNIQUE INDEX headgate_task_mutex" in schema.text
    plain = replace(schema, text=schema.text.replace("UNIQUE INDEX headgate_task_mutex", "INDEX headgate_task_mutex"))
    patch.setattr(migrate, "migrations", lambda dialect: (plain, *later))
    patch.setattr(mutex_queue, "rearrange", move_on)


@bug("I4")
def a_stranger_comes_between_a_family(patch: Patch) -> None:
    """Who waits for its children holds nothing."""

    def for_all(
        held: bool, family: Collection[int], queued: Iterable[QueuePlace], blocked: Iterable[QueuePlace]
    ) -> tuple[list[QueuePlace], list[QueuePlace]]:
        return rearrange(held, (), queued, blocked)

    patch.setattr(mutex_queue, "rearrange", for_all)


@bug("I4", more=submits(1.0, 8, "limited"))
def a_bucket_left_alone_saves_up(patch: Patch) -> None:
    """The bucket's time is moved on from where it was, however long ago that is."""

    def take(limit: Rate, tat: float, now: float, count: int) -> float:
        return tat + count / limit.rate

    patch.setattr(claim_sqlite, "take", take)


# The end of the chaos wakes everybody once; that a bucket fills again behind it nobody tells.
@bug("I1", more=submits(CHAOS_SECONDS - 0.1, 12, "limited"))
def a_wake_up_missed_is_missed_for_good(patch: Patch) -> None:
    """Where nothing was found nobody looks again until somebody calls."""
    pause = Pool._pause

    def until_woken(self: Pool) -> float:
        left = pause(self)
        return left if left <= 0 or self._failures or self._busy else 3600.0

    patch.setattr(Pool, "_pause", until_woken)


# Starts that agents confirm


def errands(at: float, count: int, ends: list[str], **parameters: Any) -> list[Move]:
    return [
        Move(move.at, move.what, {**move.parameters, "ends": ends, "agent_id": "rig", **parameters})
        for move in submits(at, count, ERRAND)
    ]


@bug("I4", more=errands(2.0, 4, ["ok"]))
def the_start_queue_is_each_servers_own(patch: Patch) -> None:
    """What the last start was, each process remembers for itself."""
    patch.setattr(claim_sqlite, "note_starts", lambda db, choice, rows, seconds: None)


# Who does not reach the store confirms late: after others were handed the task, and before they have confirmed.
@bug(
    "I1", "I3", "I5", "I8",
    more=[*errands(2.0, 3, ["ok"]), *faults("unreached", AGENTS, 1.0, 1.2, 1.4, 1.6, within="Executions.start")],
)  # fmt: skip
def a_start_is_confirmed_by_id(patch: Patch) -> None:
    """Whoever confirms the start of a task that waits for it has started it."""

    def confirm(self: LoopAgent, scheduled: Execution) -> Execution | None:
        for holding in self._store.agents.holdings([scheduled.id]).values():
            if holding.execution.status is State.SCHEDULING:
                return scheduled if self._store.executions.start(scheduled.id, scheduled.exec_id) else None
            if holding.execution.exec_id == scheduled.exec_id:
                return holding.execution
        return None

    patch.setattr(reports, "START", reworded(reports.START, "AND exec_id = :exec_id", "AND :exec_id <> ''"))
    patch.setattr(LoopAgent, "_confirm", confirm)


# What was lost fills the lane, so that the queue before it cannot empty.
@bug("I1", "I8", more=errands(2.0, 3, ["forget", "ok"], lane="single"))
def compensation_waits_for_an_empty_queue(patch: Patch) -> None:
    """While starts wait for their turn nobody looks for lost ones, however long that is."""
    patch.setattr(Polling, "may_skip", lambda self, figures: True)


@bug(
    "I3", "I5", more=[*errands(2.0, 6, ["ok"]), *faults("no_answer", AGENTS, 1.9, 2.2, 3.0, within="Agents.hand_over")]
)
def a_repeated_claim_gets_whatever_its_tasks_are_by_now(patch: Patch) -> None:
    """A claim is remembered by its tasks, and not by their executions."""
    by_tasks = reworded(claims.ANSWERED, "SELECT task_ids, exec_ids", "SELECT task_ids, NULL")
    patch.setattr(claims, "ANSWERED", by_tasks)


# What is told


@bug("I1", "I2", "I3", "I6", "I8", "I12", "I13")
def an_answer_comes_before_its_commit(patch: Patch) -> None:
    """A commit for each is too slow: it is left to the tenth who writes."""

    def commit_seldom(self: Sqlite, inbox: deque[Any], calls: list[Any], answers: list[Any]) -> None:
        if not self._writer.in_transaction:
            self._writer.execute("BEGIN IMMEDIATE")
            self.__dict__["left"] = 10
        try:
            self._run_batch(inbox, calls, answers)
            self.__dict__["left"] -= 1
            if not self.__dict__["left"]:
                self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    patch.setattr(Sqlite, "_commit_together", commit_seldom)


@bug("I1", more=faults("no_answer", CLIENTS, 0.05, 0.2, 0.4))
def a_key_is_remembered_after_its_task(patch: Patch) -> None:
    """The task in one transaction, the idempotency key in the next."""
    patch.setattr(tasks.Tasks, "submit_many", Tasks.submit_many)


@bug("I2", "I3", "I4", "I10")  # what was put back seems to take up room still
def a_rescue_leaves_no_trace(patch: Patch) -> None:
    """The reaper puts tasks back without an audit row: nobody did anything to them."""

    class Silent(Through):
        def note(self, events: Callable[[], list[Row]], actor: str) -> None: ...

    def happen(db: Db, *what: Any) -> list[Write]:
        return transitions.happen(Silent(db), *what)

    patch.setattr(revoke, "happen", happen)


@bug("I6", "I13", database="postgres")
def a_gap_in_the_feed_is_forgotten(patch: Patch) -> None:
    """The highest id that was seen is cursor enough."""

    def no_gaps(db: Db, high: int, seen: Sequence[int]) -> list[feed.Gap]:
        return []

    patch.setattr(feed, "_new_gaps", no_gaps)


# Families and history


@bug("I8")
def a_family_is_closed_early(patch: Patch) -> None:
    """A child that waits for its time, or to be tried again, is not looked for."""
    patch.setattr(families, "_STATES", families._STATES | {"pending": "", "retrying": ""})


@bug("I8")
def a_parent_that_gives_up_orphans_its_children(patch: Patch) -> None:
    """Whoever fails for good ends at once, whatever it has begun."""

    given_up = machine._given_up

    def give_up(task: Subject, rules: TaskType, error: str, reason: EndReason, **counts: int | None) -> Change:
        change, end = given_up(task, rules, error, reason, **counts), machine._failed(reason, rules)
        return replace(change, status=end.status, kind=end.kind)

    patch.setattr(machine, "_given_up", give_up)


@bug("I8", more=submits(1.0, 6, "overseer", ends=["give up", "children"], children=3))
def a_replayed_parent_inherits_its_old_children(patch: Patch) -> None:
    """A dead parent that runs again counts the children of its first life too."""
    patch.setattr(actions, "NEW_LIFE", NOW)


@bug("I1", "I8", more=faults("crash_after", [DUTIES], 5.0, within="History.move"))
def history_is_written_after_the_removal(patch: Patch) -> None:
    """Finished tasks are taken out in one transaction and put into history in the next."""
    patch.setattr(history.History, "move", History.move)


# These have the names of the originals, so that faults find their transactions.


class Tasks(tasks.Tasks):
    """Two transactions where there was one."""

    _submit_many = tasks.Tasks.submit_many

    def submit_many(
        self,
        new_tasks: Sequence[NewTask],
        *,
        actor: str = "person",
        once: Idempotency | None = None,
        under: Execution | None = None,
        lock_seconds: float | None = None,
    ) -> list[Submitted]:
        submit = partial(Tasks._submit_many, self, new_tasks, actor=actor)
        if once is None:
            return submit(under=under)
        key = {"tenant_id": new_tasks[0].tenant_id, "key": once.key}
        if self._database.read(lambda db: db.rows(idempotency.REMEMBERED, **key)):
            return submit(once=once)
        made = submit()
        ids = [task.id for task in made]
        self._database.write(lambda db: _remember(db, new_tasks[0].tenant_id, once, ids))
        return made


def _remember(db: Db, tenant_id: int, once: Idempotency, ids: list[int]) -> None:
    idempotency.recall(db, tenant_id, once)
    idempotency.remember(db, tenant_id, once, ids)


class History(history.History):
    """Two transactions where there was one."""

    def move(self, *, seconds: float, limit: int = 1000, after: history.ArchiveCursor | None = None) -> history.Batch:
        def take_out(db: Db) -> list[Row]:
            at, last = after or history.FIRST
            found = db.rows(history.FINISHED, seconds=seconds, limit=limit, at=at, id=last)
            ids = [row[0] for row in found if row[2]]
            rows = db.rows(Statement(f"SELECT {history._ALL} FROM headgate_task WHERE id {{in ids}}"), ids=ids)
            db.send(history.REMOVE, ids=ids)
            return rows

        def put_in(db: Db) -> None:
            for row in rows:
                values = dict(zip(history._ALL.split(", "), row, strict=True))
                names = ", ".join(f":{name}" for name in values)
                db.send(Statement(f"INSERT INTO headgate_task_his ({history._ALL}) VALUES ({names})"), **values)

        rows = self._database.write(take_out)
        self._database.write(put_in)
        return history.Batch(len(rows), after, False)
