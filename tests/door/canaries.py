"""A request for every free text that the API takes, made from the shapes of its routes, with a canary in it.

A canary is unlike any other, and would begin a new line, colour a terminal or turn text around if it came out raw.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec.inspect as shapes

from headgate.api.routing import Parameter, Route

NAUGHTY = "\r\nFORGED \x1b[31m\u202e\u2028\x85"
NAUGHTY_IN_A_HEADER = "\x85\xa0FORGED"  # what latin-1 has of it; a line break would end the header
BEGINNINGS = {r"^https?://[^/]": "https://a", r"^(lane|type|key):(?s:.)": "key:"}  # of texts that have a pattern
_numbers = count(1000)


@dataclass(frozen=True, slots=True)
class Canary:
    """Where one text was put, and what it is known by; `payload` is what only the task is to know."""

    name: str
    place: str
    payload: bool

    @property
    def text(self) -> str:
        return self.name + (NAUGHTY if self.place in ("path", "query", "body") else NAUGHTY_IN_A_HEADER)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request to a route with one canary: in its body, or in a parameter of this value."""

    route: Route
    canary: Canary
    body: Any
    parameter: Parameter | None = None
    value: str = ""


def canary(place: str, payload: bool = False) -> Canary:
    return Canary(f"canary{next(_numbers)}", place, payload)


def requests_with_canaries(route: Route, known: dict[str, Any]) -> Iterator[Sent]:
    """One for each text in the body, the path, the query and the headers; `known` has values for some names."""
    body = None if route.body is None else shapes.type_info(route.body)
    plain = None if body is None else value(body, known)
    for parameter in route.parameters:
        for text, bird in variants(shapes.type_info(parameter.type), parameter.place, known):
            yield Sent(route, bird, plain, parameter, text if isinstance(text, str) else bird.text)
    if body is not None:
        for filled, bird in variants(body, "body", known):
            yield Sent(route, bird, filled)


def variants(shape: Any, place: str, known: dict[str, Any]) -> Iterator[tuple[Any, Canary]]:
    """Values of a shape, each with one canary in one of its texts."""
    match shape:
        case shapes.Metadata():
            yield from variants(shape.type, place, known)
        case shapes.StrType():
            bird = canary(place)
            yield BEGINNINGS.get(shape.pattern or "", "") + bird.text, bird
        case shapes.AnyType():
            bird = canary(place, payload=True)
            yield {"a": [bird.text]}, bird
        case shapes.UnionType():
            for each in shape.types:
                yield from variants(each, place, known)
        case shapes.ListType():
            for inside, bird in variants(shape.item_type, place, known):
                yield [inside], bird
        case shapes.DictType():
            for name, bird in variants(shape.key_type, place, known):
                yield {name: 1}, bird
            for inside, bird in variants(shape.value_type, place, known):
                yield {"a": inside}, bird
        case shapes.StructType():
            for field in shape.fields:
                for inside, bird in variants(field.type, place, known):
                    yield value(shape, known) | {field.encode_name: inside}, bird


def value(shape: Any, known: dict[str, Any], name: str = "") -> Any:
    """The simplest value of a shape: what must be there, and what is known."""
    match shape:
        case shapes.Metadata():
            return value(shape.type, known, name)
        case shapes.StructType():
            needed = [field for field in shape.fields if field.required or field.encode_name in known]
            return {field.encode_name: value(field.type, known, field.encode_name) for field in needed}
        case shapes.UnionType():
            return value(shape.types[0], known, name)
        case shapes.ListType():
            return [value(shape.item_type, known, name)]
        case shapes.LiteralType():
            return shape.values[-1]
        case shapes.EnumType():
            return next(iter(shape.cls)).value
        case shapes.BoolType():
            return False
        case shapes.DateTimeType():
            return "2099-01-01T00:00:00Z"
        case shapes.DictType():
            return {}
        case shapes.IntType() | shapes.FloatType():
            return known.get(name, 1)
    return known.get(name, "plain")
