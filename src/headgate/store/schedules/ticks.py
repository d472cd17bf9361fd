"""Ticks: a schedule is moved on, its task or call is made and its log is written, in one transaction.

A process reads the schedule and works out its ticks without a lock. Here its row is locked first, and the result is
discarded unless the row is still as it was read: so each tick is dealt with once, however many processes try, and no
tick fires after a person has taken the schedule offline.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from headgate.core.cron import GRACE, DueTicks, Overlap, allowed_by_overlap
from headgate.core.errors import Invalid, Refused
from headgate.core.schedule import LogMode, Result, Schedule, ScheduleStatus, task_for_tick, tick_text
from headgate.core.task import NewTask
from headgate.core.type_defaults import with_type_defaults
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import stream_key
from headgate.store.db.deferred import settled
from headgate.store.db.statement import Db, Row, Statement, insert_rows, moment, moment_or_none
from headgate.store.events.audit import record_system
from headgate.store.tasks.submit import insert

ACTOR = "system:periodic"
UNFIRED = "not fired yet: "


class Firing(NamedTuple):
    """The ticks of a schedule to deal with at `now`; the schedule as it was read."""

    schedule: Schedule
    now: datetime
    ticks: DueTicks


class Fired(NamedTuple):
    """How many schedules had ticks to deal with, how many ticks fired, and how many of them are calls to make."""

    schedules: int = 0
    ticks: int = 0
    calls: int = 0


class Tick(NamedTuple):
    """A tick of a schedule, or (`at` None) a trigger by hand; with `refused` it does nothing, and that is why."""

    schedule: Schedule
    at: datetime | None
    refused: str | None = None


class Begun(NamedTuple):
    """What a tick began: a task, or (`task_id` None) a call; and the line of the log that says so, if there is one."""

    task_id: int | None
    log_id: int | None


# A row that another process has locked is being fired by it: there is nothing to wait for.
HOLD = Statement(
    """
    SELECT id, version, status, next_tick, {now} FROM headgate_periodic_task WHERE id {in ids}
     ORDER BY id {lock FOR NO KEY UPDATE SKIP LOCKED}
    """
)
_MOVE_NAMES = ("id", "next_tick", "done_until")
MOVE = Statement(
    sqlite="UPDATE headgate_periodic_task SET next_tick = :next_tick, done_until = :done_until WHERE id = :id",
    postgres="""
    UPDATE headgate_periodic_task p SET next_tick = o.next_tick, done_until = o.done_until
      FROM unnest(:id::bigint[], :next_tick::timestamptz[], :done_until::timestamptz[]) AS o(id, next_tick, done_until)
     WHERE p.id = o.id AND p.id = ANY(:id::bigint[])
    """,
)
# A task that has left for history has ended.
BUSY = Statement(
    """
    SELECT r.periodic_task_id, min(r.task_id) FROM headgate_periodic_run r
     WHERE r.periodic_task_id {in ids}
       AND (r.task_id IS NULL OR (SELECT status FROM headgate_task WHERE id = r.task_id)
                              IN ('pending', 'blocked', 'queued', 'scheduling', 'running', 'waiting', 'paused',
                                  'retrying'))
     GROUP BY r.periodic_task_id
    """
)
_LOG = {
    "periodic_task_id": "bigint", "tenant_id": "bigint", "result": "text", "error_info": "text", "tick": "timestamptz",
    "task_id": "bigint",
}  # fmt: skip
ADD_LOG = insert_rows("headgate_periodic_task_log", _LOG, now=["create_date", "update_date"], end="RETURNING id")
# Only for a tick that still waits: the process that fires it locks the row.
LOG_UNFIRED = Statement(
    """
    INSERT INTO headgate_periodic_task_log (periodic_task_id, tenant_id, result, error_info, tick,
                                            create_date, update_date)
    SELECT id, tenant_id, 'failure', :error, next_tick, {now}, {now} FROM headgate_periodic_task
     WHERE id = :id AND version = :version AND status = 'online' AND log = 'trans_log' AND next_tick = :tick
       AND next_tick < {now - :seconds} {lock FOR NO KEY UPDATE}
    ON CONFLICT (periodic_task_id, tick) WHERE tick IS NOT NULL DO NOTHING
    """
)
REMOVE_UNFIRED = Statement(
    f"""
    DELETE FROM headgate_periodic_task_log
     WHERE periodic_task_id = :id AND tick = :tick AND result = 'failure'
       AND substr(error_info, 1, {len(UNFIRED)}) = '{UNFIRED}'
    """
)
_RUN = {
    "periodic_task_id": "bigint", "tick": "timestamptz", "tenant_id": "bigint", "host": "text", "task_id": "bigint",
    "log_id": "bigint",
}  # fmt: skip
ADD_RUN = insert_rows("headgate_periodic_run", _RUN)


def fire(db: Db, catalog: Catalog, firings: Sequence[Firing]) -> Fired:
    """Fire the ticks of the schedules that are still as they were read."""
    held = {row[0]: row for row in db.rows(HOLD, ids=sorted(firing.schedule.id for firing in firings))}
    standing = [
        firing
        for firing in firings
        if _stands(firing, held.get(firing.schedule.id)) and _has_stream(firing.schedule, catalog)
    ]
    if not standing:
        return Fired()
    busy = _busy(db, [firing.schedule.id for firing in standing if firing.schedule.definition.overlap is Overlap.SKIP])
    moved = [(f.schedule.id, f.ticks.next and db.time(f.ticks.next), db.time(f.now)) for f in standing]
    db.many(MOVE, _MOVE_NAMES, sorted(moved))
    for firing in standing:
        _note_dropped(db, firing)
        _remove_unfired(db, firing, moment(held[firing.schedule.id][-1]))
    ticks = [tick for firing in standing for tick in _ticks(firing, catalog, busy.get(firing.schedule.id))]
    begin(db, catalog, ticks, ACTOR)
    fired = [tick for tick in ticks if tick.refused is None]
    return Fired(len(standing), len(fired), sum(tick.schedule.definition.http is not None for tick in fired))


def _stands(firing: Firing, row: Row | None) -> bool:
    """Whether the schedule is as it was read, and the clock was not set back before its ticks."""
    if row is None:
        return False
    _, version, status, next_tick, now = row
    schedule = firing.schedule
    last = max((firing.now, *firing.ticks.fire[-1:]))
    return (
        (version, status, moment_or_none(next_tick)) == (schedule.version, ScheduleStatus.ONLINE, schedule.next_tick)
        and moment(now) >= last
    )  # fmt: skip


def _has_stream(schedule: Schedule, catalog: Catalog) -> bool:
    """False for a moment after its type was edited: the next turn makes the stream."""
    if schedule.definition.http is not None or problem_of(schedule, catalog) is not None:
        return True
    return stream_key(_filled_in(schedule.definition.task, catalog)) in catalog.ids


def _filled_in(new: NewTask, catalog: Catalog) -> NewTask:
    return with_type_defaults(new, catalog.types[new.type])


def _busy(db: Db, ids: list[int]) -> dict[int, str]:
    """The schedules with a task or call that is still open, and which."""
    found = db.rows(BUSY, ids=sorted(ids)) if ids else []
    return {
        schedule_id: "a call is under way" if task_id is None else f"task {task_id} has not ended"
        for schedule_id, task_id in found
    }


def _ticks(firing: Firing, catalog: Catalog, busy: str | None) -> list[Tick]:
    schedule, fire = firing.schedule, firing.ticks.fire
    problem = problem_of(schedule, catalog)
    if problem is not None:
        return [Tick(schedule, tick, problem) for tick in fire]
    may = len(allowed_by_overlap(schedule.definition.overlap, fire, busy=busy is not None))
    skipped = f"skipped: {busy or 'the previous tick has not ended'}"
    return [Tick(schedule, tick, None if number < may else skipped) for number, tick in enumerate(fire)]


def problem_of(schedule: Schedule, catalog: Catalog) -> str | None:
    """Why a tick of it can make no task; None if it can, or makes none."""
    code = schedule.definition.task.type
    if schedule.definition.http is not None:
        return None
    if code not in catalog.types:
        return f"no task type {code!r}"
    try:
        _filled_in(schedule.definition.task, catalog)
    except Invalid as error:
        return str(error)
    return None


def _note_dropped(db: Db, firing: Firing) -> None:
    schedule = firing.schedule
    until = firing.ticks.dropped_until(schedule.next_tick) if schedule.next_tick else None
    if until is not None:
        missed = {
            "periodic_task": schedule.id,
            "missed": schedule.definition.missed,
            "first": tick_text(schedule.next_tick),
        }
        record_system(db, "ticks_missed", ACTOR, json.dumps(missed | {"until": tick_text(until)}))


def _remove_unfired(db: Db, firing: Firing, now: datetime) -> None:
    """Remove the line that said the tick waits: the tick is about to get its own."""
    tick = firing.schedule.next_tick
    if tick is not None and tick in firing.ticks.fire[:1] and now - tick > GRACE:
        db.send(REMOVE_UNFIRED, id=firing.schedule.id, tick=tick)


def by_hand(db: Db, catalog: Catalog, schedule: Schedule, actor: str) -> Begun:
    """Do what a tick would do; `Refused` if it must not overlap and a task or call of it is still open.

    The schedule's row is locked, and its type is known.
    """
    overlaps = schedule.definition.overlap is not Overlap.SKIP
    if not overlaps and (busy := _busy(db, [schedule.id])):
        raise Refused.of("schedule-overlaps", schedule_id=schedule.id, busy=busy[schedule.id])
    if not _has_stream(schedule, catalog):
        raise Refused.of("type-just-edited", type=schedule.definition.task.type)
    [begun] = begin(db, catalog, [Tick(schedule, None)], actor)
    return begun


def begin(db: Db, catalog: Catalog, ticks: Sequence[Tick], actor: str) -> list[Begun]:
    """Make the tasks of these ticks, note their calls, write their log. Types and streams must be known."""
    tasks = [_filled_in(task_for_tick(tick.schedule, tick.at), catalog) for tick in ticks if _makes_a_task(tick)]
    wishes = [(new, catalog.ids[stream_key(new)]) for new in tasks]
    made = iter(settled(insert(db, catalog, wishes, actor)) if wishes else ())
    task_ids = [next(made).id if _makes_a_task(tick) else None for tick in ticks]
    logged = {number: row for number, tick in enumerate(ticks) if (row := _log_of(db, tick, task_ids[number]))}
    ids = sorted(row[0] for row in db.each(ADD_LOG, tuple(_LOG), list(logged.values())).rows()) if logged else []
    log_ids = dict(zip(logged, ids, strict=True))
    begun = [Begun(task_id, log_ids.get(number)) for number, task_id in enumerate(task_ids)]
    runs = [
        (tick.schedule.id, tick.at and db.time(tick.at), tick.schedule.tenant_id, _host(tick.schedule), *what)
        for tick, what in zip(ticks, begun, strict=True)
        if _is_watched(tick)
    ]
    if runs:
        db.many(ADD_RUN, tuple(_RUN), runs)
    return begun


def _host(schedule: Schedule) -> str:
    return "" if schedule.definition.http is None else schedule.definition.http.host


def _makes_a_task(tick: Tick) -> bool:
    return tick.refused is None and tick.schedule.definition.http is None


def _is_watched(tick: Tick) -> bool:
    """Whether the end of what it began is needed later."""
    definition = tick.schedule.definition
    wanted = definition.http is not None or definition.log is LogMode.TRANS or definition.overlap is Overlap.SKIP
    return tick.refused is None and wanted


def _log_of(db: Db, tick: Tick, task_id: int | None) -> Row | None:
    """The log line of a tick. A trigger_log lists only ticks that fired, so a refused tick gets none."""
    schedule, log = tick.schedule, tick.schedule.definition.log
    if log is LogMode.NONE or (log is LogMode.TRIGGER and tick.refused is not None):
        return None
    result = Result.SUCCESS if log is LogMode.TRIGGER else Result.FAILURE if tick.refused else Result.EXECUTING
    at = tick.at and db.time(tick.at)
    return (schedule.id, schedule.tenant_id, result.value, tick.refused, at, task_id)
