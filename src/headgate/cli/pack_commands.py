"""The commands that packs bring."""

from collections.abc import Iterable

from headgate.cli.command_group import CommandGroup
from headgate.core.errors import Invalid
from headgate.pack import find_packs, load_object


def pack_commands(names: Iterable[str]) -> dict[str, CommandGroup]:
    """The groups of commands of these packs, by name; `Invalid` if two packs have one of the same name."""
    found: dict[str, CommandGroup] = {}
    for pack in find_packs(names):
        groups = load_object(f"pack {pack.name}", pack.commands) if pack.commands else {}
        if taken := found.keys() & groups.keys():
            raise Invalid(f"pack {pack.name}: another pack has a command {min(taken)!r} too")
        found |= groups
    return found
