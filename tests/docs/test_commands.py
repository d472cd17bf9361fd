"""Commands in blocks that no test runs, because they start a server or install something, are at least well formed."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from headgate.cli.main import app
from headgate.settings import Settings

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SETTINGS = {f"HEADGATE_{setting.name.upper()}" for setting in fields(Settings)}


def commands():
    """Every such command, with its file."""
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for language, block in BLOCK.findall(file.read_text()):
            for line in block.replace("\\\n", "").splitlines():
                if line.startswith("$ ") and language != "console":
                    yield pytest.param(line[2:], id=f"{file.name}: {line[2:]}")


def parse(command, words):
    """Parse the words of a command as `headgate` does, and run nothing."""
    context = command.make_context("headgate", words)
    if isinstance(command, typer.core.TyperGroup) and (rest := context._protected_args + context.args):
        _, inner, left = command.resolve_command(context, rest)
        parse(inner, left)


@pytest.mark.parametrize("command", [*commands()])
def test_a_command_that_no_test_runs_is_one_that_the_program_takes(command):
    words = shlex.split(re.sub(r"\$\([^)]*\)", "made-up", command), comments=True)
    given = [word for word in words if re.match(r"[A-Z_]+=", word)]
    assert {word.partition("=")[0] for word in given if word.startswith("HEADGATE_")} <= SETTINGS
    program, *rest = [word for word in words if word not in given and word != "export"] or ["export"]
    if program == "headgate":
        parse(typer.main.get_command(app), rest)
    elif program == "python":
        place = f"src/{rest[1].replace('.', '/')}.py" if rest[0] == "-m" else rest[0]
        assert (ROOT / place).exists()
    else:
        elsewhere = program == "curl" and rest[-1].startswith("http://server:8000/")
        assert elsewhere or program in {"export", "pip", "printf"}, "run it in a test, in a console block"
