"""The API's own page: every route and every shape, from the OpenAPI file; no script, nothing from elsewhere."""

import hashlib
import json
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable
from html import escape
from typing import Any

from starlette.responses import Response

from headgate.api.door.principal import Role
from headgate.api.openapi import openapi_of
from headgate.api.routing import Json, Routes
from headgate.api.server import Server

FILE = "/api/openapi.json"
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { margin: 0; display: grid; grid-template-columns: 19rem minmax(0, 1fr); font: 15px/1.5 system-ui, sans-serif; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; box-sizing: border-box; padding: 1rem;
  border-right: 1px solid var(--line); font-size: 13px; }
nav a { display: flex; align-items: baseline; text-decoration: none; color: inherit; padding: 1px 0; }
nav a:hover { text-decoration: underline; }
nav h2 { font-size: 13px; margin: 1rem 0 .2rem; text-transform: capitalize; }
main { padding: 1rem 2rem 30vh; max-width: 60rem; }
main > h2 { margin-top: 3rem; text-transform: capitalize; }
section { border-top: 1px solid var(--line); padding: .5rem 0 1rem; scroll-margin-top: .5rem; }
h3 { font-size: 15px; overflow-wrap: anywhere; }
code { font: 13px ui-monospace, monospace; background: var(--soft); border-radius: 3px; padding: 1px 4px; }
h3 code { background: none; padding: 0; }
b { display: inline-block; flex: none; width: 3.4rem; font: bold 11px ui-monospace, monospace; }
.get { color: #1c7ed6; } .post { color: #2f9e44; } .put { color: #d9730d; } .delete { color: #e03131; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
td, th { text-align: left; vertical-align: top; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--soft); }
th { font-weight: normal; opacity: .7; font-size: 13px; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border: 0; }
  main { padding: 1rem; } }
"""
_ALLOWED = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_ALLOWED}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Schema = dict[str, Any]


routes = Routes("system")


@routes.get(FILE, Role.READ, hidden=True)
async def openapi_file(server: Server) -> Json[Schema]:
    return Json(openapi_of(server.routes))


@routes.get("/api/docs", Role.READ, hidden=True)
async def docs_page(server: Server) -> Response:
    text = page(openapi_of(server.routes))
    return Response(text, headers={"Content-Security-Policy": POLICY}, media_type="text/html")


def page(schema: Schema) -> str:
    """All that the schema describes, as HTML."""
    title = escape(f"{schema['info']['title']} {schema['info']['version']}: HTTP API")
    by_tag: dict[str, list[tuple[str, str, Schema]]] = defaultdict(list)
    for path, methods in sorted(schema["paths"].items()):
        for method, operation in methods.items():
            by_tag[operation["tags"][0]].append((method, path, operation))
    links, sections = "", ""
    for tag, operations in sorted(by_tag.items()):
        links += f"<h2>{escape(tag)}</h2>" + "".join(_link(*operation) for operation in operations)
        sections += f"<h2>{escape(tag)}</h2>" + "".join(_operation(*operation) for operation in operations)
    shapes = "".join(_shape(name, shape) for name, shape in sorted(schema["components"]["schemas"].items()))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f'<nav><a href="{FILE}">{FILE}</a>{links}<h2><a href="#shapes">shapes</a></h2></nav><main><h1>{title}</h1>'
        f'<p>For programs: <a href="{FILE}">{FILE}</a>. Bodies and answers are JSON; every error is a '
        f'<a href="#Problem">Problem</a>.</p>{sections}<h2 id="shapes">Shapes</h2>{shapes}</main></body></html>'
    )


def _method(method: str) -> str:
    return f'<b class="{method}">{method.upper()}</b>'


def _link(method: str, path: str, operation: Schema) -> str:
    summary = escape(operation["summary"])
    return f'<a href="#{escape(operation["operationId"])}" title="{escape(path)}">{_method(method)}{summary}</a>'


def _operation(method: str, path: str, operation: Schema) -> str:
    parts = [f"<h3>{_method(method)}<code>{escape(path)}</code></h3>"]
    parts.append(f"<p><strong>{escape(operation['summary'])}.</strong> {_description(operation)}</p>")
    if parameters := operation.get("parameters"):
        rows = ((each["name"], each["in"], each["schema"], each["required"], _description(each)) for each in parameters)
        parts.append(_table("parameter", rows))
    if body := operation.get("requestBody"):
        body_type = _type_of(_content(body))
        parts.append(f"<p>Body: {body_type}{'' if body['required'] else ', or none'}</p>")
    good = [(code, answer) for code, answer in operation["responses"].items() if code < "400"]
    parts += [f"<p>{code}: {_type_of(_content(answer)) or escape(answer['description'])}</p>" for code, answer in good]
    bad = ", ".join(code for code in operation["responses"] if code >= "400")
    role = operation.get("x-role")
    parts.append(f"<p>{f'Needs the role <code>{role}</code>. ' if role else ''}{f'Errors: {bad}.' if bad else ''}</p>")
    return f'<section id="{escape(operation["operationId"])}">{"".join(parts)}</section>'


def _content(described: Schema) -> Schema:
    """What a body or an answer holds; nothing if it holds nothing that has a shape."""
    for held in described.get("content", {}).values():
        found: Schema = held.get("schema", {})
        return found
    return {}


def _shape(name: str, shape: Schema) -> str:
    fields, needed = shape.get("properties", {}), shape.get("required", ())
    if fields:
        rows = ((field, "", schema, field in needed, _description(schema)) for field, schema in fields.items())
        inside = _table("field", rows)
    else:
        inside = f"<p>{_type_of(shape)}</p>"
    heading = f"<h3><code>{escape(name)}</code></h3>"
    return f'<section id="{escape(name)}">{heading}<p>{_description(shape)}</p>{inside}</section>'


def _table(what: str, rows: Iterable[tuple[str, str, Schema, bool, str]]) -> str:
    lines = "".join(
        f"<tr><td><code>{escape(name)}</code></td>"
        f"<td>{_type_of(schema) or 'anything'}{f' ({escape(where)})' if where else ''}</td>"
        f"<td>{'needed' if needed else _default(schema)}</td><td>{description}</td></tr>"
        for name, where, schema, needed, description in rows
    )
    return f"<table><tr><th>{what}</th><th>is</th><th></th><th></th></tr>{lines}</table>"


def _type_of(schema: Schema) -> str:
    """The type of a value in a few words, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for several in ("oneOf", "anyOf"):
        if several in schema:
            common = {name: value for name, value in schema.items() if name != several}
            return " or ".join(_type_of(common | choice) for choice in schema[several])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(_literal(each))}</code>" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {})) or 'anything'}{_limits(schema, 'minItems', 'maxItems')}"
    if isinstance(of := schema.get("additionalProperties"), dict):
        return f"object of {_type_of(of) or 'anything'}"
    named: str | list[str] = schema.get("type", "")
    type_name = " or ".join(named) if isinstance(named, list) else str(schema.get("format", named))
    unit = " characters" if "maxLength" in schema or "minLength" in schema else ""
    low, high = ("minLength", "maxLength") if unit else ("minimum", "maximum")
    return escape(type_name) + _limits(schema, low, high, unit)


def _limits(schema: Schema, low: str, high: str, unit: str = "") -> str:
    least, most = schema.get(low), schema.get(high)
    if schema.get("type") == "null" or (least is None and most is None) or abs(most or 0) > 1e9:
        return ""
    if least is None or most is None:
        return f", {'at least' if most is None else 'at most'} {least if most is None else most:g}{unit}"
    return f", {least:g} to {most:g}{unit}"


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default in (None, [], {}) else f"else <code>{escape(_literal(default))}</code>"


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _description(described: Schema) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(described.get("description") or "", quote=False))
