"""`headgate cancel`, `pause`, `resume`, `retry`, `resolve`, `discard`, `prioritize`, `reschedule`: steer tasks."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer

from headgate.cli.exits import DONE, code_of, print_error
from headgate.cli.formatting import format_time
from headgate.cli.lanes import noting_new_lane
from headgate.cli.options import Id, Ids, Json, Url
from headgate.cli.output import print_json, say, task_json
from headgate.cli.stores import existing_store
from headgate.core.errors import Invalid, NotFound, Refused
from headgate.core.task import Task, check_start
from headgate.store.store import Store

SomeIds = Annotated[list[int] | None, typer.Argument(metavar="ID", help="The tasks' numbers.", show_default=False)]
Lane = Annotated[str | None, typer.Option(metavar="NAME", help="The whole lane instead of tasks.")]
TIMES = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"]
All = Annotated[bool, typer.Option("--all", help="Everything instead of tasks.")]


def cancel(
    task_ids: Ids,
    reason: Annotated[str, typer.Option(help="Why; kept with the task.", show_default=False)] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """End tasks early.

    At once before their start, else as soon as their execution hears of it. Their children end too.

    \b
    headgate cancel 4711 4712 --reason "no longer wanted"
    """  # fmt: skip
    _act_on_each(task_ids, url, as_json, lambda store, task_id: store.tasks.cancel(task_id, reason))


def pause(
    task_ids: SomeIds = None,
    lane: Lane = None,
    everything: All = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Hold tasks, a lane or everything.

    Nothing of it starts. A running task pauses at its next checkpoint; what else runs in a lane goes on.

    \b
    headgate pause 4711
    headgate pause --lane requires_cookie
    headgate pause --all
    """  # fmt: skip
    if _tasks_are_named(task_ids, lane, everything):
        _act_on_each(task_ids or [], url, as_json, lambda store, task_id: store.tasks.pause(task_id))
    else:
        _pause_or_resume(lane, url, as_json, lambda store, lane: store.lanes.pause(lane), paused=True)


def resume(
    task_ids: SomeIds = None,
    lane: Lane = None,
    everything: All = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Let paused tasks, a lane or everything go on.

    \b
    headgate resume 4711
    headgate resume --lane requires_cookie
    headgate resume --all
    """  # fmt: skip
    if _tasks_are_named(task_ids, lane, everything):
        _act_on_each(task_ids or [], url, as_json, lambda store, task_id: store.tasks.resume(task_id))
    else:
        _pause_or_resume(lane, url, as_json, lambda store, lane: store.lanes.resume(lane), paused=False)


def retry(task_ids: Ids, url: Url = None, as_json: Json = False) -> None:
    """Run tasks again.

    A dead or retrying one itself, at once; of one that has ended a copy, whose number is printed.

    \b
    headgate retry 4711
    """  # fmt: skip
    _act_on_each(task_ids, url, as_json, lambda store, task_id: store.tasks.retry(task_id))


def resolve(
    task_ids: Ids,
    remark: Annotated[str, typer.Option(help="What was done about it; kept with the task.", show_default=False)],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Say that a person dealt with dead tasks.

    \b
    headgate resolve 4711 --remark "paid by hand"
    """  # fmt: skip
    _act_on_each(task_ids, url, as_json, lambda store, task_id: store.tasks.resolve(task_id, remark))


def discard(task_ids: Ids, url: Url = None, as_json: Json = False) -> None:
    """Give dead tasks up.

    They become failed, and leave after their time.

    \b
    headgate discard 4711
    """  # fmt: skip
    _act_on_each(task_ids, url, as_json, lambda store, task_id: store.tasks.discard(task_id))


def prioritize(
    task_id: Id,
    priority: Annotated[
        int | None, typer.Option(help="Smaller runs first.  [default: the head of its lane]", show_default=False)
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Change a task's place in line.

    Without --priority it goes to the head of its lane.

    \b
    headgate prioritize 4711
    headgate prioritize 4711 --priority 2
    """  # fmt: skip
    _act_on_each(
        [task_id], url, as_json, lambda store, task_id: store.tasks.prioritize(task_id, priority), _priority_line
    )


def reschedule(
    task_ids: Ids,
    delay: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Start in so many seconds.", show_default=False)
    ] = None,
    start_time: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME", formats=TIMES, help="Start at this time (UTC, or with +hh:mm).", show_default=False
        ),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Snooze tasks that have not started, or let them start sooner.

    One that waits in line leaves it until then; one that waits for its time waits until then.

    \b
    headgate reschedule 4711 --delay 3600
    headgate reschedule 4711 4712 --start-time 2026-12-24T18:00:00
    """  # fmt: skip
    at_time = start_time if start_time is None or start_time.tzinfo else start_time.replace(tzinfo=UTC)
    check_start(at_time, delay)
    _act_on_each(
        task_ids,
        url,
        as_json,
        lambda store, task_id: store.tasks.reschedule(task_id, at_time, delay_seconds=delay),
        _start_time_line,
    )


def _start_time_line(task: Task) -> str:
    return f"{task.id} {task.status}, not before {format_time(task.start_time)}"


def status_line(task: Task) -> str:
    """The status of a task after an action, on one line."""
    if task.cancel_requested or task.pause_requested:
        return f"{task.id} {task.status}, asked to {'stop' if task.cancel_requested else 'pause'}"
    return f"{task.id} {task.status}" + (f" (again: {task.retry_of})" if task.retry_of else "")


def _priority_line(task: Task) -> str:
    return f"{task.id} {task.status}, priority {task.priority}"


def _act_on_each(
    task_ids: list[int],
    url: str | None,
    as_json: bool,
    act: Callable[[Store, int], Task],
    describe: Callable[[Task], str] = status_line,
) -> None:
    with existing_store(url) as store:
        code = act_on(store, task_ids, as_json, act, describe)
    if code:
        raise typer.Exit(code)


def act_on(
    store: Store,
    task_ids: Iterable[int],
    as_json: bool,
    act: Callable[[Store, int], Task],
    describe: Callable[[Task], str],
) -> int:
    """Act on one task after the other. The first that refuses decides the exit code, and holds up none of the rest."""
    code = DONE
    for task_id in task_ids:
        try:
            task = act(store, task_id)
        except (Refused, NotFound, Invalid) as error:
            print_error(error)
            code = code or code_of(error)
            continue
        if as_json:
            print_json(task_json(task))
        else:
            say(describe(task))
    return code


def _tasks_are_named(task_ids: list[int] | None, lane: str | None, everything: bool) -> bool:
    """Whether tasks are meant, rather than a lane or everything; `Invalid` unless it is one of the three."""
    if sum((bool(task_ids), lane is not None, everything)) != 1:
        raise Invalid("say which: the numbers of tasks, --lane NAME or --all")
    return bool(task_ids)


def _pause_or_resume(
    lane: str | None, url: str | None, as_json: bool, act: Callable[[Store, str | None], bool], *, paused: bool
) -> None:
    with existing_store(url) as store, noting_new_lane(store, lane):
        changed = act(store, lane)
    if as_json:
        print_json({"lane": lane, "paused": paused, "changed": changed})
        return
    what = "everything" if lane is None else f"lane {lane}"
    say(f"{what} {'is' if changed else 'was already'} {'paused' if paused else 'going on'}")
