"""The API's own page: every route on one plain page, from the OpenAPI file; no script, nothing from elsewhere."""

from html import escape
from typing import Any

from litestar import Request
from litestar.openapi.plugins import OpenAPIRenderPlugin

FILE = "/api/openapi.json"


class DocsPage(OpenAPIRenderPlugin):
    """Renders the page at the root of the docs."""

    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return page(openapi_schema).encode()


def page(schema: dict[str, Any]) -> str:
    """All that the schema describes, as HTML."""
    title = escape(f"{schema['info']['title']} {schema['info']['version']}: HTTP API")
    body = "".join(
        _operation(method, path, operation)
        for path, methods in sorted(schema["paths"].items())
        for method, operation in methods.items()
        if isinstance(operation, dict)
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'
        f'<h1>{title}</h1><p>For programs: <a href="{FILE}">{FILE}</a>.</p>{body}</body></html>'
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = "".join(
        f"<li><code>{escape(each['name'])}</code> ({escape(each['in'])}) {escape(each.get('description') or '')}</li>"
        for each in operation.get("parameters", [])
    )
    answers = "".join(
        f"<li>{escape(status)} {escape(answer.get('description') or '')}</li>"
        for status, answer in operation.get("responses", {}).items()
    )
    return (
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2><p>{escape(operation.get('summary') or '')}. "
        f"{escape(operation.get('description') or '')}</p><ul>{parameters}</ul><details><summary>Answers</summary>"
        f"<ul>{answers}</ul></details>"
    )
