"""A function becomes a listener, or it is said at once why it cannot."""

import re
from pathlib import Path

import pytest

import headgate.core.machine
from headgate import Event, Headgate
from headgate.core.errors import Invalid
from headgate.core.events import TASK_KINDS


@pytest.fixture
def app() -> Headgate:
    """A program whose store is never asked for."""
    return Headgate("sqlite://")


def note(event: Event) -> None:
    raise AssertionError("nobody calls it here")


def test_a_listener_is_still_the_function_it_was_under_its_own_name(app):
    """Spec: X9"""
    assert app.on("task.failed", types=["download"])(note) is note
    [listener] = app._listeners
    assert (listener.name, listener.function, listener.kinds) == ("note", note, {"failed"})


def test_a_listener_hears_of_several_events_or_of_all(app):
    """Spec: D6"""
    app.on("task.failed", "task.dead_lettered", name="ends")(note)
    app.on("task.*", name="all")(note)
    ends, everything = app._listeners
    assert ends.kinds == {"failed", "dead_lettered"}
    assert everything.kinds == TASK_KINDS


def test_every_event_that_the_machine_decides_can_be_listened_to():
    """Spec: D6"""
    text = Path(headgate.core.machine.__file__).read_text(encoding="utf-8")
    decided = {*re.findall(r'Change\([^"]*?"([a-z_]+)"', text), *re.findall(r'State\.[A-Z]+: "([a-z_]+)"', text)}
    assert len(decided) > 20
    assert decided <= TASK_KINDS


@pytest.mark.parametrize(
    ("events", "options", "problem"),
    [
        (["task.faild"], {}, "no event 'task.faild'; did you mean 'task.failed'"),
        (["failed"], {}, "no event 'failed'; did you mean 'task.failed'"),
        ([], {}, "at least one event"),
        (["task.failed"], {"types": "download"}, r"types=\['download'\]"),
        (["task.failed"], {"tries": 0}, "tries"),
        (["task.failed"], {"name": "headgate:relay"}, "are reserved"),
        (["task.failed"], {"name": ""}, "name"),
    ],
)
def test_what_cannot_be_listened_to_is_said_at_once(app, events, options, problem):
    """Spec: X9"""
    with pytest.raises(Invalid, match=problem):
        app.on(*events, **options)(note)


def test_two_listeners_do_not_share_a_name(app):
    """Spec: X9"""
    app.on("task.failed")(note)
    app.on("task.failed", types=["other"])(note)  # the same, declared anew
    with pytest.raises(Invalid, match="two listeners are named note"):
        app.on("task.failed", name="note")(lambda event: None)


def test_a_listener_without_events_is_refused_where_it_is_declared(app):
    """Spec: X9"""
    with pytest.raises(Invalid, match="name the events"):

        @app.on
        def told(event: Event) -> None: ...
