"""The `headgate` command."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import headgate.cli.actions as actions
import headgate.cli.agents as agents
import headgate.cli.audit as audit
import headgate.cli.callbacks as callbacks
import headgate.cli.compensation as compensation
import headgate.cli.dead_letters as dead_letters
import headgate.cli.doctor as doctor
import headgate.cli.history as history
import headgate.cli.keys as keys
import headgate.cli.lanes as lanes
import headgate.cli.limits as limits
import headgate.cli.listeners as listeners
import headgate.cli.migrating as migrating
import headgate.cli.schedules as schedules
import headgate.cli.simulating as simulating
import headgate.cli.submitting as submitting
import headgate.cli.tasks as tasks
import headgate.cli.types as types
from headgate import __version__
from headgate.cli.exits import MEANING, code_of, print_error
from headgate.cli.options import BrokerUrl, PackNames, Url
from headgate.cli.output import print_line
from headgate.cli.plan import SUPERVISOR_MODULE, WORKER_MODULE, Duties, ProcessPlan, exec_process
from headgate.core.errors import HeadgateError, Invalid
from headgate.settings import load

DEMO = "headgate.demo"
EPILOG = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in MEANING.items()) + "."

Concurrency = Annotated[
    int | None,
    typer.Option(min=1, metavar="M", help="Coroutines at once.  [default: 100]", show_default=False),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, metavar="T", help="Threads at once.  [default: 16]", show_default=False),
]
Children = Annotated[
    int | None,
    typer.Option(min=1, metavar="C", help="Child processes at once.  [default: one per core]", show_default=False),
]
Name = Annotated[str | None, typer.Option(help="The worker's name.  [default: host and pid]", show_default=False)]
Host = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Where the API listens.  [default: HEADGATE_HOST, 127.0.0.1]", show_default=False
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, metavar="PORT", help="0 takes a free one.  [default: HEADGATE_PORT, 8000]", show_default=False
    ),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log lines as JSON.")]
Modules = Annotated[list[str] | None, typer.Argument(metavar="MODULE", help="Modules with tasks.", show_default=False)]
SomeModules = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODULE", help="Modules with tasks.  [default: headgate.demo]", show_default=False),
]


class Commands(TyperGroup):
    """Every command; an error of ours becomes one line and an exit code."""

    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except HeadgateError as error:
            print_error(error)
            raise typer.Exit(code_of(error)) from None


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
        print_line(f"headgate {__version__}")
        raise typer.Exit


@app.callback()
def headgate(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run background tasks; see and control them.

    The store is the file headgate.db in this folder, unless --url or HEADGATE_URL
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
    """Run a worker, all duties and the HTTP API.

    The worker is a process of its own, which is replaced when it dies or cannot end a handler.
    Brings the store's schema up to date first, and makes the store if it is not there.
    SIGTERM or Ctrl-C stops it in good order, a second one at once.

    \b
    headgate up
    headgate up shop.tasks
    headgate up shop.tasks --pack media
    """  # fmt: skip
    named = [*(modules or ()), *(f"pack {each}" for each in pack or ())]
    greeting = f"serving {' '.join(named)}" if named else _demo_greeting(url)
    plan = ProcessPlan(
        modules=tuple(modules or ([] if pack else [DEMO])), packs=tuple(pack or ()), work=True, api=True, host=host,
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
    no_duties: Annotated[bool, typer.Option("--no-duties", help="Leave the background duties to others.")] = False,
    pack: PackNames = None,
    url: Url = None,
    broker: BrokerUrl = None,
    log_json: LogJson = False,
) -> None:
    """Answer HTTP, and do the background duties.

    Without keys it answers this machine only; anywhere else it needs one: headgate keys create.
    SIGTERM or Ctrl-C stops it in good order, a second one at once.

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
    processes: Annotated[int, typer.Option(min=1, metavar="N", help="So many processes, kept alive.")] = 1,
    concurrency: Concurrency = None,
    threads: Threads = None,
    children: Children = None,
    name: Name = None,
    pack: PackNames = None,
    url: Url = None,
    broker: BrokerUrl = None,
    log_json: LogJson = False,
) -> None:
    """Execute the tasks of modules and packs.

    In one process or several, each replaced when it dies or cannot end a handler.
    Does the light duties too, so that nothing stands still.
    SIGTERM or Ctrl-C stops it in good order, a second one at once.

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
    """Do the background duties alone.

    Bring on what is due, rescue what was lost, archive, count. Any number of processes may do them.

    \b
    headgate duties
    """  # fmt: skip
    plan = ProcessPlan(packs=tuple(pack or ()), greeting="doing the duties", log_json=log_json)
    exec_process(WORKER_MODULE, plan, url, broker)


for module in (migrating, doctor, submitting, tasks, actions, callbacks, agents, audit, history, simulating):
    app.add_typer(module.commands)
app.add_typer(dead_letters.commands, name="dead-letters")
app.add_typer(lanes.commands, name="lanes")
app.add_typer(schedules.commands, name="schedules")
app.add_typer(limits.commands, name="limits")
app.add_typer(types.commands, name="types")
app.add_typer(keys.commands, name="keys")
app.add_typer(compensation.commands, name="compensation")
app.add_typer(listeners.commands, name="listeners")


def main() -> None:
    app()
