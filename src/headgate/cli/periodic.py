"""`headgate periodic`: run tasks, or call endpoints, by the clock."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import typer

from headgate.cli.exits import DONE, code_of, tell
from headgate.cli.options import Json, Url
from headgate.cli.output import document, note, say, table
from headgate.cli.stores import ready
from headgate.cli.submitting import arguments_of
from headgate.cli.words import at, line
from headgate.core.cron import Cron, Missed, Overlap, preview
from headgate.core.errors import Invalid, NotFound
from headgate.core.schedule import Endpoint, Log, NewSchedule, Schedule, Status, TickLog
from headgate.core.task import NewTask
from headgate.outside import utc_now
from headgate.outward.address import Allowed, sendable
from headgate.settings import load
from headgate.store import Store

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
    headgate periodic add hello "0 3 * * *" name=you --timezone Asia/Shanghai --online
    headgate periodic list
    headgate periodic logs 1
    """  # fmt: skip
    if context.invoked_subcommand is None:
        _list(None, url, as_json)


@commands.command("list")
def list_schedules(
    status: Annotated[Status | None, typer.Option(help="Only these.", show_default=False)] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show schedules, newest first.

    \b
    headgate periodic list --status online
    """  # fmt: skip
    _list(status, url, as_json)


def _list(status: Status | None, url: str | None, as_json: bool) -> None:
    with ready(url) as store:
        found = _every(store, status)
    if as_json:
        for schedule in found:
            document(schedule_json(schedule))
        return
    table(
        ("ID", "STATUS", "CRON", "TIMEZONE", "NEXT TICK", "WHAT"),
        [
            (each.id, each.status, each.said.cron_expressions, each.said.timezone, at(each.next_tick), _what(each))
            for each in found
        ],
        right=("ID",),
    )


def _every(store: Store, status: Status | None) -> list[Schedule]:
    found: list[Schedule] = []
    while page := store.schedules.find(status=status, cursor=found[-1].id if found else None, limit=PAGE):
        found += page
    return found


def _what(schedule: Schedule) -> str:
    said = schedule.said
    if said.http is not None:
        return line(f"{said.http.method} {said.http.url}")
    return line(said.wish.type + ("" if said.wish.ext == "{}" else f" {said.wish.ext}"))


@commands.command("add")
def add_schedule(
    type_code: Annotated[str, typer.Argument(metavar="TYPE", help="The tasks' type.", show_default=False)],
    cron: Annotated[str, typer.Argument(metavar="CRON", help="A cron expression.", show_default=False)],
    arguments: Pairs = None,
    ext: Ext = None,
    timezone: Annotated[str, typer.Option(help="By the clock of this zone.")] = "UTC",
    online: Annotated[bool, typer.Option("--online", help="Let it fire from its next tick on.")] = False,
    log: Annotated[Log, typer.Option(help="What is kept of each tick.")] = Log.TRANS,
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
    headgate periodic add hello "0 3 * * *" name=you --timezone Asia/Shanghai --online
    headgate periodic add report "*/10 * * * *" --http https://example.org/report --missed once
    """  # fmt: skip
    wish = NewTask(
        type_code, _ext(arguments, ext), tenant, creator, lane=lane, priority=priority, mutex=mutex
    )  # fmt: skip
    endpoint = None if http is None else _endpoint(http, method)
    new = NewSchedule(wish, cron, timezone, log, missed, overlap, endpoint)
    with ready(url) as store:
        made = store.schedules.add(new, status=Status.ONLINE if online else Status.NEW)
    _tell(made, as_json)


def _endpoint(url: str, method: str) -> Endpoint:
    sendable(url, "--http", Allowed.read(load().callback_allow))
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
    log: Annotated[Log | None, typer.Option(help="What is kept of each tick.", show_default=False)] = None,
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
    headgate periodic edit 1 --cron "30 3 * * *"
    """  # fmt: skip
    edits = {"cron_expressions": cron, "timezone": timezone, "log": log, "missed": missed, "overlap": overlap}
    said: dict[str, Any] = {name: value for name, value in edits.items() if value is not None}
    if http is not None:
        said["http"] = _endpoint(http, method)
    with ready(url) as store:
        before = store.schedules.get(schedule_id).said
        if arguments or ext is not None:
            said["wish"] = before.wish._replace(ext=_ext(arguments, ext))
        if not said:
            raise Invalid("say what is to change")
        edited = store.schedules.put(schedule_id, replace(before, **said))
    _tell(edited, as_json)


@commands.command("show")
def show_schedule(schedule_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Show all that is kept about a schedule.

    \b
    headgate periodic show 1
    """  # fmt: skip
    with ready(url) as store:
        schedule = store.schedules.get(schedule_id)
    said = schedule_json(schedule)
    if as_json:
        document(said)
        return
    said |= {name: at(said[name]) for name in ("next_tick", "create_date", "update_date")}
    said |= {"ext": schedule.said.wish.ext, "task": json.dumps(said["task"]) if said["task"] else None}
    said["http"] = None if schedule.said.http is None else _what(schedule)
    table(("", ""), [(name, value) for name, value in said.items() if value not in (None, "")])


@commands.command("online")
def put_online(schedule_ids: Ids, url: Url = None, as_json: Json = False) -> None:
    """Let schedules fire, from their next tick on.

    \b
    headgate periodic online 1 2
    """  # fmt: skip
    _each(schedule_ids, url, as_json, lambda store, schedule_id: store.schedules.online(schedule_id))


@commands.command("offline")
def take_offline(schedule_ids: Ids, url: Url = None, as_json: Json = False) -> None:
    """Let schedules fire no more, from now on.

    \b
    headgate periodic offline 1
    """  # fmt: skip
    _each(schedule_ids, url, as_json, lambda store, schedule_id: store.schedules.offline(schedule_id))


def _each(ids: list[int], url: str | None, as_json: bool, act: Callable[[Store, int], Schedule]) -> None:
    """Act on one after the other; one that is not there holds up none of the rest."""
    code = DONE
    with ready(url) as store:
        for schedule_id in ids:
            try:
                _tell(act(store, schedule_id), as_json)
            except NotFound as error:
                tell(error)
                code = code or code_of(error)
    if code:
        raise typer.Exit(code)


@commands.command("trigger")
def trigger_schedule(schedule_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Do now what a tick would do, whatever the schedule's status. Its ticks are not disturbed.

    \b
    headgate periodic trigger 1
    """  # fmt: skip
    with ready(url) as store:
        begun = store.schedules.trigger(schedule_id)
    if as_json:
        document({"periodic_task_id": schedule_id, "task_id": begun.task_id, "log_id": begun.log_id})
    else:
        say(f"{schedule_id} triggered: " + ("its call" if begun.task_id is None else f"task {begun.task_id}"))


@commands.command("logs")
def show_logs(schedule_id: Id, limit: Limit = 20, url: Url = None, as_json: Json = False) -> None:
    """Show what became of a schedule's ticks, newest first.

    \b
    headgate periodic logs 1 --limit 100
    """  # fmt: skip
    with ready(url) as store:
        found = store.schedules.logs(schedule_id, limit=limit)
    if as_json:
        for entry in found:
            document(entry._asdict())
        return
    table(("ID", "RESULT", "TICK", "TASK", "WHAT"), [_log_row(entry) for entry in found], right=("ID", "TASK"))


def _log_row(entry: TickLog) -> tuple[Any, ...]:
    tick = "by hand" if entry.tick is None else at(entry.tick)
    return (entry.id, entry.result, tick, entry.task_id or "", line(entry.error_info))


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
    headgate periodic preview 1
    headgate periodic preview "30 2 * * *" --timezone Europe/Berlin
    """  # fmt: skip
    if what.isascii() and what.isdigit():
        with ready(url) as store:
            cron, now = store.schedules.get(int(what)).said.cron, store.schedules.now()
    else:
        cron, now = Cron(what, timezone), utc_now()
    ticks = preview(cron, now, count)
    if as_json:
        document({"items": [{"at": tick, "local": cron.shown(tick).isoformat()} for tick in ticks]})
        return
    table(("UTC", "LOCAL"), [(at(tick), f"{cron.shown(tick):%Y-%m-%d %H:%M:%S %z}") for tick in ticks])


@commands.command("remove")
def remove_schedule(schedule_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Forget a schedule. Its tasks go on.

    A program that declares it makes it again at its next start: take that one offline instead.

    \b
    headgate periodic remove 1
    """  # fmt: skip
    with ready(url) as store:
        code = store.schedules.get(schedule_id).said.code
        store.schedules.remove(schedule_id)
    if as_json:
        document({"removed": schedule_id})
        return
    say(f"{schedule_id} removed")
    if code is not None:
        note(f"the program that declares {code} makes it again at its next start")


def _tell(schedule: Schedule, as_json: bool) -> None:
    if as_json:
        document(schedule_json(schedule))
        return
    tick = "" if schedule.next_tick is None else f", next tick {at(schedule.next_tick)}"
    say(f"{schedule.id} {schedule.status}{tick}")


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """A schedule under the names a program knows it by."""
    said, wish = schedule.said, schedule.said.wish
    return {
        "id": schedule.id, "tenant_id": wish.tenant_id, "type": wish.type, "creator": wish.creator,
        "cron_expressions": said.cron_expressions, "timezone": said.timezone, "status": schedule.status,
        "log": said.log, "category": wish.category, "ext": json.loads(wish.ext), "missed": said.missed,
        "overlap": said.overlap, "http": said.http and said.http._asdict(), "task": said.options, "code": said.code,
        "next_tick": schedule.next_tick, "create_date": schedule.create_date, "update_date": schedule.update_date,
    }  # fmt: skip
