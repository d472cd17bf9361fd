"""What cannot be undone is asked about on a terminal, with how many it would be done to."""

import os
import pty
import subprocess

import pytest

from headgate.core.states import State
from tests.cli.conftest import HEADGATE
from tests.factories import put


def answered(answer, *words):
    """The exit code of a command on a terminal, and what it showed, with this answer to its question."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([HEADGATE, *words], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 4096)
    os.write(ours, answer.encode() + b"\n")
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    return process.wait(), shown.decode()


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["dead-letters", "discard", "--all"], "Discard 2 dead letters?"),
        (["dead-letters", "resolve", "--all", "--remark", "x"], "Resolve 2 dead letters?"),
        (["purge", "--older-than", "0"], "Remove 1 task (1 failed)?"),
    ],
)
def test_a_person_is_asked_with_the_count_and_a_no_changes_nothing(here, words, question):
    """Spec: A7, D12"""
    ids = [put(here, state).id for state in (State.DEAD, State.DEAD, State.FAILED)]
    before = [here.tasks.get(i) for i in ids]
    code, shown = answered("n", *words)
    assert code == 1
    assert question in shown
    assert [here.tasks.get(i) for i in ids] == before
    code, _ = answered("y", *words)
    assert code == 0
    assert len(here.tasks.find().items) < 3 or here.tasks.get(ids[0]) != before[0]
