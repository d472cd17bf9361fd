"""Options and arguments that several commands share."""

from typing import Annotated

import typer

from headgate.cli.times import seconds

PAGE = 200  # the most that one page of the store holds

# How help shows the forms of `cli/times.py`
TIME_AHEAD = "2h, 14:30, 2026-11-20 or '2026-11-20 14:30', in UTC or with +hh:mm"
TIME_PAST = "2h (ago), 14:30, 2026-11-20 or '2026-11-20 14:30', in UTC or with +hh:mm"

# Every command
Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="Store to use: sqlite:///FILE or postgresql://…  [default: HEADGATE_URL]"
    ),
]
BrokerUrl = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="URL",
        help="RabbitMQ that delivers tasks and publishes events: amqp://…  [default: HEADGATE_BROKER]",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

PackNames = Annotated[
    list[str] | None,
    typer.Option(
        "--pack",
        metavar="NAME",
        help="Turn on a pack, in addition to HEADGATE_PACKS. Can be repeated.",
        show_default=False,
    ),
]

# Which tasks
Id = Annotated[int, typer.Argument(metavar="ID", help="Task ID.")]
Ids = Annotated[list[int], typer.Argument(metavar="ID", help="Task IDs.")]
OptionalIds = Annotated[list[int] | None, typer.Argument(metavar="ID", help="Task IDs.")]
Type = Annotated[str | None, typer.Option("--type", metavar="CODE", help="Filter by task type.")]
Lane = Annotated[str | None, typer.Option("--lane", metavar="NAME", help="Filter by lane.")]
Tenant = Annotated[int | None, typer.Option("--tenant", metavar="ID", help="Filter by tenant.")]
Creator = Annotated[int | None, typer.Option("--creator", metavar="ID", help="Filter by creator.")]
Cursor = Annotated[int | None, typer.Option("--cursor", metavar="ID", help="Continue after this task.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=PAGE, metavar="N", help="Maximum number of results.")]

# What a new task is like
Delay = Annotated[
    float | None,
    typer.Option(
        "--delay", metavar="TIME", parser=seconds("--delay"), help="Start after this time: 90s, 30min, 2h, 1d."
    ),
]
Pairs = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Task arguments. Values are parsed as JSON where possible."),
]
Ext = Annotated[str | None, typer.Option("--ext", metavar="JSON", help="Task arguments as one JSON object.")]
Module = Annotated[
    str | None,
    typer.Option("--module", "-m", metavar="MODULE", help="Module that declares the task; checks the arguments."),
]
NewLane = Annotated[str | None, typer.Option("--lane", metavar="NAME", help="Lane.  [default: the type's]")]
NewPriority = Annotated[
    int | None, typer.Option("--priority", metavar="N", help="Priority; lower runs first.  [default: the type's]")
]
NewMutex = Annotated[
    str | None, typer.Option("--mutex", metavar="KEY", help="Tasks with the same mutex run one at a time.")
]
