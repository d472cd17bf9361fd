"""Errors as RFC 9457 problems: a stable type, one sentence, the request's id; nothing of the inside."""

import logging
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec

from headgate.core.errors import HeadgateError

log = logging.getLogger("headgate.api")
MEDIA = "application/problem+json"
TYPE = "urn:headgate:problem:"
TITLES = {
    400: "The request cannot be read", 401: "A key is needed", 403: "Not allowed", 404: "Not found",
    405: "No such method here", 409: "Not possible now", 413: "Too large", 415: "Only JSON is read here",
    422: "The request breaks a rule", 429: "Too many requests", 431: "Too much in the headers",
    500: "Something went wrong", 503: "The store did not answer", 507: "The store's disk is full",
}  # fmt: skip
CODES = {
    400: "bad-request", 401: "unauthorized", 403: "forbidden", 404: "not-found", 405: "method-not-allowed",
    409: "refused", 413: "too-large", 415: "unsupported-media-type", 422: "invalid", 429: "too-many-requests",
    431: "headers-too-large", 500: "error", 503: "unavailable", 507: "store-full",
}  # fmt: skip


class Problem(msgspec.Struct, omit_defaults=True):
    """What went wrong."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[str] = []


def documented(*statuses: int) -> dict[int, ResponseSpec]:
    """The problems that a route may answer with, for the OpenAPI file; every route has the common ones."""
    return {
        status: ResponseSpec(
            data_container=Problem, description=TITLES[status], media_type=MEDIA, generate_examples=False
        )
        for status in sorted({400, 401, 403, 405, 422, 429, 503, *statuses})
    }


def headgate_problem(request: Request[Any, Any, Any], error: HeadgateError) -> Response[Problem]:
    """An error of ours says itself what it is."""
    return problem_response(request, error.status, error.code, str(error), headers=getattr(error, "headers", None))


def http_problem(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """The framework's errors, in our words: what does not fit the schema breaks a rule, like any other."""
    if error.status_code >= 500:
        return unexpected_problem(request, error)
    status = 422 if isinstance(error, ValidationException) else error.status_code
    errors = [_validation_message(each) for each in error.extra or []] if isinstance(error, ValidationException) else []
    detail = errors[0] if len(errors) == 1 else str(error.detail)
    return problem_response(request, status, CODES.get(status, "error"), detail, errors, dict(error.headers or {}))


def unexpected_problem(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """A bug: the log has it, the caller does not."""
    log.error("request %s failed", request_id(request), exc_info=error)
    return problem_response(request, 500, "error", "something went wrong; the server's log has the request's id")


def problem_response(
    request: Request[Any, Any, Any],
    status: int,
    code: str,
    detail: str,
    errors: list[str] | None = None,
    headers: dict[str, str] | None = None,
) -> Response[Problem]:
    problem = Problem(TYPE + code, TITLES.get(status, "Error"), status, detail, request_id(request), errors or [])
    if status in (429, 503):
        headers = {"Retry-After": "1"} | (headers or {})
    return Response(problem, status_code=status, media_type=MEDIA, headers=headers)


def request_id(request: Request[Any, Any, Any]) -> str:
    """Of this request: the caller's own, if it sent one that can be shown."""
    return str(request.scope["state"].get("request_id", ""))


def _validation_message(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)
    where = ".".join(str(part) for part in [error.get("key")] if part)
    return f"{where}: {error.get('message', '')}" if where else str(error.get("message", ""))
