"""Schedules: made, edited, set online and offline by people and programs; fired by the first process that looks."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import headgate.store.schedules.rows as periodic
import headgate.store.schedules.tick_runs as runs
import headgate.store.schedules.ticks as ticks
from headgate.core.cron import GRACE
from headgate.core.errors import Invalid
from headgate.core.schedule import NewSchedule, Schedule, ScheduleStatus, TickLog, check_schedule, task_for_tick
from headgate.core.task import check_name, clip
from headgate.core.type_defaults import with_type_defaults
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.database import Database, Noun, reads, writes
from headgate.store.db.pages import LAST_ID, page_size
from headgate.store.db.statement import Db, clock, moment
from headgate.store.events.audit import PERSON, SYSTEM, record_system
from headgate.store.schedules.tick_runs import CallShare, Ended, HttpCall
from headgate.store.schedules.ticks import Begun, Fired, Firing
from headgate.store.tasks.idempotency import Idempotency, recall, remember

FIRST = (datetime(1970, 1, 1, tzinfo=UTC), 0)


class Schedules(Noun):
    """Each tick of each online schedule is dealt with once, however many processes look after them."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        super().__init__(database)
        self._catalog = catalog

    # what people and programs do

    @writes
    def add(
        self,
        db: Db,
        new: NewSchedule,
        *,
        status: ScheduleStatus = ScheduleStatus.NEW,
        actor: str = PERSON,
        once: Idempotency | None = None,
    ) -> Schedule:
        """Make a schedule; `UnknownType` if its ticks are to make tasks of an unknown type, `Invalid` if arguments are
        missing of which the type makes keys."""
        check_schedule(new)
        if new.code is not None:
            raise Invalid("only a program gives its schedule a code: register the schedule")
        self._check_task(db, new)
        [made] = _once(db, new.task.tenant_id, once, lambda: [periodic.add(db, new, status, actor, edited=True).id])
        return periodic.read(db, made)

    @writes
    def put(
        self,
        db: Db,
        schedule_id: int,
        new: NewSchedule,
        *,
        status: ScheduleStatus | None = None,
        actor: str = PERSON,
        tenant_id: int | None = None,
    ) -> Schedule:
        """Replace all of a schedule but its tenant and code; no program overwrites it afterwards.

        Its ticks continue as before unless its expression, its zone or its status changes; then they begin anew, now.
        """
        check_schedule(new)
        before = periodic.read(db, schedule_id, tenant_id, hold=True)
        self._check_task(db, new)
        http = None if new.http is None else new.http.instead_of(before.definition.http)
        task = new.task._replace(tenant_id=before.tenant_id)
        definition = replace(new, task=task, code=before.definition.code, http=http)
        return periodic.change(db, before, definition, status or before.status, actor, edited=True)

    def register(self, wanted: Collection[NewSchedule], *, actor: str = SYSTEM) -> None:
        """What a program declares, by code: a new one goes online, what a person edited or took offline stays so.

        A transaction for each that is not there, or not as declared.
        """
        for new in wanted:
            check_schedule(new)
        codes = {new.code for new in wanted if new.code}
        if len(codes) < len(wanted):
            raise Invalid("each schedule of a program needs a code of its own")
        known = {row.definition.code: row for row in self._database.read(lambda db: periodic.of_codes(db, codes))}
        for new in wanted:
            if _differs(new, known.get(new.code)):
                self._declare(new, actor)

    @writes
    def _declare(self, db: Db, new: NewSchedule, actor: str) -> None:
        """What a program says of its schedule, unless a person has said otherwise. Its status is people's alone."""
        self._check_type(db, new)
        found = periodic.hold_code(db, new.code)
        if found is None:
            periodic.add(db, new, ScheduleStatus.ONLINE, actor, edited=False)
        elif _differs(new, found):
            periodic.change(db, found, new, found.status, actor, edited=False)

    def online(self, schedule_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Schedule:
        """Let it fire, from its next tick on. A schedule that is online already continues as before."""
        return self._set_status(schedule_id, ScheduleStatus.ONLINE, actor, tenant_id)

    def offline(self, schedule_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Schedule:
        """Stop it from firing: after this returns, no tick of it makes a task, even one that is firing now.

        Calls that have not begun are dropped; a call under way is not stopped.
        """
        return self._set_status(schedule_id, ScheduleStatus.OFFLINE, actor, tenant_id)

    @writes
    def _set_status(
        self, db: Db, schedule_id: int, status: ScheduleStatus, actor: str, tenant_id: int | None
    ) -> Schedule:
        before = periodic.read(db, schedule_id, tenant_id, hold=True)
        return periodic.change(db, before, before.definition, status, actor, edited=before.edited)

    @writes
    def remove(self, db: Db, schedule_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> None:
        """Forget a schedule. Its tasks continue; its log lines are removed after their time."""
        periodic.remove(db, periodic.read(db, schedule_id, tenant_id, hold=True), actor)

    def trigger(
        self,
        schedule_id: int,
        *,
        actor: str = PERSON,
        tenant_id: int | None = None,
        once: Idempotency | None = None,
    ) -> Begun:
        """Do now what a tick would do, whatever its status; its ticks are not disturbed.

        `Refused` if it must not overlap and a task or call of it is still open.
        """
        schedule = self.get(schedule_id, tenant_id)
        if schedule.definition.http is None:
            new = self._catalog.with_type_defaults([task_for_tick(schedule, None)])
            self._catalog.make_streams(new, most_names=self._catalog.most_names)
        return self._trigger(schedule_id, actor, tenant_id, once)

    @writes
    def _trigger(self, db: Db, schedule_id: int, actor: str, tenant_id: int | None, once: Idempotency | None) -> Begun:
        schedule = periodic.read(db, schedule_id, tenant_id, hold=True)
        self._check_type(db, schedule.definition)

        def begin() -> list[int]:
            begun = ticks.by_hand(db, self._catalog, schedule, actor)
            record_system(db, "periodic_triggered", actor, json.dumps({"periodic_task": schedule_id}))
            return [begun.task_id or 0, begun.log_id or 0]

        task_id, log_id = _once(db, schedule.tenant_id, once, begin)
        return Begun(task_id or None, log_id or None)

    @reads
    def get(self, db: Db, schedule_id: int, tenant_id: int | None = None) -> Schedule:
        """A schedule; `NotFound`, also for another tenant's."""
        return periodic.read(db, schedule_id, tenant_id)

    @reads
    def find(
        self,
        db: Db,
        tenant_id: int | None = None,
        *,
        status: ScheduleStatus | None = None,
        type_code: str | None = None,
        cursor: int | None = None,
        limit: int = 50,
    ) -> list[Schedule]:
        """A page of schedules, newest first: a tenant's, or everybody's."""
        if type_code is not None:
            check_name("type", type_code, empty=True)
        rows = db.rows(
            periodic.LIST if tenant_id is None else periodic.LIST_OF_TENANT,
            tenant_id=tenant_id, status=status and status.value, type=type_code, cursor=cursor or LAST_ID,
            limit=page_size(limit),
        )  # fmt: skip
        return [periodic.schedule_of(row) for row in rows]

    @reads
    def logs(
        self, db: Db, schedule_id: int, tenant_id: int | None = None, *, cursor: int | None = None, limit: int = 50
    ) -> list[TickLog]:
        """A page of a schedule's log, newest first."""
        periodic.read(db, schedule_id, tenant_id)
        rows = db.rows(periodic.LOGS, id=schedule_id, cursor=cursor or LAST_ID, limit=page_size(limit))
        return [periodic.log_of(row) for row in rows]

    @reads
    def now(self, db: Db) -> datetime:
        """The time by the clock of the ticks."""
        return clock(db)

    # what duties do

    @reads
    def next_due(self, db: Db) -> float | None:
        """Seconds until the next tick, 0 or less if it is due; None if nothing is online."""
        seconds: float | None = db.rows(periodic.NEXT_DUE)[0][0]
        return seconds

    @reads
    def due(self, db: Db, limit: int = 500, after: tuple[datetime, int] = FIRST) -> tuple[list[Schedule], datetime]:
        """Schedules whose tick is due, the earliest first, after the given tick and id; and the current time."""
        rows = db.rows(periodic.DUE, limit=limit, tick=after[0], id=after[1])
        return [periodic.schedule_of(row[:-1]) for row in rows], moment(rows[0][-1]) if rows else clock(db)

    def fire(self, firings: Sequence[Firing]) -> Fired:
        """Fire what was worked out for each, if it still holds: tick, task, audit row and log in one transaction."""
        catalog = self._catalog.recent()
        tasks = [firing.schedule for firing in firings if firing.schedule.definition.http is None]
        fit = [task_for_tick(each, None) for each in tasks if ticks.problem_of(each, catalog) is None]
        self._catalog.make_streams(self._catalog.with_type_defaults(fit))
        return self._database.write(lambda db: ticks.fire(db, self._catalog.fresh(db), firings))

    @writes
    def log_unfired(self, db: Db, schedule: Schedule, error: str) -> None:
        """Log why a missed tick is still due; once, and until the tick is fired."""
        db.send(
            ticks.LOG_UNFIRED,
            id=schedule.id, version=schedule.version, tick=schedule.next_tick, error=clip(ticks.UNFIRED + error),
            seconds=GRACE.total_seconds(),
        )  # fmt: skip

    def end_runs(self, after: int = 0, limit: int = 1000) -> tuple[int, int | None]:
        """Write the end of each run of a page whose task has ended; how many, and where to continue.

        Reading is one transaction; writing, if there is something to write, another.
        """
        ended, go_on = self._database.read(lambda db: runs.look(db, after, limit))
        return self._end_runs(ended) if ended else 0, go_on

    @writes
    def _end_runs(self, db: Db, ended: Ended) -> int:
        return runs.end(db, ended)

    @reads
    def waiting_calls(
        self,
        db: Db,
        after: int = runs.FIRST_TENANT,
        *,
        tenants: int,
        hosts: int,
        last_hosts: Mapping[int, str] | None = None,
    ) -> dict[int, list[str]]:
        """A page of the tenants whose calls no caller has taken, behind `after`, with hosts they go to, each tenant's
        behind its last one."""
        return runs.waiting(db, after, tenants, hosts, last_hosts or {})

    @writes
    def take_calls(self, db: Db, caller: str, shares: Sequence[CallShare]) -> list[HttpCall]:
        """Take calls to make: from now on they belong to this caller, and no other ever makes them."""
        return runs.take(db, caller, shares)

    @writes
    def end_call(self, db: Db, call: HttpCall, error: str | None = None) -> bool:
        """Write how a call ended; False if it was given up for lost before."""
        return runs.end_call(db, call.run_id, call.caller, error)

    @reads
    def calls_under_way(self, db: Db, limit: int = 1000) -> list[tuple[int, str]]:
        """Calls under way: run and caller."""
        return [(run_id, str(caller)) for run_id, caller in db.rows(runs.UNDER_WAY, limit=limit)]

    @writes
    def give_up_calls(self, db: Db, calls: Collection[tuple[int, str]]) -> int:
        """The callers of these are lost: their logs end as failures, and the calls are not made again."""
        return sum(runs.end_call(db, run_id, caller, runs.LOST) for run_id, caller in sorted(calls))

    @writes
    def forget_logs(self, db: Db, *, seconds: float, limit: int = 1000) -> int:
        """Remove a batch of the log that is older than that; how many lines."""
        return len(db.rows(periodic.OLD_LOGS, seconds=seconds, limit=limit))

    def _check_type(self, db: Db, new: NewSchedule) -> None:
        if new.http is None:
            self._catalog.fresh(db).find_type(db, new.task.type)

    def _check_task(self, db: Db, new: NewSchedule) -> None:
        """Raise `Invalid` for a task that a submit would refuse: later, each tick would fail."""
        if new.http is None:
            with_type_defaults(new.task, self._catalog.fresh(db).find_type(db, new.task.type))


def _differs(new: NewSchedule, known: Schedule | None) -> bool:
    """Whether a program's declaration must be written: the schedule is new, or differs and no person edited it."""
    return known is None or not (known.edited or known.definition == new)


def _once(db: Db, tenant_id: int, once: Idempotency | None, make: Callable[[], list[int]]) -> list[int]:
    """What `make` gives, unless this key was used before: then what it gave then."""
    if once is None:
        return make()
    if (before := recall(db, tenant_id, once)) is not None:
        return before
    made = make()
    remember(db, tenant_id, once, made)
    return made
