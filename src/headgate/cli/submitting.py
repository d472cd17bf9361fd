"""`headgate submit`: submit a task, and wait for its end if asked to."""

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headgate.cli.apps import declared_task
from headgate.cli.arguments import arguments_of
from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.exits import DONE, FAILED, print_error
from headgate.cli.formatting import one_line
from headgate.cli.lanes import noting_new_lane
from headgate.cli.options import Delay, Ext, Module, NewLane, NewMutex, NewPriority, Pairs
from headgate.cli.output import print_note, progress_text, progress_value, task_json
from headgate.core.errors import Invalid
from headgate.core.family import Census
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, Task
from headgate.core.unique import unique_key_of
from headgate.store.store import Store

commands = CommandGroup()
ENDED = FINAL | {State.DEAD, State.NOTIFYING}
SUCCEEDED = (State.SUCCEEDED, State.NOTIFYING)
FIRST_POLL_SECONDS = 0.02
LONGEST_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class TaskOptions:
    """Fields of a new task, by their names in `NewTask`; whatever is None comes from its type."""

    name: Annotated[str | None, typer.Option(metavar="TEXT", help="Name to show for the task.")] = None
    lane: NewLane = None
    priority: NewPriority = None
    mutex: NewMutex = None
    delay_seconds: Delay = None
    unique_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Return the open task with this key, if there is one.")
    ] = None
    unique_seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stay unique for this long, even after the task has ended.")
    ] = None
    debounce_seconds: Annotated[
        float | None,
        typer.Option(
            "--debounce", metavar="SECONDS", help="Start after this long without another submit; needs a unique key."
        ),
    ] = None
    debounce_longest_seconds: Annotated[
        float | None,
        typer.Option("--debounce-longest", metavar="SECONDS", help="Start at most this long after the first submit."),
    ] = None
    tenant_id: Annotated[int, typer.Option("--tenant", metavar="ID", help="Tenant that owns the task.")] = 0
    creator: Annotated[int, typer.Option(metavar="ID", help="Creator of the task.")] = 0

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@commands.add("submit")
def submit(
    command: Command,
    options: TaskOptions,
    type_code: Annotated[str, typer.Argument(metavar="TYPE", help="Task type.")],
    arguments: Pairs = None,
    ext: Ext = None,
    module: Module = None,
    unique: Annotated[bool, typer.Option("--unique", help="Make a unique key from the arguments.")] = False,
    wait: Annotated[float | None, typer.Option(metavar="SECONDS", help="Wait this long for the task to end.")] = None,
) -> None:
    """Submit a task.

    With --wait the exit code says whether it succeeded.

    \b
    headgate submit hello name=you --wait 10
    headgate submit mail to=ada@example.org --priority 2 --mutex ada
    headgate submit report --ext '{"months": [1, 2, 3]}' --delay 2h
    """  # fmt: skip
    if unique and options.unique_key is not None:
        raise Invalid("--unique and --unique-key exclude each other")
    values = arguments_of(arguments, ext)
    if module is None:
        new, store = NewTask(type_code, json.dumps(values, ensure_ascii=False), **options.given), command.store
    else:
        new, store = declared_task(command, module, NewTask(type_code, **options.given), values)
    if unique:
        new = new._replace(unique_key=unique_key_of(new.ext))
    with noting_new_lane(store, options.lane):
        made = store.tasks.submit(new, actor=command.actor)
    task = store.tasks.get(made.id) if wait is None else _wait(store, made.id, wait, show_progress=not command.as_json)
    command.answer(task_json(task) | {"created": made.created}, _summary(task, made.created, waited=wait is not None))
    if wait is not None:
        raise typer.Exit(_exit_code(task, wait))


def _wait(store: Store, task_id: int, seconds: float, *, show_progress: bool) -> Task:
    """The task when it has ended, or as it is when the time is up. A terminal shows its progress meanwhile."""
    end, pause = time.monotonic() + seconds, FIRST_POLL_SECONDS
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    hidden = not (show_progress and sys.stderr.isatty())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
            row = bar.add_task(f"task {task_id}", total=None)
            while True:
                task = store.tasks.get(task_id)
                left = end - time.monotonic()
                if task.status in ENDED or left <= 0:
                    return task
                census = store.families.census(task) if task.has_children and not hidden else None
                done, total = _done_and_total(task, census)
                text = one_line(f"{task.id} {task.status} {progress_text(task, census)}")
                bar.update(row, description=text, completed=done, total=total)
                time.sleep(max(min(pause, left), 0.0))
                pause = min(pause * 1.5, LONGEST_POLL_SECONDS)
    except KeyboardInterrupt:
        print_note(f"task {task_id} is not cancelled; `headgate show {task_id}` shows it")
        raise


def _done_and_total(task: Task, census: Census | None) -> tuple[float, float | None]:
    """How much is done, of how much; None if the total is not known."""
    progress = progress_value(task, census)
    done, total = (progress.get("done", 0), progress.get("total")) if isinstance(progress, dict) else (0, None)
    return (done, total) if isinstance(done, int | float) and isinstance(total, int | float) else (0, None)


def _summary(task: Task, created: bool, *, waited: bool) -> str:
    head = f"{task.id} {task.status}" + ("" if created else " (already existed)")
    return f"{head} {task.result}" if waited and task.result is not None else head


def _exit_code(task: Task, seconds: float) -> int:
    if task.status in SUCCEEDED:
        return DONE
    if task.status not in ENDED:
        print_error(
            f"task {task.id} has not ended after {seconds:g} s; `headgate why {task.id}` shows what it waits for"
        )
    elif task.error_info:
        print_error(f"task {task.id} is {task.status}: {task.error_info.splitlines()[0]}")
    else:
        print_error(f"task {task.id} is {task.status}")
    return FAILED
