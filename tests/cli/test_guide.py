"""docs/cli.md and `--help` show what the command does, and it does what they show."""

import re
import shlex
import signal
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headgate.cli.exits import MEANING
from headgate.cli.main import app
from tests.docs.guides import comparable

GUIDE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def help_of(*words):
    return CliRunner().invoke(app, [*words, "--help"]).stdout


def sessions():
    """Every command of the guide whose answer is shown in full, with that answer."""
    for block in re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL):
        for said in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, answer = said.partition("\n")
            yield command, answer


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_shown_in_the_guide(command):
    assert f"headgate {command}" in GUIDE


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command):
    assert re.search(rf"^  headgate {command}", help_of(command), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_has_an_explanation(command):
    parameters = COMMANDS[command].params
    assert {"url", "store"} & {parameter.name for parameter in parameters}
    assert [parameter.name for parameter in parameters if not parameter.help] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_fits_a_terminal_of_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    pages = [help_of(command), *(help_of(command, name) for name in getattr(COMMANDS[command], "commands", {}))]
    assert [line for page in pages for line in page.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("code", MEANING)
def test_the_exit_codes_are_in_the_help_and_in_the_guide(code):
    assert f"{code} {MEANING[code]}" in " ".join(help_of().split())
    assert re.search(rf"^\| {code} \| {MEANING[code]}", GUIDE, re.MULTILINE)


def test_the_guide_prints_what_it_says(spawn, run):
    """Spec: X3"""
    up = spawn("up")
    up.hear("serves")
    ran = 0
    for command, shown in sessions():
        answer = run(*shlex.split(command)[1:])
        assert comparable(answer.out + answer.err) == comparable(shown), command
        ran += 1
    assert ran > 15
    up.signal(signal.SIGTERM)
    assert up.ended() == 0
