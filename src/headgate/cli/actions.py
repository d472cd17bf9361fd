"""`headgate cancel`, `pause`, `resume`, `retry`, `resolve`, `discard`, `prioritize`, `reschedule`: steer tasks."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_time
from headgate.cli.lanes import noting_new_lane
from headgate.cli.options import Id, Ids, OptionalIds
from headgate.cli.output import task_json
from headgate.core.errors import Invalid
from headgate.core.task import Task, check_start

commands = CommandGroup()
TIMES = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"]
WholeLane = Annotated[str | None, typer.Option("--lane", metavar="NAME", help="Apply to this lane.")]
AllLanes = Annotated[bool, typer.Option("--all", help="Apply to all lanes.")]


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
    _act(command, task_ids, lambda task_id: command.store.tasks.cancel(task_id, reason))


@commands.add("pause")
def pause(
    command: Command, task_ids: OptionalIds = None, lane: WholeLane = None, everything: AllLanes = False
) -> None:  # fmt: skip
    """Pause tasks, a lane or all lanes.

    Nothing paused starts. A running task named by its ID pauses at its next
    checkpoint; tasks that already run in a paused lane continue.

    \b
    headgate pause 4711
    headgate pause --lane mail
    headgate pause --all
    """  # fmt: skip
    if _tasks_are_named(task_ids, lane, everything):
        _act(command, task_ids or [], lambda task_id: command.store.tasks.pause(task_id))
    else:
        _switch_lane(command, lane, lambda: command.store.lanes.pause(lane), paused=True)


@commands.add("resume")
def resume(
    command: Command, task_ids: OptionalIds = None, lane: WholeLane = None, everything: AllLanes = False
) -> None:  # fmt: skip
    """Resume paused tasks, a lane or all lanes.

    \b
    headgate resume 4711
    headgate resume --lane mail
    headgate resume --all
    """  # fmt: skip
    if _tasks_are_named(task_ids, lane, everything):
        _act(command, task_ids or [], lambda task_id: command.store.tasks.resume(task_id))
    else:
        _switch_lane(command, lane, lambda: command.store.lanes.resume(lane), paused=False)


@commands.add("retry")
def retry(command: Command, task_ids: Ids) -> None:
    """Run tasks again.

    A dead or retrying task runs again itself, at once. A finished task is
    copied, and the ID of the copy is printed.

    \b
    headgate retry 4711
    """  # fmt: skip
    _act(command, task_ids, lambda task_id: command.store.tasks.retry(task_id))


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
    _act(command, task_ids, lambda task_id: command.store.tasks.resolve(task_id, remark))


@commands.add("discard")
def discard(command: Command, task_ids: Ids) -> None:
    """Give up dead tasks.

    They become failed, and are removed after their retention.

    \b
    headgate discard 4711
    """  # fmt: skip
    _act(command, task_ids, lambda task_id: command.store.tasks.discard(task_id))


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
        lambda task_id: command.store.tasks.prioritize(task_id, priority),
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
    """Change when tasks start that have not started yet.

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
        lambda task_id: command.store.tasks.reschedule(task_id, at_time, delay_seconds=delay),
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


def _tasks_are_named(task_ids: list[int] | None, lane: str | None, everything: bool) -> bool:
    """Whether tasks are meant, rather than a lane or all lanes; `Invalid` unless it is one of the three."""
    if sum((bool(task_ids), lane is not None, everything)) != 1:
        raise Invalid("give task IDs, --lane NAME or --all: exactly one of them")
    return bool(task_ids)


def _switch_lane(command: Command, lane: str | None, switch: Callable[[], bool], *, paused: bool) -> None:
    with noting_new_lane(command.store, lane):
        changed = switch()
    subject, verb = ("all lanes", "are") if lane is None else (f"lane {lane}", "is")
    done, already = ("paused", "paused") if paused else ("resumed", "active")
    text = f"{subject} {done}" if changed else f"{subject} {verb} already {already}"
    command.answer({"lane": lane, "paused": paused, "changed": changed}, text)
