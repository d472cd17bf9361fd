"""A `%2F` in a path is part of a name, as in `/api/lanes/eu%2Fwest`, and no slash between two names."""

import re
from typing import Any
from urllib.parse import unquote

from litestar.types import ASGIApp, Receive, Scope, Send

IN_A_NAME = "\ue000"  # a slash, until the path is taken apart; nobody writes this character
_SLASH = re.compile("%2f", re.IGNORECASE)


def kept_apart(inside: ASGIApp) -> ASGIApp:
    """The router inside sees no slash where one was written as `%2F`; `put_back` gives it to who asks for the name."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path, raw = scope["path"], (scope.get("raw_path") or b"").partition(b"?")[0]
        if b"%2f" in raw.lower():
            scope["path"] = unquote(_SLASH.sub(IN_A_NAME, raw.decode("latin-1")))
        try:
            await inside(scope, receive, send)
        finally:
            scope["path"] = path

    return answer


def put_back(named: dict[str, Any]) -> None:
    """In what a path names."""
    for name, value in named.items():
        if isinstance(value, str):
            named[name] = value.replace(IN_A_NAME, "/")
