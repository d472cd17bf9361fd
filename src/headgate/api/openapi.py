"""The OpenAPI file, as true as the shapes it is made from.

The framework describes routes well and values loosely: it forgets that unknown fields are refused, limits of 0 and
limits inside lists, and says that a query parameter may be null. The shapes say it better themselves.
"""

from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.params import ParameterKwarg
from litestar.routes import HTTPRoute

from headgate.api.gatekeeper import ALWAYS_OPEN
from headgate.api.principal import Role

REF = "#/components/schemas/{name}"
LIMITS = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "min_length": "minLength",
    "max_length": "maxLength", "pattern": "pattern", "min_items": "minItems", "max_items": "maxItems",
}  # fmt: skip


@cache
def openapi_of(app: Litestar) -> dict[str, Any]:
    """Every route, every parameter, every body and every answer; made when it is first asked for."""
    schema = deepcopy(app.openapi_schema.to_schema())
    handlers = [
        (route.path_format, method, handler)
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method, (handler, _) in route.route_handler_map.items()
    ]
    shapes: dict[type, None] = {}
    for path, method, handler in handlers:
        operation = schema["paths"].get(path, {}).get(method.lower())
        if operation is None or not handler.resolve_include_in_schema():
            continue
        shapes |= dict.fromkeys(_shapes(handler))
        if path not in ALWAYS_OPEN:
            operation["x-role"] = handler.opt.get("role", Role.ADMIN).word
        for parameter in operation.get("parameters", []):
            _fix_parameter(parameter, handler)
        if (body := handler.parsed_data_field) is not None:
            operation["requestBody"]["required"] = body.is_required
    schema["components"]["schemas"] |= _component_schemas(list(shapes), schema["components"]["schemas"])
    return schema


def _component_schemas(shapes: list[type], names: Iterable[str]) -> dict[str, Any]:
    """The shapes by the framework's names: where two have the same, each of the two puts the module before it."""
    _, described = msgspec.json.schema_components(shapes, ref_template=REF)
    renamed = {}
    for ours in described:
        theirs = (name for name in names if "." in ours and ours.replace(".", "_").endswith(f"_{name}"))
        renamed[ours] = next(theirs, ours)
    text = msgspec.json.encode({renamed[ours]: shape for ours, shape in described.items()}).decode()
    for ours, name in renamed.items():
        text = text.replace(f'"{REF.format(name=ours)}"', f'"{REF.format(name=name)}"')
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def _shapes(handler: HTTPRouteHandler) -> list[type]:
    """The shapes that a route takes and gives, as they are named there."""
    fields = [handler.parsed_data_field, handler.parsed_return_field]
    types: list[Any] = [spec.data_container for spec in (handler.responses or {}).values()]
    for field in fields:
        if field is not None:
            types += [field.annotation, *(inner.annotation for inner in field.inner_types)]
    return [each for each in types if isinstance(each, type) and issubclass(each, msgspec.Struct)]


def _fix_parameter(parameter: dict[str, Any], handler: HTTPRouteHandler) -> None:
    schema = parameter["schema"]
    alternatives = [alternative for alternative in schema.get("oneOf", []) if alternative != {"type": "null"}]
    if len(alternatives) == 1:
        schema.pop("oneOf")
        schema |= alternatives[0]
    for name, field in handler.parsed_fn_signature.parameters.items():
        definition = field.kwarg_definition
        if isinstance(definition, ParameterKwarg) and parameter["name"] in (name, definition.query, definition.header):
            limits = {word: getattr(definition, limit, None) for limit, word in LIMITS.items()}
            schema |= {word: value for word, value in limits.items() if value is not None}
