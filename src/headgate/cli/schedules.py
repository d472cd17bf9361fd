"""`headgate schedules`: run tasks, or call HTTP endpoints, by the clock."""

import json
from dataclasses import replace
from typing import Annotated, Any

import typer

from headgate.cli.apps import declared_task
from headgate.cli.arguments import arguments_of
from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_time, one_line
from headgate.cli.options import PAGE, Ext, Limit, Module, NewLane, NewMutex, NewPriority, Pairs
from headgate.cli.output import print_json, print_note, print_table
from headgate.cli.pages import all_after
from headgate.core.cron import Cron, Missed, Overlap, preview
from headgate.core.errors import Invalid
from headgate.core.schedule import Endpoint, LogMode, NewSchedule, Schedule, ScheduleStatus, TickLog
from headgate.core.task import NewTask
from headgate.environment import utc_now
from headgate.outward.address import Allowed, checked_target

commands = CommandGroup()

Id = Annotated[int, typer.Argument(metavar="ID", help="Schedule ID.")]
Ids = Annotated[list[int], typer.Argument(metavar="ID", help="Schedule IDs.")]
HttpUrl = Annotated[
    str | None, typer.Option("--http", metavar="URL", help="Call this URL instead of submitting a task.")
]
Method = Annotated[str, typer.Option(metavar="METHOD", help="HTTP method of the call.")]
TIMEZONE = typer.Option(metavar="ZONE", help="Time zone of the cron expression: Europe/Berlin.")
LOG = typer.Option(help="What to record about each tick.")
MISSED = typer.Option(help="What to do with ticks that passed while no process ran.")
OVERLAP = typer.Option(help="What to do while the previous tick's task has not ended.")


@commands.default
def show_schedules(command: Command) -> None:
    """Show all schedules; add, edit, trigger and remove them.

    A schedule ticks while it is online: each tick runs once, however many processes
    do the background duties.

    \b
    headgate schedules add hello "0 3 * * *" name=you --online
    headgate schedules list
    headgate schedules logs 1
    """  # fmt: skip
    list_schedules(command)


@commands.add("list")
def list_schedules(
    command: Command, status: Annotated[ScheduleStatus | None, typer.Option(help="Filter by status.")] = None
) -> None:
    """List schedules, newest first.

    \b
    headgate schedules list --status online
    """  # fmt: skip
    find = command.store.schedules.find
    command.answer_all(
        list(all_after(lambda after: find(status=status, cursor=after, limit=PAGE))),
        schedule_json,
        ("ID", "STATUS", "CRON", "TIMEZONE", "NEXT TICK", "TARGET"),
        lambda each: (
            each.id, each.status, each.definition.cron_expressions, each.definition.timezone,
            each.next_tick, _target(each),
        ),
        right=("ID",),
        drop=("TIMEZONE", "NEXT TICK", "CRON", "TARGET"),
        none="no schedules",
    )  # fmt: skip


def _target(schedule: Schedule) -> str:
    http, task = schedule.definition.http, schedule.definition.task
    if http is not None:
        return one_line(f"{http.method} {http.url}")
    return one_line(task.type + ("" if task.ext == "{}" else f" {task.ext}"))


@commands.add("add")
def add_schedule(
    command: Command,
    type_code: Annotated[str, typer.Argument(metavar="TYPE", help="Type of the tasks.")],
    cron: Annotated[str, typer.Argument(metavar="CRON", help="Cron expression.")],
    arguments: Pairs = None,
    ext: Ext = None,
    module: Module = None,
    timezone: Annotated[str, TIMEZONE] = "UTC",
    online: Annotated[bool, typer.Option("--online", help="Put it online at once.")] = False,
    log: Annotated[LogMode, LOG] = LogMode.TRANS,
    missed: Annotated[Missed, MISSED] = Missed.SKIP,
    overlap: Annotated[Overlap, OVERLAP] = Overlap.ALLOW,
    http: HttpUrl = None,
    method: Method = "POST",
    lane: NewLane = None,
    priority: NewPriority = None,
    mutex: NewMutex = None,
    tenant: Annotated[int, typer.Option(metavar="ID", help="Tenant that owns the schedule.")] = 0,
    creator: Annotated[int, typer.Option(metavar="ID", help="Creator of the schedule.")] = 0,
) -> None:
    """Add a schedule. It does not fire until it is online.

    With --module its arguments are checked against the task that the module declares.

    \b
    headgate schedules add hello "0 3 * * *" name=you --online
    headgate schedules add report "0 3 * * *" --timezone Asia/Shanghai
    headgate schedules add ping "*/10 * * * *" --http https://example.org/
    """  # fmt: skip
    values = arguments_of(arguments, ext)
    task = NewTask(type_code, "{}", tenant, creator, lane=lane, priority=priority, mutex=mutex)
    if module is None:
        task, store = task._replace(ext=json.dumps(values, ensure_ascii=False)), command.store
    else:
        task, store = declared_task(command, module, task, values)
    endpoint = None if http is None else _endpoint(command, http, method)
    new = NewSchedule(task, cron, timezone, log, missed, overlap, endpoint)
    status = ScheduleStatus.ONLINE if online else ScheduleStatus.NEW
    _answer(command, store.schedules.add(new, status=status, actor=command.actor))


def _endpoint(command: Command, url: str, method: str) -> Endpoint:
    checked_target(url, "--http", Allowed.parse(command.settings.callback_allow))
    return Endpoint(url, method)


def _ext(arguments: list[str] | None, ext: str | None) -> str:
    return json.dumps(arguments_of(arguments, ext), ensure_ascii=False)


@commands.add("edit")
def edit_schedule(
    command: Command,
    schedule_id: Id,
    arguments: Pairs = None,
    ext: Ext = None,
    cron: Annotated[str | None, typer.Option(metavar="CRON", help="Cron expression.")] = None,
    timezone: Annotated[str | None, TIMEZONE] = None,
    log: Annotated[LogMode | None, LOG] = None,
    missed: Annotated[Missed | None, MISSED] = None,
    overlap: Annotated[Overlap | None, OVERLAP] = None,
    http: HttpUrl = None,
    method: Method = "POST",
) -> None:
    """Change a schedule.

    Options that you leave out keep their value; task arguments are replaced as a
    whole. The change takes effect at once. A program that declares the schedule does
    not overwrite the change.

    \b
    headgate schedules edit 1 --cron "30 3 * * *"
    """  # fmt: skip
    options = {"cron_expressions": cron, "timezone": timezone, "log": log, "missed": missed, "overlap": overlap}
    changes: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if http is not None:
        changes["http"] = _endpoint(command, http, method)
    before = command.store.schedules.get(schedule_id).definition
    if arguments or ext is not None:
        changes["task"] = before.task._replace(ext=_ext(arguments, ext))
    if not changes:
        raise Invalid("nothing to change: give at least one option or argument")
    _answer(command, command.store.schedules.put(schedule_id, replace(before, **changes), actor=command.actor))


@commands.add("show")
def show_schedule(command: Command, schedule_id: Id) -> None:
    """Show everything about a schedule."""
    schedule = command.store.schedules.get(schedule_id)
    fields = schedule_json(schedule)
    texts = {name: format_time(fields[name]) for name in ("next_tick", "create_date", "update_date")}
    texts |= {"ext": schedule.definition.task.ext, "task": json.dumps(fields["task"]) if fields["task"] else ""}
    texts["http"] = "" if schedule.definition.http is None else _target(schedule)
    command.answer_fields(fields, fields | texts)


@commands.add("online")
def put_online(command: Command, schedule_ids: Ids) -> None:
    """Put schedules online, from their next tick on."""
    command.for_each(
        schedule_ids,
        lambda each: command.store.schedules.online(each, actor=command.actor),
        schedule_json,
        _status_line,
    )


@commands.add("offline")
def take_offline(command: Command, schedule_ids: Ids) -> None:
    """Take schedules offline: they stop ticking now."""
    command.for_each(
        schedule_ids,
        lambda each: command.store.schedules.offline(each, actor=command.actor),
        schedule_json,
        _status_line,
    )


@commands.add("trigger")
def trigger_schedule(command: Command, schedule_id: Id) -> None:
    """Do now what a tick would do, whatever the schedule's status.

    Its regular ticks do not change.

    \b
    headgate schedules trigger 1
    """  # fmt: skip
    run = command.store.schedules.trigger(schedule_id, actor=command.actor)
    value = {"periodic_task_id": schedule_id, "task_id": run.task_id, "log_id": run.log_id}
    what = "HTTP call" if run.task_id is None else f"task {run.task_id}"
    command.answer(value, f"{schedule_id} triggered: {what}")


@commands.add("logs")
def show_logs(command: Command, schedule_id: Id, limit: Limit = 20) -> None:
    """Show the results of a schedule's ticks, newest first.

    \b
    headgate schedules logs 1 --limit 100
    """  # fmt: skip
    found = command.store.schedules.logs(schedule_id, limit=limit)
    command.answer_all(
        found, TickLog._asdict, ("ID", "RESULT", "TICK", "TASK", "ERROR"), _log_row, right=("ID", "TASK"),
        none="no ticks",
    )  # fmt: skip


def _log_row(entry: TickLog) -> tuple[Any, ...]:
    tick = entry.tick or "manual"
    return (entry.id, entry.result, tick, entry.task_id or "", one_line(entry.error_info))


@commands.add("preview")
def preview_ticks(
    command: Command,
    what: Annotated[str, typer.Argument(metavar="ID|CRON", help="Schedule ID or cron expression.")],
    timezone: Annotated[str, TIMEZONE] = "UTC",
    count: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Number of ticks.")] = 5,
) -> None:
    """Show the next ticks of a schedule or of a cron expression.

    \b
    headgate schedules preview 1
    headgate schedules preview "30 2 * * *" --timezone Europe/Berlin
    """  # fmt: skip
    if what.isascii() and what.isdigit():
        cron, now = command.store.schedules.get(int(what)).definition.cron, command.store.schedules.now()
    else:
        cron, now = Cron(what, timezone), utc_now()
    ticks = preview(cron, now, count)
    if command.as_json:
        print_json({"items": [{"at": tick, "local": cron.local_time(tick).isoformat()} for tick in ticks]})
        return
    rows = [(format_time(tick), f"{cron.local_time(tick):%Y-%m-%d %H:%M:%S %z}") for tick in ticks]
    print_table(("UTC", "LOCAL"), rows)


@commands.add("remove")
def remove_schedule(command: Command, schedule_id: Id) -> None:
    """Remove a schedule. Tasks that it submitted stay.

    A program that declares it adds it again at its next start: take such a
    schedule offline instead.

    \b
    headgate schedules remove 1
    """  # fmt: skip
    code = command.store.schedules.get(schedule_id).definition.code
    command.store.schedules.remove(schedule_id, actor=command.actor)
    command.answer({"removed": schedule_id}, f"{schedule_id} removed")
    if code is not None and not command.as_json:
        print_note(f"the program that declares {code} adds it again at its next start")


def _answer(command: Command, schedule: Schedule) -> None:
    command.answer(schedule_json(schedule), _status_line(schedule))


def _status_line(schedule: Schedule) -> str:
    tick = "" if schedule.next_tick is None else f", next tick {format_time(schedule.next_tick)}"
    return f"{schedule.id} {schedule.status}{tick}"


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """A schedule for programs."""
    definition, task = schedule.definition, schedule.definition.task
    return {
        "id": schedule.id, "tenant_id": task.tenant_id, "type": task.type, "creator": task.creator,
        "cron_expressions": definition.cron_expressions, "timezone": definition.timezone, "status": schedule.status,
        "log": definition.log, "category": task.category, "ext": json.loads(task.ext), "missed": definition.missed,
        "overlap": definition.overlap, "http": definition.http and definition.http._asdict(),
        "task": definition.options, "code": definition.code,
        "next_tick": schedule.next_tick, "create_date": schedule.create_date, "update_date": schedule.update_date,
    }  # fmt: skip
