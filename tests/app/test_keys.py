"""A task's mutex, rate key and unique key come from its arguments, its other options from the call."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from headgate import Headgate
from headgate.core.errors import Invalid
from headgate.core.task import NewTask


class Colour(Enum):
    RED = "red"


@dataclass
class Item:
    colour: Colour


NOON = datetime(2199, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def app() -> Headgate:
    """A program whose store is in memory."""
    return Headgate("sqlite://")


def declare(app: Headgate, **templates: str) -> Any:
    @app.task(priority=7, **templates)  # type: ignore[call-overload]
    def download(
        subscription_id: int, url: str = "https://example.org", tags: dict[str, str] | None = None
    ) -> None: ...

    return download


@pytest.mark.parametrize(
    ("template", "args", "key"),
    [
        ("plain", (7,), "plain"),
        ("subscription:{subscription_id}", (7,), "subscription:7"),
        ("{subscription_id}/{url}", (7, "a"), "7/a"),
        ("{url}", (7,), "https://example.org"),
        ("{tags[kind]}", (7, "a", {"kind": "film"}), "film"),
        ("{{{subscription_id}}}", (7,), "{7}"),
    ],
)
def test_a_template_is_filled_with_the_arguments_and_their_defaults(app, template, args, key):
    """Spec: D3, C7"""
    task = declare(app, mutex=template, rate_key=template, unique_key=template).submit_sync(*args).record_sync()
    assert (task.mutex, task.rate_key, task.unique_key, task.priority) == (key, key, key, 7)
    app.close()


def test_a_template_that_cannot_be_filled_in_is_refused(app):
    """Spec: D3"""
    download = declare(app, mutex="{tags[kind]}")
    for args in [(7,), (7, "a", {}), (7, "a", {"other": "x"})]:
        with pytest.raises(Invalid, match=r"the key '{tags\[kind\]}' "):
            download.submit_sync(*args)
    assert app.store.tasks.find().items == []
    app.close()


@pytest.mark.parametrize(
    ("url", "message"), [("", "mutex is empty"), ("\0", "NUL"), ("x" * 300, "more than 255 characters")]
)
def test_a_key_that_cannot_be_kept_is_refused(app, url, message):
    """Spec: D3"""
    with pytest.raises(Invalid, match=message):
        declare(app, mutex="{url}").submit_sync(7, url=url)
    assert app.store.tasks.find().items == []
    app.close()


def test_what_using_says_goes_before_what_was_declared(app):
    """Spec: D3"""
    download = declare(app, mutex="m:{subscription_id}", rate_key="r", unique_key="u")
    task = download.using(mutex="other", rate_key="fast", unique_key="mine", priority=0).submit_sync(7).record_sync()
    assert (task.mutex, task.rate_key, task.unique_key, task.priority) == ("other", "fast", "mine", 0)
    with pytest.raises(Invalid, match="mutex is empty"):
        download.using(mutex="").submit_sync(7)
    app.close()


def test_using_reaches_the_task_and_leaves_the_function_as_it_was(app):
    """Spec: D3, B1"""
    download = declare(app)
    options: dict[str, Any] = {
        "name": "n", "lane": "l", "category": "c", "priority": 1, "mutex": "m", "rate_key": "r", "unique_key": "u",
        "start_time": NOON, "max_error_count": 3, "timeout_seconds": 9.5, "tenant_id": 4, "creator": 5,
        "agent_id": "a", "correlation_id": "x",
    }  # fmt: skip
    record = download.using(**options).submit_sync(7).record_sync()
    assert {name: getattr(record, name) for name in options} == options
    assert download.call(7)._new == declare(app).call(7)._new
    app.close()


def test_using_can_be_said_in_pieces(app):
    """Spec: D3"""
    new = declare(app).using(lane="l", priority=1).using(priority=2, delay_seconds=0).call(7)._new
    assert (new.lane, new.priority, new.delay_seconds) == ("l", 2, 0)


def test_every_option_of_a_task_can_be_said(app):
    """Spec: D3"""
    download = declare(app)
    for name in set(NewTask._fields) - {"type", "ext", "retry_of"}:
        download.using(**{name: None})


def test_a_call_made_a_child_is_its_parents_in_every_way(app):
    """Spec: D7, D10"""
    download = declare(app)
    child = download.call(7)._under(12, 3, "trace")._new
    assert (child.parent_id, child.tenant_id, child.correlation_id) == (12, 3, "trace")
    assert download.using(correlation_id="own").call(7)._under(12, 3, "trace")._new.correlation_id == "own"
    for other in (download.using(parent_id=11), download.using(tenant_id=4)):
        with pytest.raises(Invalid, match="parent and tenant"):
            other.call(7)._under(12, 3, None)


def test_what_a_person_edited_goes_before_what_was_declared(app):
    """Spec: B5"""
    download = declare(app, mutex="m:{subscription_id}")
    task_type = app.store.types.by_code()["download"]
    app.store.types.put(replace(task_type, mutex="edited:{url}", defaults={"url": "none"}, priority=3), edited=True)
    tasks = [download.submit_sync(7).record_sync(), download.submit_sync(7, "https://example.org").record_sync()]
    assert [(task.mutex, task.priority) for task in tasks] == [("edited:none", 3), ("edited:https://example.org", 3)]
    app.close()


def test_a_key_is_made_of_what_the_task_is_stored_with(app):
    """Spec: D3, B2. The same, whichever door a task comes through."""

    @app.task(mutex="{when}/{item.colour}")
    def paint(when: datetime, item: Item) -> None: ...

    by_program = paint.submit_sync(NOON, Item(Colour.RED)).record_sync()
    by_hand = app.store.tasks.get(app.store.tasks.submit(NewTask("paint", by_program.ext)).id)
    assert by_program.mutex == by_hand.mutex == "2199-03-01T12:00:00Z/red"
    app.close()
