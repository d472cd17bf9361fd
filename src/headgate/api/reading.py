"""What a request says, taken at its word: nothing is bent until it fits, nothing is passed over in silence."""

import json
from typing import Any, NamedTuple, get_args

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.exceptions import ClientException, HTTPException
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler

from headgate.core.errors import Invalid, NotFound

JSON = "application/json"
MOST_QUOTED = 100
_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_KNOWN = "known query parameters"


class UnsupportedMediaType(HTTPException):
    status_code = 415


class JsonRequest(Request[Any, Any, Any]):
    """A request whose body is JSON and exactly what its route takes.

    The framework's own would read the text "5" as a number, and of a name that is there twice the last one.
    """

    async def json(self) -> Any:
        field = self.route_handler.parsed_data_field
        return read(await self.body(), self.headers, Any if field is None else field.annotation)


def read(body: bytes, headers: Any, shape: Any) -> Any:
    """A body as `shape`; `Invalid`, or an error of the framework's, if that is not what it is."""
    media_type, _, options = headers.get("content-type", "").partition(";")
    if media_type.strip().lower() != JSON or headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedMediaType(f"a body is {JSON}, and not compressed")
    if "charset" in options.lower() and "utf-8" not in options.lower():
        raise UnsupportedMediaType("a body is in UTF-8")
    try:
        value = _ANYTHING.decode(body)
    except msgspec.ValidationError as error:  # a number that no computer can hold
        raise Invalid(str(error)) from None
    except RecursionError:
        raise Invalid("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClientException(f"the body is not JSON: {error}") from None
    if _may_have_duplicates(body, value):
        _refuse_duplicates(body)
    try:
        return msgspec.convert(value, shape, strict=True)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from None


def _may_have_duplicates(body: bytes, value: Any) -> bool:
    """Whether a name may be there twice: what was read has then lost the colon behind one of them.

    A colon that is written as an escape could make up for that.
    """
    return body.count(b":") != msgspec.json.encode(value).count(b":") or b"\\u003" in body


def _refuse_duplicates(body: bytes) -> None:
    json.loads(body, object_pairs_hook=_object_without_duplicates)


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Invalid(f"the body holds {name[:MOST_QUOTED]!r} twice")
        found[name] = value
    return found


def check_query_parameters(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Refuse a query parameter that the route does not have, a second one where it has one, an id that is none.

    A route that takes the whole request, or the whole query, sees to that itself.
    """
    path = connection.scope["path"].split("/")
    for number in connection.path_params.values():
        if isinstance(number, int) and str(number) not in path:
            raise NotFound("a number in a path is written in plain digits")  # Python reads more as one: +1, 1_0, ١
    query = connection.query_params
    if not query or not isinstance(handler, HTTPRouteHandler):
        return
    known = _known_parameters(connection, handler)
    if known is None:
        return
    for name in query:
        if name not in known:
            raise Invalid(f"no query parameter {name!r}; there is {', '.join(sorted(known)) or 'none'}")
        if not known[name].repeatable and len(query.getall(name)) > 1:
            raise Invalid(f"the query parameter {name!r} is there twice")
        if not known[name].text and query[name].lower() == "null":  # which the framework takes for: nothing was said
            raise Invalid(f"the query parameter {name!r} is null: leave it out")


class _Parameter(NamedTuple):
    repeatable: bool
    text: bool


def _known_parameters(
    connection: ASGIConnection[Any, Any, Any, Any], handler: HTTPRouteHandler
) -> dict[str, _Parameter] | None:
    """The route's query parameters, with whether each may be there several times, and be any text; None: any."""
    if _KNOWN not in handler.opt:
        model = handler.create_kwargs_model(dict.fromkeys(connection.path_params))  # type: ignore[arg-type]
        fields = handler.parsed_fn_signature.parameters
        taken = {
            each.field_alias: _Parameter(each.is_sequence, each.is_sequence or _is_text(fields.get(each.field_name)))
            for each in model.expected_query_params
        }
        handler.opt[_KNOWN] = None if {"request", "query"} & fields.keys() else taken
    found: dict[str, _Parameter] | None = handler.opt[_KNOWN]
    return found


def _is_text(field: Any) -> bool:
    return field is not None and str in (field.annotation, *get_args(field.annotation))
