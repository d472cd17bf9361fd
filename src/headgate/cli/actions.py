"""`headgate cancel`, `pause`, `resume`, `retry`, `resolve`, `discard`, `prioritize`, `reschedule`: steer tasks."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_time, one_line
from headgate.cli.options import TIMES, Id, Ids, OptionalIds
from headgate.cli.output import task_json
from headgate.core.errors import Invalid
from headgate.core.pause import EVERYTHING_PAUSED, PauseKey, PauseScope
from headgate.core.reasons import paused_subject
from headgate.core.task import Task, check_start
from headgate.environment import utc_now

commands = CommandGroup()
LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")
SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Target:
    """What to pause or resume instead of tasks."""

    lane: Annotated[str | None, typer.Option("--lane", metavar="NAME", help="Apply to this lane.")] = None
    type: Annotated[str | None, typer.Option("--type", metavar="CODE", help="Apply to this task type.")] = None
    tenant: Annotated[int | None, typer.Option("--tenant", metavar="ID", help="Apply to this tenant.")] = None
    key: Annotated[str | None, typer.Option("--key", metavar="NAME", help="Apply to this rate key.")] = None
    everything: Annotated[bool, typer.Option("--all", help="Apply to everything.")] = False

    def pause_key(self, task_ids: list[int] | None) -> PauseKey | None:
        """What to pause; None: tasks. `Invalid` unless exactly one thing is named."""
        tenant = None if self.tenant is None else str(self.tenant)
        named = {"lane": self.lane, "type": self.type, "tenant": tenant, "key": self.key}
        keys = [(scope, name) for scope, name in named.items() if name is not None]
        keys += [EVERYTHING_PAUSED] if self.everything else []
        if len(keys) + bool(task_ids) != 1:
            raise Invalid("give task IDs, --lane, --type, --tenant, --key or --all: exactly one of them")
        return keys[0] if keys else None


@commands.add("cancel")
def cancel(
    command: Command,
    task_ids: Ids,
    reason: Annotated[str, typer.Option(help="Reason, stored with the task.", show_default=False)] = "",
) -> None:
    """Cancel tasks and their children.

    A task that has not started ends at once. A running one is asked to stop.

    \b
    headgate cancel 4711 4712 --reason "no longer wanted"
    """  # fmt: skip
    _act(command, task_ids, lambda task_id: command.store.tasks.cancel(task_id, reason, actor=command.actor))


@commands.add("pause")
def pause(
    command: Command,
    target: Target,
    task_ids: OptionalIds = None,
    reason: Annotated[str, typer.Option(help="Reason, shown with the pause.", show_default=False)] = "",
    length: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End the pause after this time: 90s, 30min, 2h, 1d.")
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", formats=TIMES, help="End the pause at this time (UTC, or with +hh:mm)."),
    ] = None,
) -> None:
    """Pause tasks, a lane, a type, a tenant, a rate key or all.

    Paused tasks do not start. A running task pauses at its next checkpoint if you
    name its ID; tasks that already run in a paused lane continue. A pause without
    an end lasts until `headgate resume`.

    \b
    headgate pause 4711
    headgate pause --lane mail --reason "moving house" --for 2h
    headgate pause --type resize
    headgate pause --all
    headgate pauses
    """  # fmt: skip
    key, end = target.pause_key(task_ids), _end(length, until)
    if key is not None:
        _switch(command, key, lambda: _pause(command, key, reason, end), paused=True)
    elif reason or end:
        raise Invalid("--reason, --for and --until are not for single tasks: name a lane, type, tenant, key or --all")
    else:
        _act(command, task_ids or [], lambda task_id: command.store.tasks.pause(task_id, actor=command.actor))


def _end(length: str | None, until: datetime | None) -> datetime | None:
    if length is None:
        return until if until is None or until.tzinfo else until.replace(tzinfo=UTC)
    found = LENGTH.fullmatch(length)
    if until is not None:
        raise Invalid("give --for or --until, not both")
    if found is None:
        raise Invalid(f"--for {length!r} is not a duration: give a number and s, min, h or d, as in 90s or 2h")
    return utc_now() + timedelta(seconds=float(found[1]) * SECONDS[found[2]])


def _pause(command: Command, key: PauseKey, reason: str, until: datetime | None) -> bool:
    store, (scope, name) = command.store, key
    if scope == PauseScope.LANE:
        return store.lanes.pause(name, reason=reason, until=until, actor=command.actor)
    if scope == PauseScope.TYPE:
        store.types.get(name)
    return store.pauses.set(PauseScope(scope), name, reason=reason, until=until, actor=command.actor)


@commands.add("resume")
def resume(command: Command, target: Target, task_ids: OptionalIds = None) -> None:
    """Resume tasks, a lane, a type, a tenant, a rate key or all.

    \b
    headgate resume 4711
    headgate resume --lane mail
    headgate resume --all
    """  # fmt: skip
    key = target.pause_key(task_ids)
    if key is not None:
        _switch(
            command,
            key,
            lambda: command.store.pauses.end(PauseScope(key[0]), key[1], actor=command.actor),
            paused=False,
        )
    else:
        _act(command, task_ids or [], lambda task_id: command.store.tasks.resume(task_id, actor=command.actor))


@commands.add("pauses")
def pauses(command: Command) -> None:
    """List everything that is paused, except single tasks.

    \b
    headgate pauses
    """
    command.answer_all(
        command.store.pauses.active(),
        asdict,
        ("PAUSED", "SINCE", "UNTIL", "BY", "REASON"),
        lambda pause: (
            pause.subject, format_time(pause.at), format_time(pause.until), pause.actor, one_line(pause.reason)
        ),
        drop=("SINCE", "BY"),
        none="nothing is paused",
    )  # fmt: skip


@commands.add("retry")
def retry(command: Command, task_ids: Ids) -> None:
    """Run tasks again.

    A dead or retrying task runs again itself, at once. A finished task is
    copied, and the ID of the copy is printed. `headgate dead-letters replay`
    changes the arguments of a dead or failed task first.

    \b
    headgate retry 4711
    """  # fmt: skip
    _act(command, task_ids, lambda task_id: command.store.tasks.retry(task_id, actor=command.actor))


@commands.add("resolve")
def resolve(
    command: Command,
    task_ids: Ids,
    remark: Annotated[str, typer.Option(help="What was done about it, stored with the task.")],
) -> None:
    """Mark dead tasks as resolved by a person.

    \b
    headgate resolve 4711 --remark "paid by hand"
    """  # fmt: skip
    _act(command, task_ids, lambda task_id: command.store.tasks.resolve(task_id, remark, actor=command.actor))


@commands.add("discard")
def discard(command: Command, task_ids: Ids) -> None:
    """Give up dead tasks: they become failed.

    They are removed after the retention of failed tasks.

    \b
    headgate discard 4711
    """  # fmt: skip
    _act(command, task_ids, lambda task_id: command.store.tasks.discard(task_id, actor=command.actor))


@commands.add("prioritize")
def prioritize(
    command: Command,
    task_id: Id,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="Lower runs first.  [default: ahead of its whole lane]")
    ] = None,
) -> None:
    """Change the priority of a task.

    Without --priority it moves to the head of its lane.

    \b
    headgate prioritize 4711
    headgate prioritize 4711 --priority 2
    """  # fmt: skip
    _act(
        command,
        [task_id],
        lambda task_id: command.store.tasks.prioritize(task_id, priority, actor=command.actor),
        lambda task: f"{task.id} {task.status}, priority {task.priority}",
    )


@commands.add("reschedule")
def reschedule(
    command: Command,
    task_ids: Ids,
    delay: Annotated[float | None, typer.Option(metavar="SECONDS", help="Start this many seconds from now.")] = None,
    start_time: Annotated[
        datetime | None, typer.Option(metavar="TIME", formats=TIMES, help="Start at this time (UTC, or with +hh:mm).")
    ] = None,
) -> None:
    """Change the start time of tasks that have not started.

    A queued task leaves the queue until then.

    \b
    headgate reschedule 4711 --delay 3600
    headgate reschedule 4711 4712 --start-time 2026-12-24T18:00:00
    """  # fmt: skip
    at_time = start_time if start_time is None or start_time.tzinfo else start_time.replace(tzinfo=UTC)
    check_start(at_time, delay)
    _act(
        command,
        task_ids,
        lambda task_id: command.store.tasks.reschedule(task_id, at_time, delay_seconds=delay, actor=command.actor),
        lambda task: f"{task.id} {task.status}, not before {format_time(task.start_time)}",
    )


def status_line(task: Task) -> str:
    """The status of a task after an action, on one line."""
    if task.cancel_requested or task.pause_requested:
        return f"{task.id} {task.status}, asked to {'stop' if task.cancel_requested else 'pause'}"
    return f"{task.id} {task.status}" + (f" (copy of {task.retry_of})" if task.retry_of else "")


def _act(
    command: Command, task_ids: list[int], act: Callable[[int], Task], describe: Callable[[Task], str] = status_line
) -> None:  # fmt: skip
    command.for_each(task_ids, act, task_json, describe)


def _switch(command: Command, key: PauseKey, switch: Callable[[], bool], *, paused: bool) -> None:
    scope, name = key
    if scope == PauseScope.LANE:
        command.store.lanes.check_known(name)
    changed = switch()
    subject = paused_subject({"scope": scope, "name": name})
    done, already = ("paused", "paused") if paused else ("resumed", "active")
    text = f"{subject} {done}" if changed else f"{subject} is already {already}"
    answer = {"scope": scope, "name": name, "lane": name if scope == PauseScope.LANE else None}
    command.answer(answer | {"paused": paused, "changed": changed}, text)
