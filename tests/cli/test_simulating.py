"""`headgate simulate`: ended by a Ctrl-C, it says what came of the histories there were."""

import os
import pty
import re
import signal
import subprocess
import sys

import pytest

PATIENCE = 120.0
PROGRAM = "from headgate.cli.main import main; main()"


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_simulation_that_is_interrupted_says_how_far_it_came(processes):
    """Spec: X5"""
    terminal, screen = pty.openpty()  # where it shows that it has begun
    run = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "simulate", "--seeds", "100000", "--processes", processes],
        stdout=subprocess.PIPE, stderr=screen, text=True, start_new_session=True, env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(screen)
    try:
        shown = seen(terminal, until=b"histories")
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to all of its processes
        shown += seen(terminal)
        out, _ = run.communicate(timeout=PATIENCE)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        os.close(terminal)
    assert re.fullmatch(r"interrupted after \d+ (history|histories): none broke a promise\n", out)
    assert run.returncode == 130
    assert b"Traceback" not in shown
    assert b"Exception" not in shown


def seen(terminal: int, until: bytes | None = None) -> bytes:
    """What comes to be seen up to these words, or to the end."""
    shown = b""
    while until is None or until not in shown:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # nobody writes to it any more
            break
        if not more:
            break
        shown += more
    return shown
