"""What a program sees of Headgate is small, and stays so."""

import inspect
import re
import subprocess
import sys
from typing import get_overloads

import pytest

import headgate
from headgate import Headgate
from headgate.task_function import TaskFunction

PROMISED = [
    "Call", "Context", "Deadlock", "Ended", "Event", "Fatal", "Headgate", "HeadgateError", "Invalid", "NotFound",
    "Refused", "Retry", "Snooze", "State", "Task", "TaskFailed", "Unavailable", "context", "exponential", "fixed",
    "never", "sequence",
]  # fmt: skip
HEAVY = {"aiosqlite", "asyncpg", "django", "psutil", "rich", "sqlalchemy", "starlette", "typer", "uvloop"}


def test_the_front_door_is_what_we_promised():
    """Spec: D3"""
    assert sorted(headgate.__all__) == PROMISED
    assert all(hasattr(headgate, name) for name in PROMISED)
    assert {*PROMISED} <= {*dir(headgate)}
    assert headgate.__version__


OFFERED = {
    headgate.Headgate: {
        "bind", "close", "get", "lane", "on", "periodic", "rate_limit", "resource", "store",
        "submit", "submit_in", "submit_in_async", "submit_many", "submit_many_sync", "submit_sync", "task",
    },
    headgate.Task: {
        "cancel", "cancel_sync", "created", "id", "record", "record_sync", "snooze", "snooze_sync", "wait", "wait_sync",
    },
    headgate.Call: set(),
    TaskFunction: {"call", "get", "submit", "submit_sync", "using"},
}  # fmt: skip


@pytest.mark.parametrize("shown", OFFERED)
def test_completion_offers_what_is_meant_for_a_program_and_nothing_else(shown):
    """Spec: D3"""
    app = Headgate("sqlite://")
    task = app.task(nothing)
    made = {Headgate: app, TaskFunction: task, headgate.Call: task.call(), headgate.Task: app.get(1)}[shown]
    for seen in (shown, made):
        assert {name for name in dir(seen) if not name.startswith("_")} == OFFERED[shown]


def nothing() -> None: ...


@pytest.mark.parametrize(
    ("takes", "overloaded"),
    [(Headgate.task, True), (Headgate.periodic, False), (Headgate.on, False), (TaskFunction.using, False)],
)
def test_an_editor_shows_what_each_option_means(takes, overloaded):
    """Spec: D3"""
    signature = inspect.signature(get_overloads(takes)[-1] if overloaded else takes)
    options = [each.name for each in signature.parameters.values() if each.kind is each.KEYWORD_ONLY]
    assert options
    described = re.findall(r"^        (\w+(?:, \w+)*):", takes.__doc__ or "", re.MULTILINE)
    assert sorted(name for line in described for name in line.split(", ") if name in options) == sorted(options)


def test_importing_headgate_brings_in_nothing_a_submitter_does_not_need():
    """Spec: X6"""
    result = subprocess.run(
        [sys.executable, "-c", "from headgate import *; import sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert HEAVY.isdisjoint(result.stdout.split())
