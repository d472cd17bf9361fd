"""What a program sees of Headgate is small, and stays so."""

import subprocess
import sys

import headgate

PROMISED = [
    "Context", "Ended", "Fatal", "Headgate", "HeadgateError", "Invalid", "Retry", "Snooze", "State", "Task",
    "TaskFailed", "context", "exponential", "fixed", "never", "sequence",
]  # fmt: skip
HEAVY = {"aiosqlite", "asyncpg", "django", "psutil", "rich", "sqlalchemy", "starlette", "typer", "uvloop"}


def test_the_front_door_is_what_we_promised():
    """Spec: D3"""
    assert sorted(headgate.__all__) == PROMISED
    assert all(hasattr(headgate, name) for name in PROMISED)
    assert headgate.__version__


def test_importing_headgate_brings_in_nothing_a_submitter_does_not_need():
    """Spec: X6"""
    result = subprocess.run(
        [sys.executable, "-c", "import headgate, sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert HEAVY.isdisjoint(result.stdout.split())
