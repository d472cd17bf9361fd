"""Errors as RFC 9457 problems: a stable type, one sentence, the request's id; nothing of the inside."""

import logging
from collections.abc import Mapping
from typing import Any, Self

import msgspec
from starlette.responses import Response

from headgate.core.errors import HeadgateError, Invalid
from headgate.core.reasons import Param
from headgate.core.refusals import refusal_text

log = logging.getLogger("headgate.api")
MEDIA = "application/problem+json"
TYPE = "urn:headgate:problem:"
TITLES = {
    400: "The request cannot be read", 401: "A key is needed", 403: "Not allowed", 404: "Not found",
    405: "Method not allowed", 408: "Too slow", 409: "Not possible now", 413: "Too large",
    415: "The body must be JSON", 422: "Invalid input", 429: "Too many requests",
    431: "The headers are too large", 500: "Something went wrong", 503: "Not available now",
    507: "The store's disk is full",
}  # fmt: skip
CODES = {
    400: "bad-request", 401: "unauthorized", 403: "forbidden", 404: "not-found", 405: "method-not-allowed",
    408: "too-slow", 409: "refused", 413: "too-large", 415: "unsupported-media-type", 422: "invalid",
    429: "too-many-requests", 431: "headers-too-large", 503: "unavailable",
}  # fmt: skip


class Problem(msgspec.Struct, omit_defaults=True):
    """What went wrong; `code` and `params` say what `detail` says in English."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    params: dict[str, Param] = {}
    errors: list[str] = []


class Rejected(HeadgateError):
    """The request is refused as HTTP has it, with this status and these words."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = self.kind
        self.headers = headers or {}

    @classmethod
    def because(cls, status: int, code: str, **params: Param) -> Self:
        """`HeadgateError.of`, with its status."""
        error = cls(status, refusal_text(code, params))
        error.code, error.params = code, params
        return error

    @property
    def kind(self) -> str:
        return CODES.get(self.status, "error")


class InvalidParameters(Invalid):
    """Several parameters break a rule; each has its sentence."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


def problem_response(error: Exception, request_id: str) -> Response:
    """The answer to a request that failed. What is not ours is a bug: the log has it, the caller does not."""
    if isinstance(error, HeadgateError):
        status, detail = error.status, str(error)
        kind, code, params = error.kind, error.code, dict(error.params)
    else:
        log.error("request failed: request=%s", request_id, exc_info=error)
        status, detail = 500, "something went wrong; look for the request id in the server's log"
        kind, code, params = HeadgateError.code, HeadgateError.code, {}
    errors: list[str] = getattr(error, "errors", [])
    headers: dict[str, Any] = {"Retry-After": "1"} if status in (429, 503) else {}
    headers |= getattr(error, "headers", {})
    problem = Problem(TYPE + kind, TITLES.get(status, "Error"), status, detail, code, request_id, params, errors)
    return Response(msgspec.json.encode(problem), status, headers, MEDIA)
