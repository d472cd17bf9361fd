"""Schedules: made, edited, put on and taken off line by people and programs; fired by whoever looks first."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import headgate.store.schedules.rows as periodic
import headgate.store.schedules.tick_runs as runs
import headgate.store.schedules.ticks as ticks
from headgate.core.errors import Invalid
from headgate.core.schedule import NewSchedule, Schedule, ScheduleStatus, TickLog, check_schedule, task_for_tick
from headgate.core.task import check_name
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.database import Database
from headgate.store.db.statement import Db, clock
from headgate.store.events.audit import PERSON, SYSTEM, record_system
from headgate.store.schedules.tick_runs import EndedRun, HttpCall
from headgate.store.schedules.ticks import Begun, Fired, Firing
from headgate.store.tasks.idempotency import Idempotency, recall, remember

FIRST = (datetime(1970, 1, 1, tzinfo=UTC), 0)


class Schedules:
    """Each tick of each online schedule is dealt with once, however many processes look after them."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._database = database
        self._catalog = catalog

    # what people and programs do

    def add(
        self,
        new: NewSchedule,
        *,
        status: ScheduleStatus = ScheduleStatus.NEW,
        actor: str = PERSON,
        once: Idempotency | None = None,
    ) -> Schedule:
        """Make a schedule; `UnknownType` if its ticks are to make tasks of a type that nobody knows."""
        check_schedule(new)
        if new.code is not None:
            raise Invalid("a code is a program's name for its schedule: register it")
        return self._database.write(lambda db: self._add(db, new, status, actor, once))

    def put(
        self,
        schedule_id: int,
        new: NewSchedule,
        *,
        status: ScheduleStatus | None = None,
        actor: str = PERSON,
        tenant_id: int | None = None,
    ) -> Schedule:
        """Replace all that a schedule says, but for its tenant and code; no program overwrites it afterwards.

        Its ticks go on undisturbed unless its expression, its zone or its status change; then they begin anew, now.
        """
        check_schedule(new)
        return self._database.write(lambda db: self._put(db, schedule_id, new, status, actor, tenant_id))

    def register(self, wanted: Collection[NewSchedule], *, actor: str = SYSTEM) -> None:
        """What a program declares, by code: a new one goes online, what a person edited or took offline stays so.

        A transaction for each that is not there, or not as declared.
        """
        for new in wanted:
            check_schedule(new)
        codes = {new.code for new in wanted if new.code}
        if len(codes) < len(wanted):
            raise Invalid("a program's schedules have codes, each its own")
        known = {row.definition.code: row for row in self._database.read(lambda db: periodic.of_codes(db, codes))}
        for new in wanted:
            found = known.get(new.code)
            if found is None or not (found.edited or found.definition == new):
                self._declare(new, actor)

    def _declare(self, new: NewSchedule, actor: str) -> None:
        def declare(db: Db) -> None:
            self._check_type(db, new)
            periodic.declare(db, new, actor)

        self._database.write(declare)

    def online(self, schedule_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Schedule:
        """Let it fire, from its next tick on. One that is online goes on undisturbed."""
        return self._set_status(schedule_id, ScheduleStatus.ONLINE, actor, tenant_id)

    def offline(self, schedule_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> Schedule:
        """Let it fire no more: once this has returned no tick of it makes a task, whoever is firing just now.

        Calls that nobody has begun to make are not made; one that is under way is not stopped.
        """
        return self._set_status(schedule_id, ScheduleStatus.OFFLINE, actor, tenant_id)

    def _set_status(self, schedule_id: int, status: ScheduleStatus, actor: str, tenant_id: int | None) -> Schedule:
        return self._database.write(lambda db: self._put(db, schedule_id, None, status, actor, tenant_id))

    def remove(self, schedule_id: int, *, actor: str = PERSON, tenant_id: int | None = None) -> None:
        """Forget a schedule. Its tasks go on; the lines of its log leave after their time."""
        self._database.write(lambda db: periodic.remove(db, schedule_id, actor, tenant_id))

    def trigger(
        self,
        schedule_id: int,
        *,
        actor: str = PERSON,
        tenant_id: int | None = None,
        once: Idempotency | None = None,
    ) -> Begun:
        """Do now what a tick would do, whatever its status; its ticks are not disturbed.

        `Refused` if it is not to overlap and something of it still goes on.
        """
        schedule = self.get(schedule_id, tenant_id)
        if schedule.definition.http is None:
            self._catalog.make_streams(self._catalog.with_type_defaults([task_for_tick(schedule, None)]))
        return self._database.write(lambda db: self._trigger(db, schedule_id, actor, tenant_id, once))

    def get(self, schedule_id: int, tenant_id: int | None = None) -> Schedule:
        """A schedule; `NotFound`, also for another tenant's."""
        return self._database.read(lambda db: periodic.read(db, schedule_id, tenant_id))

    def find(
        self,
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
        return self._database.read(lambda db: periodic.find(db, tenant_id, status, type_code, cursor, limit))

    def logs(
        self, schedule_id: int, tenant_id: int | None = None, *, cursor: int | None = None, limit: int = 50
    ) -> list[TickLog]:
        """A page of a schedule's log, newest first."""
        return self._database.read(lambda db: periodic.logs(db, schedule_id, tenant_id, cursor, limit))

    def now(self) -> datetime:
        """What time it is by the clock that ticks are reckoned by."""
        return self._database.read(clock)

    # what duties do

    def next_due(self) -> float | None:
        """Seconds until the next tick, 0 or less if it has come; None if nothing is online."""
        return self._database.read(periodic.next_due)

    def due(self, limit: int = 500, after: tuple[datetime, int] = FIRST) -> tuple[list[Schedule], datetime]:
        """Schedules whose tick has come, the earliest first, behind the tick and id of one; and what time it is."""
        return self._database.read(lambda db: periodic.due(db, limit, after))

    def fire(self, firings: Sequence[Firing]) -> Fired:
        """Do what was reckoned of each, if it still stands: tick, task, audit row and log in one transaction."""
        catalog = self._catalog.recent()
        tasks = [firing.schedule for firing in firings if firing.schedule.definition.http is None]
        fit = [task_for_tick(each, None) for each in tasks if ticks.problem_of(each, catalog) is None]
        self._catalog.make_streams(self._catalog.with_type_defaults(fit))
        return self._database.write(lambda db: ticks.fire(db, self._catalog.fresh(db), firings))

    def log_unfired(self, schedule: Schedule, error: str) -> None:
        """Let its log say why its tick is still due, if that was missed; once, and until the tick is fired."""
        self._database.write(lambda db: ticks.log_unfired(db, schedule, error))

    def end_runs(self, after: int = 0, limit: int = 1000) -> tuple[int, int | None]:
        """Write the end of those of a page of runs whose task has ended; how many, and where to go on.

        The look is one transaction; the writing, if there is something to write, another.
        """
        ended, go_on = self._database.read(lambda db: runs.look(db, after, limit))
        return self._end_runs(ended) if ended else 0, go_on

    def _end_runs(self, ended: Sequence[EndedRun]) -> int:
        return self._database.write(lambda db: runs.end(db, ended))

    def calls_wait(self) -> bool:
        """Whether there are calls that nobody has taken."""
        return self._database.read(runs.any_waiting)

    def take_calls(self, caller: str, limit: int) -> list[HttpCall]:
        """Calls to make: from now on they are this caller's, and nobody else ever makes them."""
        return self._database.write(lambda db: runs.take(db, caller, limit))

    def end_call(self, call: HttpCall, error: str | None = None) -> bool:
        """Write how a call ended; False if it was given up for lost before."""
        return self._database.write(lambda db: runs.end_call(db, call.run_id, call.caller, error))

    def calls_under_way(self, limit: int = 1000) -> list[tuple[int, str]]:
        """Calls that somebody makes: run and caller."""
        return self._database.read(lambda db: runs.under_way(db, limit))

    def give_up_calls(self, calls: Collection[tuple[int, str]]) -> int:
        """The callers of these are lost: their logs end as failures, and the calls are not made again."""
        return self._database.write(lambda db: runs.give_up(db, calls))

    def forget_logs(self, *, seconds: float, limit: int = 1000) -> int:
        """Remove a batch of the log that is older than that; how many lines."""
        return self._database.write(lambda db: periodic.forget_logs(db, seconds, limit))

    # inside

    def _check_type(self, db: Db, new: NewSchedule) -> None:
        if new.http is None:
            self._catalog.fresh(db).find_type(db, new.task.type)

    def _add(self, db: Db, new: NewSchedule, status: ScheduleStatus, actor: str, once: Idempotency | None) -> Schedule:
        self._check_type(db, new)
        [made] = _once(db, new.task.tenant_id, once, lambda: [periodic.add(db, new, status, actor, edited=True).id])
        return periodic.read(db, made)

    def _put(
        self,
        db: Db,
        schedule_id: int,
        new: NewSchedule | None,
        status: ScheduleStatus | None,
        actor: str,
        tenant_id: int | None,
    ) -> Schedule:
        before = periodic.read(db, schedule_id, tenant_id, hold=True)
        definition, status, edited = before.definition, status or before.status, before.edited
        if new is not None:
            self._check_type(db, new)
            definition = replace(new, task=new.task._replace(tenant_id=before.tenant_id), code=definition.code)
            edited = True
        if (definition, status, edited) == (before.definition, before.status, before.edited):
            return before
        return periodic.change(db, before, definition, status, actor, edited=edited)

    def _trigger(self, db: Db, schedule_id: int, actor: str, tenant_id: int | None, once: Idempotency | None) -> Begun:
        schedule = periodic.read(db, schedule_id, tenant_id, hold=True)
        self._check_type(db, schedule.definition)

        def begin() -> list[int]:
            begun = ticks.by_hand(db, self._catalog, schedule, actor)
            record_system(db, "periodic_triggered", actor, json.dumps({"periodic_task": schedule_id}))
            return [begun.task_id or 0, begun.log_id or 0]

        task_id, log_id = _once(db, schedule.tenant_id, once, begin)
        return Begun(task_id or None, log_id or None)


def _once(db: Db, tenant_id: int, once: Idempotency | None, make: Callable[[], list[int]]) -> list[int]:
    """What `make` gives, unless this key was used before: then what it gave then."""
    if once is None:
        return make()
    if (before := recall(db, tenant_id, once)) is not None:
        return before
    made = make()
    remember(db, tenant_id, once, made)
    return made
