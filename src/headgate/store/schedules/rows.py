"""The rows of schedules: read, made, edited, removed, each edit with its audit row."""

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import headgate.store.schedules.tick_runs as runs
from headgate.core.cron import Missed, Overlap
from headgate.core.errors import NotFound
from headgate.core.schedule import (
    LogMode,
    NewSchedule,
    Result,
    Schedule,
    ScheduleStatus,
    TickLog,
    first_tick,
    tick_text,
)
from headgate.core.task import NewTask
from headgate.store.db.statement import Db, Row, Statement, clock, moment, moment_or_none
from headgate.store.events.audit import changed, record_system

_DEFINITION = (
    "tenant_id", "type", "creator", "cron_expressions", "timezone", "log", "category", "ext", "missed", "overlap",
    "http", "options", "code", "http_by_tenant",
)  # fmt: skip
_COLUMNS = f"id, {', '.join(_DEFINITION)}, status, version, edited, next_tick, done_until, create_date, update_date"
_LOG_COLUMNS = "id, periodic_task_id, tenant_id, result, error_info, tick, task_id, create_date, update_date"

GET = Statement(f"SELECT {_COLUMNS} FROM headgate_periodic_task WHERE id = :id")
HOLD = Statement(f"{GET.common} {{lock FOR NO KEY UPDATE}}")
OF_CODES = Statement(f"SELECT {_COLUMNS} FROM headgate_periodic_task WHERE code {{in codes text}}")
HOLD_CODE = Statement(f"SELECT {_COLUMNS} FROM headgate_periodic_task WHERE code = :code {{lock FOR NO KEY UPDATE}}")
_WANTED = """
   AND id < :cursor AND (CAST(:status AS text) IS NULL OR status = :status)
   AND (CAST(:type AS text) IS NULL OR type = :type)
 ORDER BY id DESC LIMIT :limit
"""
LIST = Statement(f"SELECT {_COLUMNS} FROM headgate_periodic_task WHERE id > 0 {_WANTED}")
LIST_OF_TENANT = Statement(f"SELECT {_COLUMNS} FROM headgate_periodic_task WHERE tenant_id = :tenant_id {_WANTED}")
DUE = Statement(
    f"""
    SELECT {_COLUMNS}, {{now}} FROM headgate_periodic_task
     WHERE status = 'online' AND next_tick <= {{now}} AND (next_tick, id) > (:tick, :id)
     ORDER BY next_tick, id LIMIT :limit
    """
)
NEXT_DUE = Statement(
    sqlite="SELECT (min(next_tick) - :now) / 1000000.0 FROM headgate_periodic_task WHERE status = 'online'",
    postgres="""
    SELECT extract(epoch FROM min(next_tick) - {now})::float8 FROM headgate_periodic_task WHERE status = 'online'
    """,
)
LOGS = Statement(
    f"""
    SELECT {_LOG_COLUMNS} FROM headgate_periodic_task_log WHERE periodic_task_id = :id AND id < :cursor
     ORDER BY id DESC LIMIT :limit
    """
)


def read(db: Db, schedule_id: int, tenant_id: int | None = None, *, hold: bool = False) -> Schedule:
    """The schedule, locked until the commit if that is said; another tenant's is as absent as one that never was."""
    found = [schedule_of(row) for row in db.rows(HOLD if hold else GET, id=schedule_id)]
    if not found or tenant_id not in (None, found[0].tenant_id):
        raise NotFound.of("no-schedule", schedule_id=schedule_id)
    return found[0]


def of_codes(db: Db, codes: Collection[str]) -> list[Schedule]:
    return [schedule_of(row) for row in db.rows(OF_CODES, codes=sorted(codes))]


def hold_code(db: Db, code: str | None) -> Schedule | None:
    """The schedule that a program has given this code, locked until the commit; None if there is none."""
    rows = db.rows(HOLD_CODE, code=code)
    return schedule_of(rows[0]) if rows else None


# Edits

# A program that comes second with its code finds the schedule there.
ADD = Statement(
    f"""
    INSERT INTO headgate_periodic_task ({", ".join(_DEFINITION)}, status, edited, next_tick, create_date, update_date)
    VALUES ({", ".join(f":{name}" for name in _DEFINITION)}, :status, :edited, :next_tick, {{now}}, {{now}})
    ON CONFLICT (code) DO NOTHING
    RETURNING {_COLUMNS}
    """
)
SAVE = Statement(
    f"""
    UPDATE headgate_periodic_task
       SET {", ".join(f"{name} = :{name}" for name in _DEFINITION)}, status = :status, edited = :edited,
           next_tick = :next_tick, version = version + 1, update_date = {{now}}
     WHERE id = :id
    RETURNING {_COLUMNS}
    """
)
REMOVE = Statement("DELETE FROM headgate_periodic_task WHERE id = :id")
# The oldest come first, so that only these are looked at.
OLD_LOGS = Statement(
    """
    DELETE FROM headgate_periodic_task_log WHERE id IN (
           SELECT l.id FROM (SELECT id, create_date FROM headgate_periodic_task_log WHERE result <> 'executing'
                              ORDER BY id LIMIT :limit) l
            WHERE l.create_date < {now - :seconds})
    RETURNING 1
    """
)


def add(db: Db, new: NewSchedule, status: ScheduleStatus, actor: str, *, edited: bool) -> Schedule:
    next_tick = first_tick(new, clock(db), None) if status is ScheduleStatus.ONLINE else None
    rows = db.rows(ADD, **_columns(new), status=status.value, edited=edited, next_tick=next_tick)
    if not rows:  # another process made one with this code first
        return schedule_of(db.rows(HOLD_CODE, code=new.code)[0])
    made = schedule_of(rows[0])
    _record(db, "periodic_added", actor, made)
    return made


def change(
    db: Db, before: Schedule, definition: NewSchedule, status: ScheduleStatus, actor: str, *, edited: bool
) -> Schedule:
    """Write the new definition and status of a locked schedule. Its ticks begin anew if its clock changes."""
    if (definition, status, edited) == (before.definition, before.status, before.edited):
        return before
    next_tick = before.next_tick
    if status is not ScheduleStatus.ONLINE:
        next_tick = None
    elif before.status is not ScheduleStatus.ONLINE or _clock(definition) != _clock(before.definition):
        next_tick = first_tick(definition, clock(db), before.done_until)
    columns = _columns(definition)
    [row] = db.rows(SAVE, id=before.id, **columns, status=status.value, edited=edited, next_tick=next_tick)
    if definition.http is None:
        runs.drop_waiting(db, before.id, runs.CHANGED, by_hand_too=True)
    else:
        if status is not ScheduleStatus.ONLINE:
            runs.drop_waiting(db, before.id, runs.STOPPED, by_hand_too=False)
        if definition.http != before.definition.http:
            runs.readdress(db, before.id, definition.http.host)
    after = schedule_of(row)
    kind = f"periodic_{status}" if definition == before.definition else "periodic_changed"
    _record(db, kind, actor, after, before)
    return after


def remove(db: Db, gone: Schedule, actor: str) -> None:
    db.send(REMOVE, id=gone.id)
    runs.forget(db, gone.id, runs.REMOVED)
    _record(db, "periodic_removed", actor, replace(gone, status=ScheduleStatus.OFFLINE, next_tick=None))


def _clock(definition: NewSchedule) -> tuple[str, str]:
    return definition.cron_expressions, definition.timezone


def _record(db: Db, kind: str, actor: str, schedule: Schedule, before: Schedule | None = None) -> None:
    definition = schedule.definition
    detail = {
        "periodic_task": schedule.id, "type": definition.task.type, "status": schedule.status,
        "cron_expressions": definition.cron_expressions, "timezone": definition.timezone, "missed": definition.missed,
        "overlap": definition.overlap, "log": definition.log,
        "next_tick": None if schedule.next_tick is None else tick_text(schedule.next_tick),
    }  # fmt: skip
    if before is not None:
        old, new = (_columns(each.definition) | {"status": each.status} for each in (before, schedule))
        detail |= changed(**{name: (old[name], new[name]) for name in new})
    record_system(db, kind, actor, json.dumps(detail))


# Rows


def schedule_of(row: Row) -> Schedule:
    """The record of a row that was selected by `_COLUMNS`."""
    (
        schedule_id, tenant_id, type_code, creator, cron_expressions, timezone, log, category, ext, missed, overlap,
        http, options, code, by_tenant, status, version, edited, next_tick, done_until, create_date, update_date,
    ) = row  # fmt: skip
    wish = NewTask(type_code, ext, tenant_id, creator, category=category, **json.loads(options))
    definition = NewSchedule(
        wish, cron_expressions, timezone, LogMode(log), Missed(missed), Overlap(overlap),
        None if http is None else runs.endpoint_of(http, by_tenant), code,
    )  # fmt: skip
    return Schedule(
        schedule_id, definition, ScheduleStatus(status), version, bool(edited), moment_or_none(next_tick),
        moment_or_none(done_until), moment(create_date), moment(update_date),
    )  # fmt: skip


def log_of(row: Row) -> TickLog:
    log_id, schedule_id, tenant_id, result, error_info, tick, task_id, create_date, update_date = row
    return TickLog(
        log_id, schedule_id, tenant_id, Result(result), error_info, moment_or_none(tick), task_id, moment(create_date),
        moment(update_date),
    )  # fmt: skip


def _columns(definition: NewSchedule) -> dict[str, Any]:
    wish, http = definition.task, definition.http
    return {
        "tenant_id": wish.tenant_id, "type": wish.type, "creator": wish.creator,
        "cron_expressions": definition.cron_expressions, "timezone": definition.timezone, "log": definition.log.value,
        "category": wish.category, "ext": wish.ext, "missed": definition.missed.value,
        "overlap": definition.overlap.value,
        "http": None if http is None else f"{http.method} {http.url}", "options": json.dumps(definition.options),
        "code": definition.code, "http_by_tenant": http is not None and http.by_tenant,
    }  # fmt: skip
