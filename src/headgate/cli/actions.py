"""`headgate cancel`, `pause`, `resume`, `retry`, `resolve`, `discard`, `prioritize`, `reschedule`: steer tasks."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_time, one_line
from headgate.cli.lanes import pause_details, pause_text
from headgate.cli.options import TIME_AHEAD, Delay, Id, Ids, OptionalIds
from headgate.cli.output import print_note, task_json
from headgate.cli.times import NONE, end_ahead, seconds, time_ahead
from headgate.core.errors import Invalid
from headgate.core.pause import EVERYTHING_PAUSED, UNCHANGED, Pause, PauseKey, PauseScope, Unchanged
from headgate.core.reasons import paused_subject
from headgate.core.states import State
from headgate.core.task import Task
from headgate.environment import utc_now
from headgate.store.reading.lists import Filter

commands = CommandGroup()


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
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, stored with the task.", show_default=False)] = "",
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
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reason, shown with the pause.", show_default=False)
    ] = None,
    length: Annotated[
        float | None,
        typer.Option(
            "--for", metavar="TIME", parser=seconds("--for"), help="End the pause after this time: 90s, 30min, 2h, 1d."
        ),
    ] = None,
    until: Annotated[
        Any,
        typer.Option(
            metavar="TIME",
            parser=end_ahead("--until"),
            help=f"End the pause at this time: {TIME_AHEAD}. `none`: no end.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Pause tasks, a lane, a type, a tenant, a rate key or all.

    Paused tasks do not start. A running task pauses at its next checkpoint if you
    name its ID; tasks that already run in a paused lane continue. A pause without
    an end lasts until `headgate resume`. Pausing again changes only what you give:
    the reason, or the end.

    \b
    headgate pause 4711
    headgate pause --lane mail --reason "moving house" --for 2h
    headgate pause --lane mail --until 18:00
    headgate pause --type resize
    headgate pause --all
    headgate pauses
    """  # fmt: skip
    key, end = target.pause_key(task_ids), _end(length, until)
    if key is not None:
        _pause(command, key, UNCHANGED if reason is None else reason, end)
    elif reason is not None or end is not UNCHANGED:
        raise Invalid("--reason, --for and --until are not for single tasks: name a lane, type, tenant, key or --all")
    else:
        _act(command, task_ids or [], lambda task_id: command.store.tasks.pause(task_id, actor=command.actor))


def _end(length: float | None, until: Any) -> datetime | Unchanged | None:
    if length is not None and until is not None:
        raise Invalid("give --for or --until, not both")
    if length is not None:
        return utc_now() + timedelta(seconds=length)
    return UNCHANGED if until is None else None if until == NONE else until


def _pause(command: Command, key: PauseKey, reason: str | Unchanged, until: datetime | Unchanged | None) -> None:
    store, (scope, name) = command.store, key
    if scope == PauseScope.LANE:
        store.lanes.check_known(name)
    elif scope == PauseScope.TYPE:
        store.types.get(name)
    before = store.pauses.by_key().get(key)
    changed = store.pauses.set(PauseScope(scope), name, reason=reason, until=until, actor=command.actor)
    _answer_switch(command, key, _paused_text(key, before, store.pauses.by_key().get(key), changed), True, changed)
    if note := _unknown_text(command, key):
        print_note(note)


def _paused_text(key: PauseKey, before: Pause | None, after: Pause | None, changed: bool) -> str:
    """What a pause did; of one that was there, what it is now and what it was."""
    subject = paused_subject({"scope": key[0], "name": key[1]})
    if before is None or after is None:
        return f"{subject} paused"
    return (
        f"{pause_text(after)} (was: {pause_details(before)})"
        if changed
        else f"{subject} is already {pause_details(after)}"
    )


def _unknown_text(command: Command, key: PauseKey) -> str | None:
    """A note on a tenant or a rate key that no task has: a pause may come before its first task, or be misspelled."""
    store, (scope, name) = command.store, key
    if scope == PauseScope.TENANT and name not in {str(tenant.id) for tenant in store.tenants.all()}:
        return f"no task of tenant {name} is known: the pause holds those to come"
    if scope == PauseScope.KEY:
        known = {f"key:{stream.rate_key}" for stream in store.catalog.recent().streams.values()}
        if f"key:{name}" not in known | {limit.name for limit in store.rate_limits.all()}:
            return f"no task with rate key {name} is known: the pause holds those to come"
    return None


@commands.add("resume")
def resume(command: Command, target: Target, task_ids: OptionalIds = None) -> None:
    """Resume tasks, a lane, a type, a tenant, a rate key or all.

    Each pause is ended by its own name: --all ends a pause of everything, and names
    the lanes, types and others that are paused by themselves.

    \b
    headgate resume 4711
    headgate resume --lane mail
    headgate resume --all
    """  # fmt: skip
    key = target.pause_key(task_ids)
    if key is not None:
        _resume(command, key)
    else:
        _act(command, task_ids or [], lambda task_id: command.store.tasks.resume(task_id, actor=command.actor))


def _resume(command: Command, key: PauseKey) -> None:
    store, (scope, name) = command.store, key
    if scope == PauseScope.LANE:
        store.lanes.check_known(name)
    ended = store.pauses.end(PauseScope(scope), name, actor=command.actor)
    subject = paused_subject({"scope": scope, "name": name})
    left = store.pauses.by_key()
    if key == EVERYTHING_PAUSED:
        text = "everything resumed" if ended else "there is no pause of everything"
        others = [pause.subject for pause in left.values()]
        if store.tasks.find(Filter(status=(State.PAUSED,)), limit=1).items:
            others.append("single tasks (`headgate list --status paused`)")
        text = text if ended or others else "nothing is paused"
        note = f"still paused: {', '.join(others)}; resume each by its name" if others else ""
    else:
        text = f"{subject} resumed" if ended else f"{subject} is not paused"
        everything = left.get(EVERYTHING_PAUSED)
        note = f"{pause_text(everything)}: `headgate resume --all` resumes it" if everything else ""
    _answer_switch(command, key, text, False, ended)
    if note:
        print_note(note)


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
        lambda pause: (pause.subject, pause.at, pause.until, pause.actor, one_line(pause.reason)),
        drop=("SINCE", "BY"),
        below=True,
        none="nothing is paused",
    )


@commands.add("retry")
def retry(command: Command, task_ids: Ids) -> None:
    """Run tasks again.

    A dead or retrying task is itself run again, at once. A finished task is
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
    remark: Annotated[str, typer.Option(metavar="TEXT", help="What was done about it, stored with the task.")],
) -> None:
    """Mark dead tasks as resolved by a person.

    \b
    headgate resolve 4711 --remark "paid by hand"
    """  # fmt: skip
    _act(command, task_ids, lambda task_id: command.store.tasks.resolve(task_id, remark, actor=command.actor))


@commands.add("discard")
def discard(command: Command, task_ids: Ids) -> None:
    """Give up dead tasks: they become failed.

    They are removed after the retention period for failed tasks.

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
    delay_seconds: Delay = None,
    start_time: Annotated[
        Any,
        typer.Option(metavar="TIME", parser=time_ahead("--start-time"), help=f"Start at this time: {TIME_AHEAD}."),
    ] = None,
) -> None:
    """Change the start time of tasks that have not started.

    A queued task leaves the queue until then.

    \b
    headgate reschedule 4711 --delay 2h
    headgate reschedule 4711 4712 --start-time "2026-12-24 18:00"
    """  # fmt: skip
    if (delay_seconds is None) == (start_time is None):
        raise Invalid("give --delay or --start-time" + ("" if start_time is None else ", not both"))
    _act(
        command,
        task_ids,
        lambda task_id: command.store.tasks.reschedule(
            task_id, start_time, delay_seconds=delay_seconds, actor=command.actor
        ),
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


def _answer_switch(command: Command, key: PauseKey, text: str, paused: bool, changed: bool) -> None:
    scope, name = key
    answer = {"scope": scope, "name": name, "lane": name if scope == PauseScope.LANE else None}
    command.answer(answer | {"paused": paused, "changed": changed}, text)
