"""A terminal gets colours and its own width; a pipe gets neither."""

import os
import pty
import re
import subprocess

import pytest

from tests.cli.conftest import HEADGATE
from tests.factories import submit

COLOUR = re.compile(r"\x1b\[[\d;]*3\dm")


def on_a_terminal(*words, **environment):
    """What a command prints on a terminal 60 columns wide."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [HEADGATE, *words],
        stdout=theirs,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "60"} | environment,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait() == 0
    return said.decode()


@pytest.fixture
def long_name(here):
    submit(here, name="a name that goes on and on " * 5)


def test_a_terminal_gets_colours_and_lines_that_fit(long_name):
    """Spec: A12"""
    said = on_a_terminal("list")
    assert COLOUR.search(said)
    assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in said.splitlines()) <= 60


def test_no_color_turns_colours_off(long_name):
    """Spec: A12"""
    assert not COLOUR.search(on_a_terminal("list", NO_COLOR="1"))


def test_a_pipe_gets_a_line_for_each_task_and_no_escape(long_name, run):
    """Spec: A12"""
    out = run("list").out
    assert len(out.splitlines()) == 2
    assert "\x1b" not in out
