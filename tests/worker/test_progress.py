"""The last progress a handler reports is the one that is kept, whatever becomes of the handler."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import headgate
from headgate import Headgate, Invalid, State
from headgate.core.errors import Unavailable
from headgate.core.task import MAX_PROGRESS_BYTES
from headgate.worker.child import ParentSocket
from headgate.worker.context import Interrupted
from headgate.worker.reports import SteadyProgress
from tests.worker import progressing
from tests.worker.conftest import until, working

TASKS = [progressing.in_a_thread, progressing.in_a_process, progressing.on_the_loop]
LAST = {"done": 3, "total": 3, "data": {"files": ["a", "b"]}}


@pytest.fixture
def prepared(app: Headgate) -> Iterator[Headgate]:
    """The app whose handlers another process can import."""
    progressing.app.close()
    progressing.app._settings = app._settings
    yield progressing.app
    progressing.app.close()


@pytest.mark.parametrize("declared", TASKS, ids=lambda task: task.__name__)
def test_the_last_progress_of_a_handler_that_fails_is_kept(prepared, declared):
    """Spec: D3"""
    with working(prepared):
        task = declared.submit_sync(None)
        assert task.wait_sync(60).status is State.FAILED
    assert json.loads(task.record_sync().progress) == LAST


@pytest.mark.parametrize("declared", TASKS, ids=lambda task: task.__name__)
def test_the_last_progress_is_there_while_the_handler_goes_on_in_silence(prepared, declared, tmp_path):
    """Spec: D3"""
    gate = tmp_path / "gate"
    with working(prepared):
        task = declared.submit_sync(str(gate))
        until(lambda: json.loads(task.record_sync().progress or "null") == LAST, 60)
        assert task.record_sync().status is State.RUNNING
        gate.touch()
        assert task.wait_sync(60).status is State.SUCCEEDED
    kinds = [event.kind for event in prepared.store.events.of(task.id)]
    assert kinds.count("progress") == 1, "the timeline is not full of it"


@pytest.mark.parametrize("declared", TASKS, ids=lambda task: task.__name__)
def test_the_last_progress_is_told_as_an_event_before_the_end(prepared, declared, tmp_path):
    """Spec: D3, D6"""
    gate = tmp_path / "gate"
    gate.touch()
    with working(prepared):
        task = declared.submit_sync(str(gate))
        assert task.wait_sync(60).status is State.SUCCEEDED
    *_, progress, end = prepared.store.events.of(task.id)
    assert (progress.kind, json.loads(progress.detail), end.kind) == ("progress", LAST, "completed")


@pytest.mark.parametrize("declared", TASKS[::2], ids=lambda task: task.__name__)
def test_the_last_progress_survives_a_store_that_was_away(prepared, declared, tmp_path, monkeypatch):
    """Spec: D3"""
    write, away = prepared.store.executions.progress, threading.Event()

    def progress(*args: Any, **options: Any) -> Any:
        if "2" in args[2] or "3" in args[2]:
            away.set()
            raise Unavailable("the store is away")
        return write(*args, **options)

    monkeypatch.setattr(prepared.store.executions, "progress", progress)
    gate = tmp_path / "gate"
    with working(prepared):
        task = declared.submit_sync(str(gate))
        assert away.wait(60), "the timer has tried the last one"
        gate.touch()
        assert task.wait_sync(60).status is State.SUCCEEDED
    assert json.loads(task.record_sync().progress) == LAST


def test_progress_that_the_store_did_not_take_is_tried_again_by_the_timer():
    """Spec: D3"""
    tries: list[str] = []
    written = threading.Event()

    def write(progress: str) -> None:
        tries.append(progress)
        if len(tries) == 1:
            raise Unavailable("the store is away")
        written.set()

    steady = SteadyProgress(write)
    steady.put("1")
    assert written.wait(60)
    assert (tries, steady.close()) == (["1", "1"], None)


def test_a_child_told_to_stop_while_it_asks_reads_the_answer_before_it_stops():
    ours, theirs = socket.socketpair()
    parent = ParentSocket(theirs)
    lines = ours.makefile("rwb")

    def answer() -> None:
        for number in range(2):
            lines.readline()
            if number == 0:
                parent.interrupted = parent.asking  # as the signal's handler does
            lines.write(msgspec.json.encode({"pausing": number == 1}) + b"\n")
            lines.flush()

    answering = threading.Thread(target=answer)
    answering.start()
    with pytest.raises(Interrupted):
        parent.log("info", "first")
    assert parent._ask("log", ["info", "second"]) == {"pausing": True}
    answering.join()
    for each in (lines, ours, parent._file, theirs):
        each.close()


def test_progress_that_cannot_be_kept_is_refused_with_the_reason(app: Headgate):
    """Spec: D3"""

    @app.task
    def reports() -> list[str]:
        refused = []
        for data in ("x" * MAX_PROGRESS_BYTES, object(), float("nan")):
            with pytest.raises(Invalid) as raised:
                headgate.context().progress(1, data=data)
            refused.append(str(raised.value))
        return refused

    with working(app):
        too_long, unknown, no_number = reports.submit_sync().wait_sync(120).result
    assert "progress is" in too_long
    assert f"the maximum is {MAX_PROGRESS_BYTES}" in too_long
    assert unknown == "progress: Encoding objects of type object is unsupported"
    assert no_number.startswith("progress: Out of range float values")
