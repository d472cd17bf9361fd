"""Options and arguments that many commands share."""

from typing import Annotated

import typer

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The store: sqlite:///FILE or postgresql://…  [default: HEADGATE_URL]",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Id = Annotated[int, typer.Argument(metavar="ID", help="The task's number.", show_default=False)]
Ids = Annotated[list[int], typer.Argument(metavar="ID", help="The tasks' numbers.", show_default=False)]
