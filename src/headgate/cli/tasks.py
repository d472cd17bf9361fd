"""`headgate list`, `show` and `why`: look at tasks."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Protocol, TypeVar

import typer

from headgate.cli.callbacks import delivery_json
from headgate.cli.formatting import format_duration, format_time, one_line
from headgate.cli.options import Id, Json, Url
from headgate.cli.output import (
    forecast_json,
    note,
    print_json,
    print_table,
    progress_text,
    progress_value,
    say,
    task_json,
)
from headgate.cli.pages import collect_pages
from headgate.cli.stores import existing_store
from headgate.core.events import AuditEvent
from headgate.core.family import Census
from headgate.core.forecast import Forecast
from headgate.core.gates import Gate
from headgate.core.states import FINAL, HELD, State
from headgate.core.task import Task
from headgate.environment import utc_now
from headgate.store.callbacks.report import CallbackRecord
from headgate.store.execution.reports import LogLine
from headgate.store.execution.usage import Measured
from headgate.store.reading.lists import Filter
from headgate.store.tasks.families import EXACT_UP_TO

STATES = ", ".join(State)
LATEST = 20
PAGE = 200


class _HasId(Protocol):
    @property
    def id(self) -> int: ...


Item = TypeVar("Item", bound=_HasId)


def list_tasks(
    status: Annotated[
        list[State] | None, typer.Option(metavar="STATE", help=f"One of {STATES}; may be repeated.", show_default=False)
    ] = None,
    type_code: Annotated[str | None, typer.Option("--type", help="Of this type.")] = None,
    lane: Annotated[str | None, typer.Option(help="Of this lane.")] = None,
    creator: Annotated[int | None, typer.Option(help="Of this creator.")] = None,
    mutex: Annotated[str | None, typer.Option(help="Of this mutex.")] = None,
    parent: Annotated[int | None, typer.Option(metavar="ID", help="Children of this task.")] = None,
    cursor: Annotated[int | None, typer.Option(metavar="ID", help="Go on after this task.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE, help="So many at most.")] = 50,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List tasks, newest first.

    Those in history too. With --json one line each; the id of the last is the --cursor of the next page.

    \b
    headgate list --status running --status retrying
    headgate list --lane requires_cookie --limit 10
    headgate list --status dead --json
    """  # fmt: skip
    wanted = Filter(
        status=tuple(status) if status else None, type=type_code, lane=lane, creator=creator, mutex=mutex,
        parent_id=parent,
    )  # fmt: skip
    with existing_store(url) as store:
        tasks, more = collect_pages(
            lambda cursor, limit: store.tasks.find(wanted, cursor=cursor, limit=limit), cursor, limit
        )
    if as_json:
        for task in tasks:
            print_json(task_json(task))
        return
    print_table(
        ("ID", "STATUS", "TYPE", "LANE", "PRIORITY", "ATTEMPT", "CREATED", "WHAT"),
        [
            (
                task.id,
                task.status,
                task.type,
                task.lane,
                task.priority,
                task.attempt,
                format_time(task.create_date),
                _summary(task),
            )
            for task in tasks
        ],
        right=("ID", "PRIORITY", "ATTEMPT"),
    )
    if more is not None:
        note(f"more: --cursor {more}")


def _summary(task: Task) -> str:
    """Its name, progress and error, for the last column of the list."""
    going_well = task.status in HELD or task.status is State.SUCCEEDED  # whatever befell an earlier attempt
    error = task.error_info.splitlines()[0] if task.error_info and not going_well else ""
    progress = "" if task.status is State.SUCCEEDED else progress_text(task)
    return one_line("  ".join(part for part in (task.name, progress, error) if part))


def show(task_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Show all that is kept about a task.

    Its record, what happened to it and who did it, its callbacks, its log lines and its progress.

    \b
    headgate show 4711
    headgate show 4711 --json
    """  # fmt: skip
    with existing_store(url) as store:
        task = store.tasks.get(task_id)
        census = store.families.census(task) if task.has_children else None
        events = _all(lambda after: store.events.of(task_id, after=after, limit=PAGE))
        log = _all(lambda after: store.executions.log(task_id, after=after, limit=PAGE))
        checkpoints = store.executions.checkpoints(task_id)
        measured = store.usages.of(task_id)
        callbacks = store.deliveries.of_task(task_id)
    if as_json:
        more: dict[str, Any] = {
            "events": [_event_json(event) for event in events],
            "log": [_log_json(entry) for entry in log],
        }
        more |= {"checkpoints": sorted(checkpoints), "usage": _usage_json(measured)}
        more |= {"callbacks": [delivery_json(each, with_history=True) for each in callbacks]}
        print_json(task_json(task) | _children_json(task, census) | more)
        return
    _show_record(task, census, measured)
    _show_latest(
        "WHAT HAPPENED",
        events,
        lambda event: (format_time(event.at), _transition(event), event.actor, one_line(event.detail)),
    )
    _show_latest(
        "CALLBACKS",
        callbacks[::-1],
        lambda each: (format_time(each.update_date), each.kind, each.status, _outcome(each)),
    )
    _show_latest(
        "LOG", log, lambda entry: (format_time(entry.at), entry.level, f"attempt {entry.attempt}", entry.message)
    )


def _all(page: Callable[[int], list[Item]]) -> list[Item]:
    found = page(0)
    while found and len(found) % PAGE == 0 and (more := page(found[-1].id)):
        found += more
    return found


def _children_json(task: Task, census: Census | None) -> dict[str, Any]:
    if census is None:
        return {}
    children = asdict(census.children) | {"states": census.states, "exact": census.exact}
    return {"progress": progress_value(task, census), "children": children}


def _usage_json(measured: Measured | None) -> dict[str, Any] | None:
    return None if measured is None else {"attempt": measured.attempt} | asdict(measured.usage)


def _usage_text(measured: Measured) -> str:
    usage = measured.usage
    sizes = {"of memory": usage.memory_bytes, "read": usage.read_bytes, "written": usage.written_bytes}
    texts = [f"{size / 1e6:.1f} MB {what}" for what, size in sizes.items() if size is not None]
    return ", ".join([f"{usage.cpu_seconds:.2f} s of CPU", *texts]) + f" (attempt {measured.attempt})"


def _show_record(task: Task, census: Census | None, measured: Measured | None) -> None:
    record = {
        name: format_time(value) if isinstance(value, datetime) else value for name, value in task_json(task).items()
    }
    record |= {"ext": task.ext, "result": task.result, "progress": progress_text(task, census)}
    record |= {"gave_up": "yes" if task.gave_up else "", "used": "" if measured is None else _usage_text(measured)}
    if census is not None:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(census.states.items()))
        record["children"] = counts if census.exact else f"more than {EXACT_UP_TO}: {counts}"
    print_table(("", ""), [(name, value) for name, value in record.items() if value not in (None, "")])


def _outcome(sent: CallbackRecord) -> str:
    """What came of a callback so far."""
    if sent.attempts == 0:
        return ""
    return one_line(f"{sent.host}, attempt {sent.attempts}: {sent.last_error or sent.last_status}")


def _show_latest(title: str, entries: list[Item], row: Callable[[Item], tuple[Any, ...]]) -> None:
    if not entries:
        return
    earlier = len(entries) - LATEST
    say(f"\n{title}" + (f" ({earlier} earlier: --json shows all)" if earlier > 0 else ""))
    print_table(("", "", "", ""), [row(entry) for entry in entries[-LATEST:]])


def _transition(event: AuditEvent) -> str:
    if event.after is None or event.before == event.after:
        return event.kind
    return f"{event.kind}: {event.before} → {event.after}" if event.before else f"{event.kind}: {event.after}"


def _event_json(event: AuditEvent) -> dict[str, Any]:
    return {
        "id": event.id,
        "task_id": event.task_id,
        "at": event.at,
        "kind": event.kind,
        "from": event.before,
        "to": event.after,
        "actor": event.actor,
        "exec_id": event.exec_id,
        "correlation_id": event.correlation_id,
        "detail": event.detail,
    }


def _log_json(entry: LogLine) -> dict[str, Any]:
    return {"id": entry.id, "at": entry.at, "attempt": entry.attempt, "level": entry.level, "message": entry.message}


def why(task_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Say, gate by gate, what a task waits for, and when it will likely start.

    Who holds its mutex, who fills its lane, when its time comes or the next token, whether a worker serves it.

    \b
    headgate why 4711
    """  # fmt: skip
    with existing_store(url) as store:
        task, gates, forecast = store.forecasts.why(task_id)
    if as_json:
        answer: dict[str, Any] = {
            "task_id": task.id,
            "status": task.status,
            "gates": [_gate_json(gate) for gate in gates],
        }
        print_json(answer | ({"forecast": forecast_json(forecast)} if forecast else {}))
        return
    if task.status in FINAL:
        say(f"task {task.id} has ended: it is {task.status}")
        return
    now = utc_now()
    print_table(("", "", ""), [(gate.name, "open" if gate.open else "shut", _reason(gate, now)) for gate in gates])
    if forecast is not None:
        width = max(len(gate.name) for gate in gates)
        say(f"{'starts':{width}}  {_start_text(forecast)}")


def _gate_json(gate: Gate) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": gate.name, "open": gate.open, "reason": gate.reason}
    return fields | ({"until": gate.until} if gate.until else {}) | ({"holders": gate.holders} if gate.holders else {})


def _reason(gate: Gate, now: datetime) -> str:
    reason = gate.reason
    if gate.holders and gate.name != "mutex":  # whose reason names them already
        reason += f" ({', '.join(map(str, gate.holders))})"
    if gate.until is None:
        return reason
    return f"{reason}: {format_time(gate.until)}, in {format_duration(gate.until - now)}"


def _start_text(forecast: Forecast) -> str:
    if forecast.seconds is None:
        return f"unknown: {forecast.reason}"
    if forecast.seconds == 0:
        return "now: a worker takes it next"
    return f"in about {format_duration(forecast.seconds)} ({forecast.reason})"
