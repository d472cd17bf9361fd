"""The last progress a handler reports is the one that is kept, whatever becomes of the handler."""

import json
from collections.abc import Iterator

import pytest

import headgate
from headgate import Headgate, Invalid, State
from headgate.core.task import MAX_PROGRESS_BYTES
from tests.worker import progressing
from tests.worker.conftest import until, working

TASKS = [progressing.in_a_thread, progressing.in_a_process, progressing.on_the_loop]
LAST = {"done": 3, "total": 3, "data": {"files": ["a", "b"]}}


@pytest.fixture
def prepared(app: Headgate) -> Iterator[Headgate]:
    """The app whose handlers another process can import."""
    progressing.app.close()
    progressing.app.settings = app.settings
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
        too_long, unknown, no_number = reports.submit_sync().wait_sync(30).result
    assert "progress is" in too_long
    assert f"{MAX_PROGRESS_BYTES} at most" in too_long
    assert unknown == "progress: Encoding objects of type object is unsupported"
    assert no_number.startswith("progress: Out of range float values")
