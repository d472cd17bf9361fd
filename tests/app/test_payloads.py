"""What a task is called with is JSON that its handler's annotations allow, checked before it is submitted."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from headgate import Headgate
from headgate.core.errors import Invalid
from headgate.core.task import MAX_JSON_BYTES, MAX_JSON_DEPTH
from tests.app import elsewhere


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0.5


def paint(
    point: Point,
    colour: Colour = Colour.RED,
    at: datetime | None = None,
    of: UUID | None = None,
    mode: Literal["fast", "slow"] = "fast",
    raw: bytes = b"",
    pair: tuple[int, str] = (1, "a"),
    sizes: dict[int, set[int]] | None = None,
) -> None: ...


def take(anything: Any, number: float = 1.0, pages: int = 1, name: str = "") -> None: ...


@pytest.fixture
def app() -> Headgate:
    """A program whose store is in memory."""
    return Headgate("sqlite://")


def test_a_handler_gets_what_the_caller_gave(app):
    """Spec: D3"""
    given = {
        "point": Point(3), "colour": Colour.RED, "at": datetime(2026, 3, 1, tzinfo=UTC), "of": UUID(int=5),
        "mode": "slow", "raw": b"\0\xff", "pair": (1 << 70, "中文 \0"), "sizes": {1: {2, 3}},
    }  # fmt: skip
    call = app.task(paint).call(**given)
    assert app._registry["paint"].arguments.decode(call._new.ext) == given
    app.submit_sync(call)
    app.close()


def test_what_is_left_out_stays_out_so_that_the_default_is_the_handlers_own(app):
    """Spec: D3"""
    call = app.task(paint).call(Point(3))
    assert call._new.ext == '{"point":{"x":3,"y":0.5}}'
    assert app._registry["paint"].arguments.decode(call._new.ext) == {"point": Point(3)}


def test_annotations_that_are_text_are_as_good(app):
    """Spec: D3"""
    fetch = app.task(elsewhere.fetch)
    assert fetch.call(3, words=["a"])._new.ext == '{"page":3,"words":["a"]}'
    with pytest.raises(Invalid, match="fetch: argument page: Expected `int`, got `str`"):
        fetch.call("three")


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "take: missing a required argument: 'anything'"),
        ((1, 2.0, 3, "4", 5), {}, "take: too many positional arguments"),
        ((1,), {"colour": 2}, "take: got an unexpected keyword argument 'colour'"),
        ((1,), {"anything": 1}, "take: multiple values for argument 'anything'"),
        ((1,), {"pages": "1"}, "take: argument pages: Expected `int.*`, got `str`"),
        ((1,), {"pages": True}, "take: argument pages: Expected `int.*`, got `bool`"),
        ((1,), {"pages": 1.5}, "take: argument pages: Expected `int.*`, got `float`"),
        ((1,), {"number": None}, "take: argument number: Expected `float.*`, got `null`"),
        ((1,), {"number": float("nan")}, "take: argument number: Out of range float values are not JSON compliant"),
        (([{"a": float("inf")}],), {}, "take: argument anything: Out of range float values are not JSON compliant"),
        ((object(),), {}, "take: argument anything: Encoding objects of type object is unsupported"),
        ((lambda: None,), {}, "take: argument anything: Encoding objects of type function is unsupported"),
        ((1,), {"name": b"raw"}, "take: argument name: bytes would arrive as text"),
        ((b"raw",), {}, "take: argument anything: bytes would arrive as text"),
        (([{"a": bytearray(b"raw")}],), {}, "take: argument anything: bytearray would arrive as text"),
        (({1, 2},), {}, "take: argument anything: a set would arrive as a list"),
        (({"a": (frozenset(),)},), {}, "take: argument anything: a frozenset would arrive as a list"),
        (("\ud800",), {}, "take: argument anything: .*surrogates not allowed"),
    ],
)
def test_arguments_the_handler_would_not_understand_are_refused_by_name(app, args, kwargs, message):
    """Spec: D3"""
    with pytest.raises(Invalid, match=message):
        app.task(take).call(*args, **kwargs)


def test_a_thing_within_itself_is_refused(app):
    """Spec: D3"""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Invalid, match="take: argument anything: "):
        app.task(take).call(endless)


def nested(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x" * MAX_JSON_BYTES, f"ext is {MAX_JSON_BYTES + 15} bytes long; the maximum is {MAX_JSON_BYTES}"),
        (nested(MAX_JSON_DEPTH), f"ext is nested more than {MAX_JSON_DEPTH} levels deep"),
    ],
)
def test_arguments_too_large_or_too_deep_are_refused_and_nothing_is_made(app, value, message):
    """Spec: D3"""
    declared = app.task(take)
    with pytest.raises(Invalid, match=message):
        declared.submit_sync(value)
    assert app.store.tasks.find().items == []
    assert declared.submit_sync(nested(MAX_JSON_DEPTH - 1)).created
    app.close()


def test_a_payload_from_elsewhere_is_checked_before_the_handler_sees_it(app):
    """Spec: D3"""
    arguments = app.task(take)._handler.arguments
    for ext, message in [
        ("{}", "^take: argument anything is missing$"),
        ('{"anything": 1, "more": 2}', "^take: argument more is unknown$"),
        ('{"anything": 1, "pages": "two"}', "Expected `int"),
        ("[1]", "Expected `object`, got `array`"),
    ]:
        with pytest.raises(Invalid, match=message):
            arguments.decode(ext)


def test_a_field_that_is_missing_inside_an_argument_is_named(app):
    """Spec: D3"""

    def paint(point: Point) -> None: ...

    arguments = app.task(paint)._handler.arguments
    with pytest.raises(Invalid, match=r"argument point: field x is missing$"):
        arguments.decode('{"point": {}}')


@dataclass
class Loose:
    x: Any
    more: dict[str, Any] = field(default_factory=dict)


class LooseStruct(msgspec.Struct, rename="camel"):
    some_bytes: Any


@pytest.mark.parametrize(
    ("value", "lost"),
    [
        (Loose(b"x"), "bytes would arrive as text"),
        (Loose({1, 2}), "a set would arrive as a list"),
        (Loose(1, {"deep": [b"x"]}), "bytes would arrive as text"),
        (LooseStruct(b"x"), "bytes would arrive as text"),
        ([LooseStruct(Loose(b"x"))], "bytes would arrive as text"),
    ],
)
@pytest.mark.parametrize("annotated", [True, False])
def test_bytes_and_sets_inside_a_dataclass_or_a_struct_are_refused_where_nothing_says_what_they_are(
    app, value, lost, annotated
):
    """Spec: D3"""

    def keep(value: Any) -> None: ...

    keep.__annotations__["value"] = (
        (list[LooseStruct] if isinstance(value, list) else type(value)) if annotated else Any
    )
    declared = app.task(keep)
    with pytest.raises(Invalid, match=f"keep: argument value: {lost}"):
        declared.call(value)


def test_a_dataclass_that_says_what_its_fields_are_is_taken(app):
    """Spec: D3"""

    @dataclass
    class Exact:
        x: bytes
        y: set[int]

    def keep(value: Any) -> None: ...

    keep.__annotations__["value"] = Exact
    assert app.task(keep).call(Exact(b"x", {1}))._new.ext == '{"value":{"x":"eA==","y":[1]}}'
