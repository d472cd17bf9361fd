"""The OpenAPI file: what the routes say of themselves, and the shapes as msgspec describes them."""

from collections.abc import Iterable, Sequence
from functools import cache
from http import HTTPStatus
from types import NoneType
from typing import Any, get_args

import msgspec
from starlette.responses import Response

import headgate
from headgate.api.door.gatekeeper import ALWAYS_OPEN
from headgate.api.problems import MEDIA, TITLES, Problem
from headgate.api.routing import JSON, Json, Parameter, Route, without_none

REF = "#/components/schemas/{name}"
Schema = dict[str, Any]


@cache
def openapi_of(routes: Sequence[Route]) -> Schema:
    """Every route, every parameter, every body and every answer; made when it is first asked for."""
    listed = [route for route in routes if not route.hidden]
    types = [Problem, *(each for route in listed for each in _types(route))]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    described = iter(schemas)
    problem = next(described)
    paths: dict[str, Schema] = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, described, problem)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headgate", "version": headgate.__version__},
        "servers": [{"url": "/"}],
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(components.items()))},
    }


def _types(route: Route) -> Iterable[Any]:
    """The types that a route has schemas of, in the order in which `_operation` takes them."""
    yield from (parameter.type for parameter in route.parameters)
    if route.any_query is not None:
        yield route.any_query
    if route.body is not None:
        yield without_none(route.body)
    if (answer := _answer(route)) is not None:
        yield answer


def _answer(route: Route) -> Any:
    """The type that a route answers with; None if that is nothing, or no JSON."""
    if getattr(route.answer, "__origin__", None) is Json:
        return get_args(route.answer)[0]
    if route.answer is NoneType or (isinstance(route.answer, type) and issubclass(route.answer, Response)):
        return None
    return route.answer


def _operation(route: Route, described: Iterable[Schema], problem: Schema) -> Schema:
    schemas = iter(described)
    operation: Schema = {"tags": [route.tag], "summary": route.summary, "operationId": _operation_id(route)}
    if route.description:
        operation["description"] = route.description
    if route.path not in ALWAYS_OPEN:
        operation["x-role"] = route.role.word
    parameters = [_parameter(each, next(schemas)) for each in route.parameters]
    if route.any_query is not None:
        as_names = {"name": "query", "in": "query", "required": True, "style": "form", "explode": True}
        parameters.append(as_names | {"schema": next(schemas)})
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        schema = next(schemas)
        if not route.body_required:
            schema = {"oneOf": [schema, {"type": "null"}]}
        operation["requestBody"] = {"required": route.body_required, "content": {JSON: {"schema": schema}}}
    content = None
    if route.status != 204:
        content = {route.media: {"schema": next(schemas) if _answer(route) is not None else {"type": "string"}}}
    responses = {str(route.status): _response(HTTPStatus(route.status).description, content)}
    responses |= {str(status): _response(description, content) for status, description in route.also.items()}
    failure = {MEDIA: {"schema": problem}}
    responses |= {str(status): _response(TITLES[status], failure) for status in route.errors}
    return operation | {"responses": responses}


def _operation_id(route: Route) -> str:
    words = f"{route.path}/{route.name}".replace("-", "_").replace("/", "_")
    return "".join(word.capitalize() for word in words.replace("{", "").replace("}", "").split("_"))


def _parameter(parameter: Parameter, schema: Schema) -> Schema:
    found = {"name": parameter.name, "in": parameter.place, "required": parameter.required}
    if description := schema.get("description"):
        found["description"] = description
    default = {} if parameter.default is None else {"default": parameter.default}
    return found | {"schema": schema | default}


def _response(description: str, content: Schema | None) -> Schema:
    return {"description": description} | ({} if content is None else {"content": content})
