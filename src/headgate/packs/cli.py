"""The public door for a pack's commands. It loads the command line: only `headgate` itself imports it."""

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_time
from headgate.cli.output import print_json, print_line, print_note

__all__ = ["Command", "CommandGroup", "format_time", "print_json", "print_line", "print_note"]
