"""docs/cli.md and `--help` show what the command does, and it does what they show."""

import importlib
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headgate.cli.exits import MEANING
from headgate.cli.main import MODULES, app
from tests.docs.guides import is_shown

GUIDE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
GROUP: Any = typer.main.get_command(app)
COMMANDS = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}


def help_of(*words):
    return CliRunner().invoke(app, [*words, "--help"]).stdout


def sessions():
    """Every command of the guide whose answer is shown in full, with that answer."""
    for block in re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL):
        for said in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, answer = said.partition("\n")
            yield command, answer


@pytest.mark.parametrize("module", MODULES)
def test_every_command_of_a_module_is_found(module):
    commands = importlib.import_module(f"headgate.cli.{module}").commands
    assert [*typer.main.get_group(commands).commands] == MODULES[module]


def test_a_command_that_only_starts_a_process_loads_nothing_it_does_not_need():
    loaded = "from headgate.cli.main import app; import sys; app(['up', '--help'], standalone_mode=False); "
    words = [sys.executable, "-c", loaded + "print(*sys.modules)"]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    assert {"headgate.store.store", "headgate.app", "rich"}.isdisjoint(result.stdout.split())


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
        assert is_shown(answer.out + answer.err, shown), f"{command}\n{answer.out}{answer.err}"
        ran += 1
    assert ran > 15
    up.signal(signal.SIGTERM)
    assert up.ended() == 0
