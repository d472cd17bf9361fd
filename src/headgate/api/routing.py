"""Routes: what each takes is read from its handler's signature, once, and what a request says is taken at its word.

A handler's parameters are its route's: those that the path names, `data` for the body, headers and cookies as they are
marked, `server`, `who` and `request` for what its name says, `action` for the last part of the path (where routes that
differ only in that share a handler), and any other is of the query. Types and limits are msgspec's. Nothing is bent
until it fits, and nothing is passed over in silence, except a body where none is taken: it is not read.
"""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headgate.api.door.principal import Role
from headgate.api.problems import TITLES, InvalidParameters, Rejected, problem_response
from headgate.core.errors import Invalid, NotFound
from headgate.core.task import MAX_JSON_DEPTH, is_deeper
from headgate.events.telemetry import about_task

T = TypeVar("T")
Handler = Callable[..., Awaitable[Any]]
Decorator = Callable[[Handler], Handler]
JSON = "application/json"
MOST_BODY_BYTES = 1024 * 1024
MOST_BODY_DEPTH = MAX_JSON_DEPTH + 16  # what stands around a field's own JSON is shallow
TOO_DEEP = "the body is nested too deeply"
MOST_QUOTED = 100
GIVEN = frozenset({"server", "who", "request"})
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)  # Python reads more as one: +1, 1_0, ١
_PLACE = re.compile(r"\{(\w+)\}")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Json(Response, Generic[T]):
    """An answer with a status or headers of its own; a handler that needs neither returns the value itself."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        return _encode(content)


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a parameter that comes in a header of this name."""

    name: str
    place = "header"


@dataclass(frozen=True, slots=True)
class Cookie:
    """Marks a parameter that comes in a cookie of this name."""

    name: str
    place = "cookie"


class Parameter:
    """One parameter of a route: where it comes from, under which name, and what it may be."""

    def __init__(self, argument: str, annotation: Any, default: Any, path: Sequence[str]) -> None:
        marks = [each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, Header | Cookie)]
        self.argument = argument
        self.name = marks[0].name if marks else argument
        self.place = marks[0].place if marks else "path" if argument in path else "query"
        self.required = default is inspect.Parameter.empty
        self.default = None if self.required else default
        self.type = without_none(annotation)
        plain = bare(self.type)
        self.repeatable = get_origin(plain) is list
        self.is_number = (bare(get_args(plain)[0]) if self.repeatable else plain) is int

    def convert(self, text: str | list[str]) -> Any:
        texts = [text] if isinstance(text, str) else text
        if self.is_number and not all(map(_NUMBER.fullmatch, texts)):
            raise msgspec.ValidationError("write a number in plain digits")
        return msgspec.convert(text, self.type, strict=False)


class Route:
    """What is answered at one path to one method, and everything that is known of it."""

    def __init__(
        self, method: str, path: str, handler: Handler, role: Role, summary: str, *, tag: str, shared: bool = False,
        status: int = 200, errors: Iterable[int] = (), also: Mapping[int, str] | None = None, media: str = "",
        hidden: bool = False, any_query: Any = None,
    ) -> None:  # fmt: skip
        hints = get_type_hints(handler, include_extras=True)
        defaults = inspect.signature(handler).parameters
        named = _PLACE.findall(path)
        self.method, self.path, self.handler, self.name = method, path, handler, handler.__name__
        if "action" in hints and "action" not in named:
            self.name = path.rpartition("/")[2]
            self.handler = partial(handler, action=self.name)
            if _PLACE.fullmatch(self.name) or defaults["action"].default is not inspect.Parameter.empty:
                raise self._wrong("`action` is the last word of the path; call a query parameter something else")
            del hints["action"]
        self.role, self.shared, self.hidden = role, shared, hidden
        self.tag, self.summary, self.description = tag, summary, " ".join((handler.__doc__ or "").split())
        self.answer = hints.pop("return")
        self.status = 204 if self.answer is NoneType else status
        self.also = also or {}
        self.media = media or getattr(self.answer, "media_type", JSON)
        self.body: Any = hints.pop("data", None)
        self.body_required = "data" in defaults and defaults["data"].default is inspect.Parameter.empty
        self.errors = sorted({400, 401, 403, 405, 422, 429, 503, *errors, *((413, 415) if self.body else ())})
        self.given = [name for name in hints if name in GIVEN]
        self.parameters = [
            Parameter(name, hint, defaults[name].default, named) for name, hint in hints.items() if name not in GIVEN
        ]
        if unknown := [status for status in self.errors if status not in TITLES]:
            raise self._wrong(f"there is no problem with the status {unknown[0]}")
        by_name = {each.name: each for each in self.parameters if each.place == "path"}
        for name in named:
            if name not in by_name:
                raise self._wrong(f"{handler.__name__} has no parameter {name!r}")
        self._path = [by_name[name] for name in named]
        self._query = {each.name: each for each in self.parameters if each.place == "query"}
        self._needed = [each for each in self._query.values() if each.required]
        self._headers = [(each, each.name.lower().encode()) for each in self.parameters if each.place == "header"]
        self._once = {header: each.name for each, header in self._headers}
        if self.body is not None:
            self._once[b"content-type"] = "Content-Type"
        self._cookies = [each for each in self.parameters if each.place == "cookie"]
        self.any_query = any_query

    def _wrong(self, why: str) -> ValueError:
        return ValueError(f"{self.method} {self.path}: {why}")

    def check_caller(self, who: Any) -> None:
        """Refuse a caller whose role or tenant does not allow this."""
        if who.role < self.role or (who.role is Role.AGENT and self.role is not Role.AGENT):  # it sees what it holds
            raise Rejected.because(403, "role-needed", role=self.role.word)
        if who.tenant_id is not None and self.shared and self.method != "GET":
            raise Rejected.because(403, "shared-by-tenants")

    async def __call__(self, server: Any, scope: Scope, receive: Receive, names: Sequence[str]) -> Response:
        """The answer to a request that names these things in its path."""
        state = scope["state"]
        who = state["principal"]
        self.check_caller(who)
        for header in state["repeated"] & self._once.keys():
            raise Rejected(400, f"the header {self._once[header]} is given twice")
        arguments = self._arguments(scope, state["headers"], names)
        if arguments.get("task_id") is not None:
            about_task(arguments["task_id"])
        if self.body is not None:
            body = await read_body(receive)
            if body:
                arguments["data"] = decode_body(body, state["headers"], self.body)
            elif self.body_required:
                raise Invalid("the request needs a body")
        for name in self.given:
            arguments[name] = server if name == "server" else who if name == "who" else Request(scope, receive)
        answer = await self.handler(**arguments)
        if isinstance(answer, Response):
            return answer
        return Response(status_code=204) if answer is None else Json(answer, self.status)

    def _arguments(self, scope: Scope, headers: dict[bytes, bytes], names: Sequence[str]) -> dict[str, Any]:
        found: list[tuple[Parameter, str | list[str]]] = []
        for parameter, name in zip(self._path, names, strict=True):
            if parameter.is_number and not _NUMBER.fullmatch(name):
                raise NotFound("a number in a path must be plain digits")
            found.append((parameter, name))
        query = scope["query_string"]
        if (query or self._needed) and self.any_query is None:
            found += self._query_values(query)
        for parameter, header in self._headers:
            if header in headers:
                found.append((parameter, headers[header].decode("latin-1")))
        if self._cookies and b"cookie" in headers:
            cookies = cookie_parser(headers[b"cookie"].decode("latin-1"))
            found += [(each, cookies[each.name]) for each in self._cookies if each.name in cookies]
        return _converted(found)

    def _query_values(self, query: bytes) -> list[tuple[Parameter, str | list[str]]]:
        values: dict[str, list[str]] = {}
        for name, value in parse_qsl(query.decode(errors="replace"), keep_blank_values=True):
            values.setdefault(name, []).append(value)
        for name, several in values.items():
            if name not in self._query:
                known = ", ".join(sorted(self._query)) or "none"
                raise Invalid(f"unknown query parameter {name!r}; known: {known}")
            if len(several) > 1 and not self._query[name].repeatable:
                raise Invalid(f"query parameter {name!r} is given twice")
        for parameter in self._needed:
            if parameter.name not in values:
                raise Invalid(f"query parameter {parameter.name!r} is missing")
        known_parameters = ((self._query[name], several) for name, several in values.items())
        return [(each, several if each.repeatable else several[0]) for each, several in known_parameters]


def _converted(found: Iterable[tuple[Parameter, str | list[str]]]) -> dict[str, Any]:
    arguments, errors = {}, []
    for parameter, text in found:
        try:
            arguments[parameter.argument] = parameter.convert(text)
        except msgspec.ValidationError as error:
            errors.append(f"{parameter.name}: {error}")
    if errors:
        raise InvalidParameters(errors)
    return arguments


class Routes(list[Route]):
    """The routes of one noun: `@routes.get(path, role, summary)` over a handler adds one.

    A handler's docstring is the route's description. `shared`: all tenants have it in common, and none of them may
    change it. `errors`: the statuses of its problems beside the common ones. `also`: other statuses of its answer.
    `media`: of an answer that is no JSON. `hidden`: not in the OpenAPI file. `any_query`: the type, a dict, of a query
    with names that are not known beforehand; the handler reads it from `request`.
    """

    def __init__(self, tag: str, shared: bool = False) -> None:
        super().__init__()
        self._tag = tag
        self._shared = shared

    def get(self, path: str, role: Role = Role.ADMIN, summary: str = "", **options: Any) -> Decorator:
        return self._add("GET", path, role, summary, options)

    def post(self, path: str, role: Role = Role.ADMIN, summary: str = "", **options: Any) -> Decorator:
        return self._add("POST", path, role, summary, options)

    def put(self, path: str, role: Role = Role.ADMIN, summary: str = "", **options: Any) -> Decorator:
        return self._add("PUT", path, role, summary, options)

    def delete(self, path: str, role: Role = Role.ADMIN, summary: str = "", **options: Any) -> Decorator:
        return self._add("DELETE", path, role, summary, options)

    def _add(self, method: str, path: str, role: Role, summary: str, options: dict[str, Any]) -> Decorator:
        def add(handler: Handler) -> Handler:
            self.append(Route(method, path, handler, role, summary, tag=self._tag, shared=self._shared, **options))
            return handler

        return add


class Node:
    """A place in the tree of paths: what is there, and what lies below it."""

    __slots__ = ("below", "named", "routes")

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.below: dict[str, Node] = {}
        self.named: Node | None = None  # below any other name


class Router:
    """Finds the route of a request, and sends its answer or its problem."""

    def __init__(self, server: Any, routes: Iterable[Route]) -> None:
        self._server = server
        self._root = Node()
        for route in routes:
            node = self._root
            for part in _parts(route.path):
                if _PLACE.fullmatch(part):
                    node.named = node.named or Node()
                    node = node.named
                else:
                    node = node.below.setdefault(part, Node())
            if route.method in node.routes:
                raise ValueError(f"two routes for {route.method} {route.path}")
            node.routes[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            route, names = self._find(scope)
            scope["path_template"] = route.path
            response = await route(self._server, scope, receive, names)
        except Exception as error:
            response = problem_response(error, scope["state"]["request_id"])
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> tuple[Route, list[str]]:
        # A %2F is part of a name, as in /api/lanes/eu%2Fwest, and no slash between two names.
        parts = [unquote(part) if "%" in part else part for part in _parts(raw_path(scope))]
        allowed: set[str] = set()
        for routes, names in _matches(self._root, parts, []):
            if route := routes.get(scope["method"]):
                return route, names
            allowed |= routes.keys()
        if allowed:
            raise Rejected(405, f"no {scope['method']} here", {"Allow": ", ".join(sorted(allowed))})
        raise NotFound.of("no-such-address")


def _matches(node: Node, parts: Sequence[str], names: list[str]) -> Iterator[tuple[dict[str, Route], list[str]]]:
    """The routes at each place that a path leads to, and what it names on the way; the most literal place first."""
    if not parts:
        yield node.routes, names
        return
    if below := node.below.get(parts[0]):
        yield from _matches(below, parts[1:], names)
    if node.named:
        yield from _matches(node.named, parts[1:], [*names, parts[0]])


def raw_path(scope: Scope) -> str:
    """The path as it was written."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def without_none(annotation: Any) -> Any:
    """A type without the None that stands for a parameter that is left out."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return Annotated[(without_none(inner), *marks)]
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(each for each in get_args(annotation) if each is not NoneType)]  # noqa: UP007
    return annotation


def bare(annotation: Any) -> Any:
    """A type without its limits."""
    return bare(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation


# Bodies


async def read_body(receive: Receive) -> bytes:
    parts = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Rejected(400, "the request ended before its body did")
        part = message.get("body", b"")
        size += len(part)
        if size > MOST_BODY_BYTES:
            raise Rejected(413, f"the body is longer than {MOST_BODY_BYTES} bytes")
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def decode_body(body: bytes, headers: dict[bytes, bytes], shape: Any) -> Any:
    """A JSON body as `shape`, exactly: no number is read from a text, no name may be there twice."""
    media_type, _, options = headers.get(b"content-type", b"").lower().partition(b";")
    if media_type.strip() != JSON.encode() or headers.get(b"content-encoding", b"identity") != b"identity":
        raise Rejected(415, f"send the body as {JSON}, not compressed")
    if b"charset" in options and b"utf-8" not in options:
        raise Rejected(415, "send the body in UTF-8")
    try:
        value = _decode(body)
        if body.count(b"[") + body.count(b"{") > MOST_BODY_DEPTH and is_deeper(
            value, MOST_BODY_DEPTH
        ):  # what follows is recursive
            raise Invalid(TOO_DEEP)
        if _may_have_duplicates(body, value):
            json.loads(body, object_pairs_hook=_object_without_duplicates)
        return msgspec.convert(value, shape, strict=True)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from None
    except RecursionError:
        raise Invalid(TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Rejected(400, f"the body is not JSON: {error}") from None


def _may_have_duplicates(body: bytes, value: Any) -> bool:
    """Whether a name may be there twice: what was read has then lost the colon behind one of them.

    A colon that is written as an escape could make up for that.
    """
    return body.count(b":") != _encode(value).count(b":") or b"\\u003" in body


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Invalid(f"the body has {name[:MOST_QUOTED]!r} twice")
        found[name] = value
    return found
