"""`headgate list`, `show` and `why`: look at tasks."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer

from headgate.cli.callbacks import callback_json
from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_duration, format_run_time, format_time, one_line
from headgate.cli.options import PAGE, Creator, Cursor, Id, Lane, Limit, Tenant, Type
from headgate.cli.output import (
    forecast_json,
    print_fields,
    print_json,
    print_line,
    print_table,
    progress_text,
    progress_value,
    task_json,
)
from headgate.cli.pages import all_after, collect_pages
from headgate.core.attempts import Attempt
from headgate.core.end_reasons import head_of
from headgate.core.event_texts import event_code, event_params, event_text
from headgate.core.events import AuditEvent
from headgate.core.family import Census
from headgate.core.forecast import Forecast
from headgate.core.gates import Gate
from headgate.core.holds import Hold
from headgate.core.states import FINAL, HELD, State
from headgate.core.task import Task
from headgate.environment import utc_now
from headgate.store.callbacks.report import CallbackRecord
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.execution.usage import Measured
from headgate.store.reading.lists import Filter

LATEST = 20
Item = TypeVar("Item")
commands = CommandGroup()


@commands.add("list")
def list_tasks(
    command: Command,
    status: Annotated[
        list[State] | None, typer.Option(metavar="STATE", help=f"Filter by state: {', '.join(State)}. Can be repeated.")
    ] = None,
    type_code: Type = None,
    lane: Lane = None,
    tenant: Tenant = None,
    creator: Creator = None,
    mutex: Annotated[str | None, typer.Option(metavar="KEY", help="Filter by mutex.")] = None,
    parent: Annotated[int | None, typer.Option(metavar="ID", help="List the children of this task.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> None:
    """List tasks, newest first, including those in history.

    With --json each task is one line; pass the last ID to --cursor to get the
    next page.

    \b
    headgate list --status running --status retrying
    headgate list --lane mail --limit 10
    headgate list --status dead --json
    """  # fmt: skip
    wanted = Filter(
        tenant_id=tenant, status=tuple(status) if status else None, type=type_code, lane=lane, creator=creator,
        mutex=mutex, parent_id=parent,
    )  # fmt: skip
    find = command.store.tasks.find
    tasks, more = collect_pages(lambda cursor, limit: find(wanted, cursor=cursor, limit=limit), cursor, limit)
    counted = command.store.families.census_of(tasks)
    command.answer_all(
        tasks,
        lambda task: task_json(task) | _children_json(task, counted.get(task.id)),
        ("ID", "STATUS", "TYPE", "LANE", "PRIORITY", "ATTEMPT", "CREATED", "DETAIL"),
        lambda task: (
            task.id, task.status, task.type, task.lane, task.priority, task.attempt, task.create_date,
            _detail(task, counted.get(task.id)),
        ),
        right=("ID", "PRIORITY", "ATTEMPT"),
        drop=("PRIORITY", "ATTEMPT", "LANE", "CREATED", "DETAIL"),
        none="no tasks",
        more=more,
    )  # fmt: skip


def _detail(task: Task, census: Census | None) -> str:
    """Its name, progress and error, for the last column of the list."""
    going_well = task.status in HELD or task.status is State.SUCCEEDED  # whatever happened to an earlier attempt
    error = task.error_info.splitlines()[0] if task.error_info and not going_well else ""
    progress = "" if task.status is State.SUCCEEDED else progress_text(task, census)
    return one_line("  ".join(part for part in (task.name, progress, error) if part))


@commands.add("show")
def show(command: Command, task_id: Id) -> None:
    """Show a task: record, attempts, events, callbacks and log.

    \b
    headgate show 4711
    headgate show 4711 --json
    """  # fmt: skip
    store = command.store
    task = store.tasks.get(task_id)
    census = store.families.census(task) if task.has_children else None
    events = list(all_after(lambda after: store.events.of(task_id, after=after or 0, limit=PAGE)))
    log = list(all_after(lambda after: store.executions.log(task_id, after=after or 0, limit=PAGE)))
    attempts = store.attempts.of(task_id)
    measured = store.usages.of(task_id)
    callbacks = store.deliveries.of_task(task_id)
    holds = store.holds.of(task_id)
    if command.as_json:
        more = {
            "attempts": [asdict(attempt) for attempt in attempts],
            "events": [_event_json(event) for event in events],
            "log": [asdict(entry) for entry in log],
            "checkpoints": sorted(store.executions.checkpoints(task_id)),
            "usage": None if measured is None else {"attempt": measured.attempt} | asdict(measured.usage),
            "callbacks": [callback_json(each, with_history=True) for each in callbacks],
            "holds": [{"resource": hold.resource, "held": hold.held, "since": hold.since} for hold in holds],
        }
        print_json(task_json(task) | _children_json(task, census) | more)
        return
    _show_record(task, census, measured, holds)
    _show_attempts(attempts)
    _show_latest("EVENTS", events, _event_row)
    _show_latest("CALLBACKS", callbacks[::-1], _callback_row)
    _show_latest(
        "LOG", log, lambda entry: (format_time(entry.at), entry.level, f"attempt {entry.attempt}", entry.message)
    )


def _children_json(task: Task, census: Census | None) -> dict[str, Any]:
    if census is None:
        return {}
    children = asdict(census.children) | {"states": census.states, "exact": census.exact}
    return {"progress": progress_value(task, census), "children": children}


def _usage_text(measured: Measured) -> str:
    usage = measured.usage
    sizes = {"of memory": usage.memory_bytes, "read": usage.read_bytes, "written": usage.written_bytes}
    texts = [f"{size / 1e6:.1f} MB {what}" for what, size in sizes.items() if size is not None]
    return ", ".join([f"{usage.cpu_seconds:.2f} s of CPU", *texts]) + f" (attempt {measured.attempt})"


def _show_record(task: Task, census: Census | None, measured: Measured | None, holds: list[Hold]) -> None:
    record = {
        name: format_time(value) if isinstance(value, datetime) else value for name, value in task_json(task).items()
    }
    if task.exec_time is not None:
        record["exec_time"] = format_run_time(task.exec_time)
    record |= {"ext": task.ext, "result": task.result, "progress": progress_text(task, census)}
    record |= {"gave_up": "yes" if task.gave_up else "", "used": "" if measured is None else _usage_text(measured)}
    record["holds"] = ", ".join(hold.resource for hold in holds if hold.held)
    record["waits_for"] = ", ".join(hold.resource for hold in holds if not hold.held)
    if census is not None:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(census.states.items()))
        record["children"] = counts if census.exact else f"more than {EXACT_UP_TO}: {counts}"
    print_fields(record)


def _show_attempts(attempts: list[Attempt]) -> None:
    """A line for each, and below it what went wrong; the record above has the last error with its stack."""
    if not attempts:
        return
    earlier = len(attempts) - LATEST
    print_line("\nATTEMPTS" + (f" ({earlier} earlier: --json shows them)" if earlier > 0 else ""))
    now = utc_now()
    rows = [
        (each.number, format_time(each.started_at), format_run_time((each.ended_at or now) - each.started_at),
         each.executor, _outcome_text(each))
        for each in attempts[-LATEST:]
    ]  # fmt: skip
    print_table(("", "started", "took", "by", "outcome"), rows, below=True)


def _outcome_text(attempt: Attempt) -> str:
    """How an attempt ended: `retrying in 60 s: OSError: gone`, `failed (fatal): ValueError: no`."""
    text = attempt.outcome
    if attempt.delay is not None:
        text += f" in {format_duration(attempt.delay)}" if attempt.outcome == "retrying" else ", runs again"
    elif attempt.reason is not None:
        text += f" ({attempt.reason})"
    return text if attempt.error is None else f"{text}: {one_line(head_of(attempt.error))}"


def _callback_row(sent: CallbackRecord) -> tuple[Any, ...]:
    last = f"{sent.host}, attempt {sent.attempts}: {sent.last_error or sent.last_status}" if sent.attempts else ""
    return (format_time(sent.update_date), sent.kind, sent.status, one_line(last))


def _show_latest(title: str, entries: list[Item], row: Callable[[Item], tuple[Any, ...]]) -> None:
    if not entries:
        return
    earlier = len(entries) - LATEST
    print_line(f"\n{title}" + (f" ({earlier} earlier: --json shows all)" if earlier > 0 else ""))
    print_table(("", "", "", ""), [row(entry) for entry in entries[-LATEST:]], below=True)


def _event_row(event: AuditEvent) -> tuple[Any, ...]:
    if event.after is None or event.before == event.after:
        what = event.kind
    else:
        what = f"{event.kind}: {event.before} → {event.after}" if event.before else f"{event.kind}: {event.after}"
    return (format_time(event.at), what, event.actor, one_line(event_text(event) or ""))


def _event_json(event: AuditEvent) -> dict[str, Any]:
    return {
        "id": event.id, "task_id": event.task_id, "at": event.at, "kind": event.kind, "from": event.before,
        "to": event.after, "actor": event.actor, "exec_id": event.exec_id, "correlation_id": event.correlation_id,
        "detail": event_text(event), "code": event_code(event), "params": event_params(event),
    }  # fmt: skip


@commands.add("why")
def why(command: Command, task_id: Id) -> None:
    """Show what a task waits for, and when it will probably start.

    One line for each gate says why it is open or closed: a held mutex, a full lane, a start
    time, a rate limit, or no worker for the type.

    \b
    headgate why 4711
    """  # fmt: skip
    task, gates, forecast = command.store.forecasts.why(task_id)
    if command.as_json:
        answer = {"task_id": task.id, "status": task.status, "gates": [_gate_json(gate) for gate in gates]}
        print_json(answer | ({"forecast": forecast_json(forecast)} if forecast else {}))
        return
    if task.status in FINAL:
        print_line(f"task {task.id} has ended: {task.status}")
        gates = [gate for gate in gates if gate.name == "callback"]
    if not gates:
        return
    now = utc_now()
    rows = [(gate.name, "open" if gate.open else "closed", _reason(gate, now)) for gate in gates]
    print_table(("", "", ""), rows, wrap=True)
    if forecast is not None:
        width = max(len(gate.name) for gate in gates)
        print_line(f"{'starts':{width}}  {_start_text(forecast)}")


def _gate_json(gate: Gate) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": gate.name, "open": gate.open, "reason": gate.reason, "code": gate.code}
    fields |= {"params": gate.params} if gate.params else {}
    return fields | ({"until": gate.until} if gate.until else {}) | ({"holders": gate.holders} if gate.holders else {})


def _reason(gate: Gate, now: datetime) -> str:
    reason = gate.reason
    if gate.holders and gate.name != "mutex":  # whose reason names them already
        reason += f" ({', '.join(map(str, gate.holders))})"
    if gate.until is None:
        return reason
    return f"{reason} (until {format_time(gate.until)}, in {format_duration(gate.until - now)})"


def _start_text(forecast: Forecast) -> str:
    if forecast.seconds is None:
        return f"unknown: {forecast.reason}"
    if forecast.seconds == 0:
        return "now: the next free worker takes it"
    return f"in about {format_duration(forecast.seconds)} ({forecast.reason})"
