"""`headgate submit`: make a task, and wait for its end if asked to."""

import json
import os
import sys
import time
from contextlib import ExitStack
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headgate.cli.apps import apps_in, bind_apps, settings_of
from headgate.cli.exits import DONE, FAILED, print_error
from headgate.cli.formatting import one_line
from headgate.cli.lanes import noting_new_lane
from headgate.cli.options import Json, Url
from headgate.cli.output import note, print_json, progress_text, progress_value, say, task_json
from headgate.cli.stores import bring_up_to_date, existing_store
from headgate.client import call_of
from headgate.core.errors import Invalid, UnknownType
from headgate.core.family import Census
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, Task
from headgate.core.unique import unique_key_of
from headgate.store.store import Store, configured_store

ENDED = FINAL | {State.DEAD, State.NOTIFYING}
SUCCEEDED = (State.SUCCEEDED, State.NOTIFYING)
FIRST_POLL_SECONDS = 0.02
LONGEST_POLL_SECONDS = 0.25


def submit(
    type_code: Annotated[str, typer.Argument(metavar="TYPE", help="The task's type.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Its arguments. A value that is JSON is taken as such.", show_default=False
        ),
    ] = None,
    ext: Annotated[str | None, typer.Option(metavar="JSON", help="The arguments as one JSON object.")] = None,
    module: Annotated[
        str | None,
        typer.Option(
            "--module",
            "-m",
            metavar="MODULE",
            help="Where the task is declared: check the arguments against it.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="A name for people.")] = None,
    lane: Annotated[str | None, typer.Option(help="Another lane than the type's.")] = None,
    priority: Annotated[
        int | None, typer.Option(help="Smaller runs first.  [default: the type's]", show_default=False)
    ] = None,
    mutex: Annotated[str | None, typer.Option(help="Tasks of one mutex run one at a time.")] = None,
    delay: Annotated[float | None, typer.Option(metavar="SECONDS", help="Start no sooner than this.")] = None,
    unique_key: Annotated[str | None, typer.Option(help="If an open task has this key, make no second one.")] = None,
    unique: Annotated[bool, typer.Option("--unique", help="A unique key made of the arguments.")] = False,
    unique_seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Unique for so long, even when the first one has ended.")
    ] = None,
    debounce: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Start when nobody has asked again for so long; needs a unique key."),
    ] = None,
    debounce_longest: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="But no later than this after it was first asked for."),
    ] = None,
    creator: Annotated[int, typer.Option(help="Whose task it is.")] = 0,
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Wait for its end, no longer than this.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make a task.

    With --wait the exit code says whether it succeeded.

    \b
    headgate submit hello name=you --wait 10
    headgate submit download subscription_id=7 url=https://example.org --priority 2 --mutex subscription:7
    headgate submit report --ext '{"months": [1, 2, 3]}' --delay 3600
    """  # fmt: skip
    options: dict[str, Any] = {
        "name": name, "lane": lane, "priority": priority, "mutex": mutex, "delay_seconds": delay,
        "unique_key": unique_key, "creator": creator, "unique_seconds": unique_seconds, "debounce_seconds": debounce,
        "debounce_longest_seconds": debounce_longest,
    }  # fmt: skip
    if unique and unique_key is not None:
        raise Invalid("say --unique or --unique-key, not both")
    given = {option: value for option, value in options.items() if value is not None}
    task_arguments = arguments_of(arguments or [], ext)
    with ExitStack() as stack:
        if module is None:
            store = stack.enter_context(existing_store(url))
            text = json.dumps(task_arguments, ensure_ascii=False)
            new = NewTask(type_code, text, **given | ({"unique_key": unique_key_of(text)} if unique else {}))
        else:
            store, new = _as_declared(stack, module, url, type_code, task_arguments, given)
            new = new._replace(unique_key=unique_key_of(new.ext)) if unique else new
        with noting_new_lane(store, lane):
            made = store.tasks.submit(new)
        if wait is None:
            task = store.tasks.get(made.id)
        else:
            try:
                task = _wait(store, made.id, wait, show_progress=not as_json)
            except KeyboardInterrupt:
                note(f"task {made.id} goes on; `headgate show {made.id}` says how it is")
                raise
    if as_json:
        print_json(task_json(task) | {"created": made.created})
    else:
        say(_summary(task, made.created, waited=wait is not None))
    if wait is not None:
        raise typer.Exit(_exit_code(task, wait))


def arguments_of(pairs: list[str], ext: str | None) -> dict[str, Any]:
    """The arguments of a task, from `key=value` pairs over a JSON object."""
    try:
        found = {} if ext is None else json.loads(ext)
    except ValueError as error:
        raise Invalid(f"--ext is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Invalid("--ext is a JSON object: the arguments by name")
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise Invalid(f"{pair!r} is no argument: say key=value")
        found[key] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return text


def _as_declared(
    stack: ExitStack, module: str, url: str | None, type_code: str, arguments: dict[str, Any], options: dict[str, Any]
) -> tuple[Store, NewTask]:
    apps = apps_in([module])
    settings = settings_of(apps, url or os.environ.get("HEADGATE_URL"))
    store = stack.enter_context(configured_store(settings))
    bring_up_to_date(store)
    handler = bind_apps(apps, store).get(type_code)
    if handler is None:
        raise UnknownType(f"module {module} declares no task {type_code}")
    return store, call_of(handler, handler.new_task._replace(**options), (), arguments).new


def _wait(store: Store, task_id: int, seconds: float, *, show_progress: bool) -> Task:
    """The task when it has ended, or as it is when the time is up. A terminal is shown how far it is."""
    end, pause = time.monotonic() + seconds, FIRST_POLL_SECONDS
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    hidden = not (show_progress and sys.stderr.isatty())
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


def _done_and_total(task: Task, census: Census | None) -> tuple[float, float | None]:
    """How much is done, of how much; None if the total is not known."""
    progress = progress_value(task, census)
    done, total = (progress.get("done", 0), progress.get("total")) if isinstance(progress, dict) else (0, None)
    return (done, total) if isinstance(done, int | float) and isinstance(total, int | float) else (0, None)


def _summary(task: Task, created: bool, *, waited: bool) -> str:
    head = f"{task.id} {task.status}" + ("" if created else " (it was there already)")
    return f"{head} {task.result}" if waited and task.result is not None else head


def _exit_code(task: Task, seconds: float) -> int:
    if task.status in SUCCEEDED:
        return DONE
    if task.status not in ENDED:
        print_error(
            f"task {task.id} has not ended after {seconds:g} s; `headgate why {task.id}` says what it waits for"
        )
    elif task.error_info:
        print_error(f"task {task.id} is {task.status}: {task.error_info.splitlines()[0]}")
    else:
        print_error(f"task {task.id} is {task.status}")
    return FAILED
