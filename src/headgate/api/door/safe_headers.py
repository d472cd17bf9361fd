"""The headers that keep an answer safe, and the id under which the log knows its request."""

from collections.abc import Iterable

REQUEST_ID = b"x-request-id"
# Only where the route has not said something else, as a page for people has to.
SAFE_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


def with_safe_headers(headers: Iterable[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, with those that are missing."""
    all_headers = [*headers]
    names = {name.lower() for name, _ in all_headers}
    all_headers += [(name, value) for name, value in SAFE_HEADERS if name not in names]
    all_headers.append((REQUEST_ID, request_id.encode()))
    return all_headers
