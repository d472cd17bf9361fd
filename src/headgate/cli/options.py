"""Options and arguments that several commands share."""

from typing import Annotated

import typer

PAGE = 200  # the most that one page of the store holds

TIMES = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"]

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
Limit = Annotated[int, typer.Option("--limit", min=1, max=PAGE, help="Maximum number of results.")]

# What a new task is like
Pairs = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Task arguments. Values are parsed as JSON where possible."),
]
Ext = Annotated[str | None, typer.Option("--ext", metavar="JSON", help="Task arguments as one JSON object.")]
NewLane = Annotated[str | None, typer.Option("--lane", metavar="NAME", help="Lane.  [default: the type's]")]
NewPriority = Annotated[
    int | None, typer.Option("--priority", metavar="N", help="Priority; lower runs first.  [default: the type's]")
]
NewMutex = Annotated[
    str | None, typer.Option("--mutex", metavar="KEY", help="Tasks with the same mutex run one at a time.")
]
