"""The `headgate` command."""

import importlib
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from headgate import __version__
from headgate.cli.exits import MEANING, code_of, print_error
from headgate.cli.options import BrokerUrl, PackNames, Url
from headgate.cli.plan import SUPERVISOR_MODULE, WORKER_MODULE, Duties, ProcessPlan, exec_process
from headgate.core.errors import HeadgateError, Invalid
from headgate.settings import load

DEMO = "headgate.demo"
# A module is loaded when a command of it is run, or all are listed: loading is most of what a command costs.
MODULES = {
    "migrating": ["migrate"],
    "doctor": ["doctor"],
    "submitting": ["submit"],
    "tasks": ["list", "show", "why"],
    "actions": [
        "cancel", "pause", "resume", "pauses", "retry", "resolve", "discard", "prioritize", "reschedule",
    ],
    "callbacks": ["callbacks", "redeliver"],
    "agents": ["workers", "agents"],
    "audit": ["audit"],
    "history": ["purge"],
    "simulating": ["simulate"],
}  # fmt: skip
GROUPS = {  # each with commands of its own
    "dead-letters": "dead_letters",
    "lanes": "lanes",
    "schedules": "schedules",
    "limits": "limits",
    "tenants": "tenants",
    "types": "types",
    "keys": "keys",
    "compensation": "compensation",
    "listeners": "listeners",
}
PACK_COMMANDS = "pack_commands"
EPILOG = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in MEANING.items()) + "."

Concurrency = Annotated[
    int | None,
    typer.Option(min=1, metavar="M", help="Maximum number of coroutines at once.  [default: 100]", show_default=False),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, metavar="T", help="Maximum number of threads at once.  [default: 16]", show_default=False),
]
Children = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="C",
        help="Maximum number of child processes at once.  [default: one per core]",
        show_default=False,
    ),
]
Name = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the worker.  [default: host and pid]", show_default=False)
]
Host = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Address to listen on.  [default: HEADGATE_HOST, 127.0.0.1]", show_default=False
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help="Port to listen on; 0 picks a free one.  [default: HEADGATE_PORT, 8000]",
        show_default=False,
    ),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write log lines as JSON.")]
Modules = Annotated[
    list[str] | None, typer.Argument(metavar="MODULE", help="Modules that declare tasks.", show_default=False)
]
SomeModules = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODULE", help="Modules that declare tasks.  [default: headgate.demo]", show_default=False),
]


class Commands(TyperGroup):
    """All commands, with those of the active packs; a Headgate error becomes one line and an exit code."""

    commands: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands |= dict.fromkeys([*chain(*MODULES.values()), *GROUPS])

    def list_commands(self, context: Any) -> list[str]:
        with suppress(HeadgateError):  # help works even if the settings are invalid
            return [*self.commands, *self._of_packs]
        return [*self.commands]

    def get_command(self, context: Any, name: str) -> Any:
        if name not in self.commands:
            return self._of_packs.get(name)
        if self.commands[name] is None:
            self.commands[name] = _load_command(name)
        return self.commands[name]

    @cached_property
    def _of_packs(self) -> dict[str, Any]:
        names = load().pack_names
        groups = _load(PACK_COMMANDS).pack_commands(names) if names else {}
        return {name: get_group(group) for name, group in groups.items()}

    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except HeadgateError as error:
            print_error(error)
            raise typer.Exit(code_of(error)) from None


def _load_command(name: str) -> Any:
    if name in GROUPS:
        return get_group(_load(GROUPS[name]).commands)
    [module] = [module for module, names in MODULES.items() if name in names]
    return get_group(_load(module).commands).commands[name]


def _load(module: str) -> Any:
    return importlib.import_module(f"headgate.cli.{module}")


app = typer.Typer(
    cls=Commands,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headgate {__version__}")
        raise typer.Exit


@app.callback()
def headgate(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run background tasks, watch them and control them.

    The store is the file headgate.db in this directory, unless --url or HEADGATE_URL
    names another.

    \b
    headgate up                                # start, with the demo tasks
    headgate submit hello name=you --wait 10   # submit a task
    headgate list                              # list tasks
    headgate why 2                             # show what a task waits for
    """  # fmt: skip


@app.command()
def up(
    modules: SomeModules = None,
    concurrency: Concurrency = None,
    threads: Threads = None,
    children: Children = None,
    name: Name = None,
    host: Host = None,
    port: Port = None,
    pack: PackNames = None,
    url: Url = None,
    broker: BrokerUrl = None,
    log_json: LogJson = False,
) -> None:
    """Run the HTTP API, a worker and all background duties.

    Creates the store first, or brings its schema up to date. The worker is a separate
    process, restarted when it dies or has a handler that does not stop. SIGTERM or
    Ctrl-C lets running tasks finish; a second signal stops immediately.

    \b
    headgate up
    headgate up shop.tasks
    headgate up shop.tasks --pack media
    """  # fmt: skip
    named = [*(modules or ()), *(f"pack {each}" for each in {*(pack or ()), *load().pack_names})]
    greeting = f"serving {' '.join(named)}" if named else _demo_greeting(url)
    plan = ProcessPlan(
        modules=tuple(modules or ([] if named else [DEMO])), packs=tuple(pack or ()), work=True, api=True, host=host,
        port=port, migrate=True, greeting=greeting, name=name, concurrency=concurrency, threads=threads,
        children=children, log_json=log_json,
    )  # fmt: skip
    exec_process(WORKER_MODULE, plan, url, broker)


def _demo_greeting(url: str | None) -> str:
    same = "" if url is None else " and the same --url"
    return (
        f"serving {DEMO}, since no module was named; "
        f"from another terminal{same} try: headgate submit hello name=you --wait 10"
    )


@app.command()
def serve(
    host: Host = None,
    port: Port = None,
    no_duties: Annotated[bool, typer.Option("--no-duties", help="Do not run background duties here.")] = False,
    pack: PackNames = None,
    url: Url = None,
    broker: BrokerUrl = None,
    log_json: LogJson = False,
) -> None:
    """Run the HTTP API and the background duties.

    Without keys it listens on this machine only; to listen elsewhere, create a key
    first: headgate keys create. SIGTERM or Ctrl-C finishes open requests; a second
    signal stops immediately.

    \b
    headgate serve
    headgate serve --host 0.0.0.0 --port 8080 --no-duties
    """  # fmt: skip
    plan = ProcessPlan(
        packs=tuple(pack or ()), api=True, host=host, port=port, duties=Duties.NONE if no_duties else Duties.ALL,
        log_json=log_json,
    )  # fmt: skip
    exec_process(WORKER_MODULE, plan, url, broker)


@app.command()
def work(
    modules: Modules = None,
    processes: Annotated[int, typer.Option(min=1, metavar="N", help="Number of worker processes.")] = 1,
    concurrency: Concurrency = None,
    threads: Threads = None,
    children: Children = None,
    name: Name = None,
    pack: PackNames = None,
    url: Url = None,
    broker: BrokerUrl = None,
    log_json: LogJson = False,
) -> None:
    """Run workers for the tasks of modules and packs.

    A worker process that dies, or has a handler that does not stop, is replaced.
    Workers also queue due tasks and recover lost ones, so tasks move on without a
    server. SIGTERM or Ctrl-C lets running tasks finish; a second signal stops
    immediately.

    \b
    headgate work shop.tasks
    headgate work shop.tasks shop.mail --processes 4 --concurrency 200
    """  # fmt: skip
    if not modules and not pack and not load().packs:
        raise Invalid("name a module with tasks, or a pack with --pack")
    plan = ProcessPlan(
        modules=tuple(modules or ()), packs=tuple(pack or ()), work=True, duties=Duties.LIGHT, name=name,
        processes=processes, concurrency=concurrency, threads=threads, children=children, log_json=log_json,
    )  # fmt: skip
    exec_process(SUPERVISOR_MODULE, plan, url, broker)


@app.command()
def duties(pack: PackNames = None, url: Url = None, broker: BrokerUrl = None, log_json: LogJson = False) -> None:
    """Run only the background duties.

    They queue due tasks, recover lost ones, fire schedules, send callbacks, move
    finished tasks to history and count. Any number of processes may run them.

    \b
    headgate duties
    """  # fmt: skip
    plan = ProcessPlan(packs=tuple(pack or ()), greeting="running the background duties", log_json=log_json)
    exec_process(WORKER_MODULE, plan, url, broker)


def main() -> None:
    app()
