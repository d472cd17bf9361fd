"""`headgate schedules`: run tasks, or call endpoints, by the clock."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import typer

from headgate.cli.exits import DONE, code_of, print_error
from headgate.cli.formatting import format_time, one_line
from headgate.cli.options import Json, Url
from headgate.cli.output import note, print_json, print_table, say
from headgate.cli.stores import existing_store
from headgate.cli.submitting import arguments_of
from headgate.core.cron import Cron, Missed, Overlap, preview
from headgate.core.errors import Invalid, NotFound
from headgate.core.schedule import Endpoint, LogMode, NewSchedule, Schedule, ScheduleStatus, TickLog
from headgate.core.task import NewTask
from headgate.environment import utc_now
from headgate.outward.address import Allowed, checked_target
from headgate.settings import load
from headgate.store.store import Store

PAGE = 200
commands = typer.Typer(rich_markup_mode=None)

Id = Annotated[int, typer.Argument(metavar="ID", help="The schedule's number.", show_default=False)]
Ids = Annotated[list[int], typer.Argument(metavar="ID", help="The schedules' numbers.", show_default=False)]
Pairs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="Its arguments. A value that is JSON is taken as such.", show_default=False
    ),
]
Ext = Annotated[str | None, typer.Option(metavar="JSON", help="The arguments as one JSON object.")]
HttpUrl = Annotated[str | None, typer.Option("--http", metavar="URL", help="Call this address; no task is made.")]
Method = Annotated[str, typer.Option(help="How it is called.")]
Limit = Annotated[int, typer.Option(min=1, max=PAGE, help="So many at most.")]


@commands.callback(invoke_without_command=True)
def show_schedules(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show every schedule; make, edit, trigger and remove them.

    A schedule fires while it is online: each tick once, however many processes run the duties.

    \b
    headgate schedules add hello "0 3 * * *" name=you --timezone Asia/Shanghai --online
    headgate schedules list
    headgate schedules logs 1
    """  # fmt: skip
    if context.invoked_subcommand is None:
        _list(None, url, as_json)


@commands.command("list")
def list_schedules(
    status: Annotated[ScheduleStatus | None, typer.Option(help="Only these.", show_default=False)] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show schedules, newest first.

    \b
    headgate schedules list --status online
    """  # fmt: skip
    _list(status, url, as_json)


def _list(status: ScheduleStatus | None, url: str | None, as_json: bool) -> None:
    with existing_store(url) as store:
        found = _all_schedules(store, status)
    if as_json:
        for schedule in found:
            print_json(schedule_json(schedule))
        return
    print_table(
        ("ID", "STATUS", "CRON", "TIMEZONE", "NEXT TICK", "WHAT"),
        [
            (
                each.id,
                each.status,
                each.definition.cron_expressions,
                each.definition.timezone,
                format_time(each.next_tick),
                _target(each),
            )
            for each in found
        ],
        right=("ID",),
    )


def _all_schedules(store: Store, status: ScheduleStatus | None) -> list[Schedule]:
    found: list[Schedule] = []
    while page := store.schedules.find(status=status, cursor=found[-1].id if found else None, limit=PAGE):
        found += page
    return found


def _target(schedule: Schedule) -> str:
    http, task = schedule.definition.http, schedule.definition.task
    if http is not None:
        return one_line(f"{http.method} {http.url}")
    return one_line(task.type + ("" if task.ext == "{}" else f" {task.ext}"))


@commands.command("add")
def add_schedule(
    type_code: Annotated[str, typer.Argument(metavar="TYPE", help="The tasks' type.", show_default=False)],
    cron: Annotated[str, typer.Argument(metavar="CRON", help="A cron expression.", show_default=False)],
    arguments: Pairs = None,
    ext: Ext = None,
    timezone: Annotated[str, typer.Option(help="By the clock of this zone.")] = "UTC",
    online: Annotated[bool, typer.Option("--online", help="Let it fire from its next tick on.")] = False,
    log: Annotated[LogMode, typer.Option(help="What is kept of each tick.")] = LogMode.TRANS,
    missed: Annotated[Missed, typer.Option(help="What becomes of ticks nobody was there for.")] = Missed.SKIP,
    overlap: Annotated[Overlap, typer.Option(help="What becomes of a tick while an earlier goes on.")] = Overlap.ALLOW,
    http: HttpUrl = None,
    method: Method = "POST",
    lane: Annotated[str | None, typer.Option(help="Another lane than the type's.")] = None,
    priority: Annotated[
        int | None, typer.Option(help="Smaller runs first.  [default: the type's]", show_default=False)
    ] = None,
    mutex: Annotated[str | None, typer.Option(help="Tasks of one mutex run one at a time.")] = None,
    tenant: Annotated[int, typer.Option(metavar="ID", help="Whose tenant's it is.")] = 0,
    creator: Annotated[int, typer.Option(help="Whose it is.")] = 0,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make a schedule. It is new, and does not fire, until it is online.

    \b
    headgate schedules add hello "0 3 * * *" name=you --timezone Asia/Shanghai --online
    headgate schedules add report "*/10 * * * *" --http https://example.org/report --missed once
    """  # fmt: skip
    task = NewTask(
        type_code, _ext(arguments, ext), tenant, creator, lane=lane, priority=priority, mutex=mutex
    )  # fmt: skip
    endpoint = None if http is None else _endpoint(http, method)
    new = NewSchedule(task, cron, timezone, log, missed, overlap, endpoint)
    with existing_store(url) as store:
        made = store.schedules.add(new, status=ScheduleStatus.ONLINE if online else ScheduleStatus.NEW)
    _print_schedule(made, as_json)


def _endpoint(url: str, method: str) -> Endpoint:
    checked_target(url, "--http", Allowed.parse(load().callback_allow))
    return Endpoint(url, method)


def _ext(arguments: list[str] | None, ext: str | None) -> str:
    return json.dumps(arguments_of(arguments or [], ext), ensure_ascii=False)


@commands.command("edit")
def edit_schedule(
    schedule_id: Id,
    arguments: Pairs = None,
    ext: Ext = None,
    cron: Annotated[str | None, typer.Option(metavar="CRON", help="Another expression.")] = None,
    timezone: Annotated[str | None, typer.Option(help="By the clock of another zone.")] = None,
    log: Annotated[LogMode | None, typer.Option(help="What is kept of each tick.", show_default=False)] = None,
    missed: Annotated[
        Missed | None, typer.Option(help="What becomes of ticks nobody was there for.", show_default=False)
    ] = None,
    overlap: Annotated[
        Overlap | None, typer.Option(help="What becomes of a tick while an earlier goes on.", show_default=False)
    ] = None,
    http: HttpUrl = None,
    method: Method = "POST",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Change what is said of a schedule; the rest stays. Arguments are replaced as a whole.

    It holds at once. No program that declares the schedule overwrites it afterwards.

    \b
    headgate schedules edit 1 --cron "30 3 * * *"
    """  # fmt: skip
    options = {"cron_expressions": cron, "timezone": timezone, "log": log, "missed": missed, "overlap": overlap}
    changes: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if http is not None:
        changes["http"] = _endpoint(http, method)
    with existing_store(url) as store:
        before = store.schedules.get(schedule_id).definition
        if arguments or ext is not None:
            changes["task"] = before.task._replace(ext=_ext(arguments, ext))
        if not changes:
            raise Invalid("say what is to change")
        edited = store.schedules.put(schedule_id, replace(before, **changes))
    _print_schedule(edited, as_json)


@commands.command("show")
def show_schedule(schedule_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Show all that is kept about a schedule.

    \b
    headgate schedules show 1
    """  # fmt: skip
    with existing_store(url) as store:
        schedule = store.schedules.get(schedule_id)
    fields = schedule_json(schedule)
    if as_json:
        print_json(fields)
        return
    fields |= {name: format_time(fields[name]) for name in ("next_tick", "create_date", "update_date")}
    fields |= {"ext": schedule.definition.task.ext, "task": json.dumps(fields["task"]) if fields["task"] else None}
    fields["http"] = None if schedule.definition.http is None else _target(schedule)
    print_table(("", ""), [(name, value) for name, value in fields.items() if value not in (None, "")])


@commands.command("online")
def put_online(schedule_ids: Ids, url: Url = None, as_json: Json = False) -> None:
    """Let schedules fire, from their next tick on.

    \b
    headgate schedules online 1 2
    """  # fmt: skip
    _act_on_each(schedule_ids, url, as_json, lambda store, schedule_id: store.schedules.online(schedule_id))


@commands.command("offline")
def take_offline(schedule_ids: Ids, url: Url = None, as_json: Json = False) -> None:
    """Let schedules fire no more, from now on.

    \b
    headgate schedules offline 1
    """  # fmt: skip
    _act_on_each(schedule_ids, url, as_json, lambda store, schedule_id: store.schedules.offline(schedule_id))


def _act_on_each(ids: list[int], url: str | None, as_json: bool, act: Callable[[Store, int], Schedule]) -> None:
    """Act on one after the other; one that is not there holds up none of the rest."""
    code = DONE
    with existing_store(url) as store:
        for schedule_id in ids:
            try:
                _print_schedule(act(store, schedule_id), as_json)
            except NotFound as error:
                print_error(error)
                code = code or code_of(error)
    if code:
        raise typer.Exit(code)


@commands.command("trigger")
def trigger_schedule(schedule_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Do now what a tick would do, whatever the schedule's status. Its ticks are not disturbed.

    \b
    headgate schedules trigger 1
    """  # fmt: skip
    with existing_store(url) as store:
        run = store.schedules.trigger(schedule_id)
    if as_json:
        print_json({"periodic_task_id": schedule_id, "task_id": run.task_id, "log_id": run.log_id})
    else:
        say(f"{schedule_id} triggered: " + ("its call" if run.task_id is None else f"task {run.task_id}"))


@commands.command("logs")
def show_logs(schedule_id: Id, limit: Limit = 20, url: Url = None, as_json: Json = False) -> None:
    """Show what became of a schedule's ticks, newest first.

    \b
    headgate schedules logs 1 --limit 100
    """  # fmt: skip
    with existing_store(url) as store:
        found = store.schedules.logs(schedule_id, limit=limit)
    if as_json:
        for entry in found:
            print_json(entry._asdict())
        return
    print_table(("ID", "RESULT", "TICK", "TASK", "WHAT"), [_log_row(entry) for entry in found], right=("ID", "TASK"))


def _log_row(entry: TickLog) -> tuple[Any, ...]:
    tick = "by hand" if entry.tick is None else format_time(entry.tick)
    return (entry.id, entry.result, tick, entry.task_id or "", one_line(entry.error_info))


@commands.command("preview")
def preview_ticks(
    what: Annotated[
        str, typer.Argument(metavar="ID|CRON", help="A schedule's number, or an expression.", show_default=False)
    ],
    timezone: Annotated[str, typer.Option(help="The zone of the expression.")] = "UTC",
    count: Annotated[int, typer.Option(min=1, max=100, help="So many ticks.")] = 5,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show when the next ticks of a schedule come, or those of an expression would.

    \b
    headgate schedules preview 1
    headgate schedules preview "30 2 * * *" --timezone Europe/Berlin
    """  # fmt: skip
    if what.isascii() and what.isdigit():
        with existing_store(url) as store:
            cron, now = store.schedules.get(int(what)).definition.cron, store.schedules.now()
    else:
        cron, now = Cron(what, timezone), utc_now()
    ticks = preview(cron, now, count)
    if as_json:
        print_json({"items": [{"at": tick, "local": cron.local_time(tick).isoformat()} for tick in ticks]})
        return
    rows = [(format_time(tick), f"{cron.local_time(tick):%Y-%m-%d %H:%M:%S %z}") for tick in ticks]
    print_table(("UTC", "LOCAL"), rows)


@commands.command("remove")
def remove_schedule(schedule_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Forget a schedule. Its tasks go on.

    A program that declares it makes it again at its next start: take that one offline instead.

    \b
    headgate schedules remove 1
    """  # fmt: skip
    with existing_store(url) as store:
        code = store.schedules.get(schedule_id).definition.code
        store.schedules.remove(schedule_id)
    if as_json:
        print_json({"removed": schedule_id})
        return
    say(f"{schedule_id} removed")
    if code is not None:
        note(f"the program that declares {code} makes it again at its next start")


def _print_schedule(schedule: Schedule, as_json: bool) -> None:
    if as_json:
        print_json(schedule_json(schedule))
        return
    tick = "" if schedule.next_tick is None else f", next tick {format_time(schedule.next_tick)}"
    say(f"{schedule.id} {schedule.status}{tick}")


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """A schedule under the names a program knows it by."""
    definition, task = schedule.definition, schedule.definition.task
    return {
        "id": schedule.id, "tenant_id": task.tenant_id, "type": task.type, "creator": task.creator,
        "cron_expressions": definition.cron_expressions, "timezone": definition.timezone, "status": schedule.status,
        "log": definition.log, "category": task.category, "ext": json.loads(task.ext), "missed": definition.missed,
        "overlap": definition.overlap, "http": definition.http and definition.http._asdict(),
        "task": definition.options, "code": definition.code,
        "next_tick": schedule.next_tick, "create_date": schedule.create_date, "update_date": schedule.update_date,
    }  # fmt: skip
