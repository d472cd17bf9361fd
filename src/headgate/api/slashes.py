"""A `%2F` in a path is part of a name, as in `/api/lanes/eu%2Fwest`, and no slash between two names."""

import re
from typing import Any
from urllib.parse import unquote

from litestar.types import ASGIApp, Receive, Scope, Send

PLACEHOLDER = "\ue000"  # a slash, until the path is taken apart; nobody writes this character
_SLASH = re.compile("%2f", re.IGNORECASE)


def hide_encoded_slashes(inside: ASGIApp) -> ASGIApp:
    """Hide each slash written as `%2F` from the router inside; `restore_slashes` puts it back into the name."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path, raw = scope["path"], (scope.get("raw_path") or b"").partition(b"?")[0]
        if b"%2f" in raw.lower():
            scope["path"] = unquote(_SLASH.sub(PLACEHOLDER, raw.decode("latin-1")))
        try:
            await inside(scope, receive, send)
        finally:
            scope["path"] = path

    return answer


def restore_slashes(named: dict[str, Any]) -> None:
    """Put the slashes back into the names that a path holds."""
    for name, value in named.items():
        if isinstance(value, str):
            named[name] = value.replace(PLACEHOLDER, "/")
