"""`headgate tenants`: the weight by which each tenant takes its turn."""

from typing import Annotated

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.core.turns import LEAST_WEIGHT, MOST_WEIGHT

commands = CommandGroup()


@commands.default
def show_tenants(command: Command) -> None:
    """Show the weights of tenants, or change one.

    Tenants that have work for the same workers take turns, whatever the priorities of
    their tasks. A tenant of weight 3 has three turns where one of weight 1, the
    default, has one.

    \b
    headgate tenants
    headgate tenants set 7 --weight 3
    """  # fmt: skip
    command.answer_all(
        command.store.tenants.all(),
        lambda tenant: tenant._asdict(),
        ("TENANT", "WEIGHT"),
        lambda tenant: (tenant.id, f"{tenant.weight:g}"),
    )


@commands.add("set")
def set_tenant(
    command: Command,
    tenant_id: Annotated[int, typer.Argument(metavar="ID", help="Tenant; it need not have submitted anything yet.")],
    weight: Annotated[
        float,
        typer.Option(
            metavar="WEIGHT", help=f"Turns for each turn of a tenant of weight 1: {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}."
        ),
    ],
) -> None:
    """Change the weight of a tenant.

    It takes effect at once, in every process. A weight of 1 is the default.

    \b
    headgate tenants set 7 --weight 3
    """  # fmt: skip
    command.store.tenants.set_weight(tenant_id, weight, actor=command.actor)
    command.answer({"id": tenant_id, "weight": weight}, f"tenant {tenant_id}: weight {weight:g}")
