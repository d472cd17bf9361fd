"""Whether running again may help: error classes one by one, and what they lead to."""

import errno
import subprocess
from datetime import timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from headgate.core.errors import Invalid, NotFound, Unavailable
from headgate.core.retry import (
    DiskSpaceError,
    ErrorClass,
    Fatal,
    Retry,
    classify,
    delay_after,
    fixed,
    http_status,
    retry_after,
)
from tests.core.factories import NOW

POLICY = fixed(60, retries=3)


class ApiError(Exception):
    """An error with whatever a client library hangs on it."""

    def __init__(self, **attached: Any) -> None:
        super().__init__("from the other side")
        self.__dict__.update(attached)


class ValidationError(Exception):
    """As jsonschema, marshmallow, Django and msgspec have it: no ValueError."""


NamedLikeOurs = type("TimeoutError", (Exception,), {})  # as urllib3 and redis have it: no OSError


def refused(status: int) -> ApiError:
    return ApiError(status_code=status)


def api_error(status: int, retry_after: str | None = None, header: str = "Retry-After") -> ApiError:
    headers = {} if retry_after is None else {header: retry_after}
    return ApiError(response=SimpleNamespace(status_code=status, headers=headers))


RETRYABLE = [
    TimeoutError("slow"), ConnectionError("gone"), ConnectionResetError("gone"), BrokenPipeError("gone"),
    OSError("somehow"), OSError(errno.EIO, "bad sector"), OSError(errno.ENETUNREACH, "no route"),
    refused(503), refused(429), api_error(503), api_error(429), ApiError(status=503), ApiError(code=429),
    httpx.ConnectTimeout("slow"), httpx.ReadTimeout("slow"), httpx.ConnectError("gone"), NamedLikeOurs("slow"),
    subprocess.TimeoutExpired("yt-dlp", 30),
    ApiError(retryable=True), ApiError(retryable=True, status_code=404), Retry(), Retry(delay=5), Unavailable("store"),
]  # fmt: skip
FATAL = [
    ValueError("no"), UnicodeError("no"), ValidationError("no"), Invalid("no"), Fatal("no"),
    refused(400), refused(401), refused(403), refused(404),
    api_error(400), api_error(401), api_error(403), api_error(404),
    DiskSpaceError("full"), OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "over quota"), NotFound("task 1"),
    ApiError(retryable=False), ApiError(retryable=False, status_code=503),
]  # fmt: skip
UNKNOWN = [RuntimeError("?"), KeyError("?"), ZeroDivisionError(), refused(500), refused(418), ApiError(retryable="?")]


def error_id(value: object) -> str:
    return f"{value!r}-{vars(value)}" if isinstance(value, ApiError) else repr(value)


@pytest.mark.parametrize("error", RETRYABLE, ids=error_id)
def test_a_retryable_error_follows_the_policy_even_where_unknown_ones_fail(error):
    """Spec: A5, D4"""
    assert classify(error) is ErrorClass.RETRYABLE
    assert delay_after(POLICY, error, 0, 0.5, NOW, unknown_errors="fail") is not None
    assert delay_after(POLICY, error, 3, 0.5, NOW) is None


@pytest.mark.parametrize("error", FATAL, ids=error_id)
def test_a_fatal_error_never_runs_again(error):
    """Spec: A5, D4"""
    assert classify(error) is ErrorClass.FATAL
    assert delay_after(POLICY, error, 0, 0.5, NOW) is None


@pytest.mark.parametrize("error", UNKNOWN, ids=error_id)
def test_an_unknown_error_follows_the_policy_unless_the_type_says_fail(error):
    """Spec: Conflicts, settled (Unknown errors)"""
    assert classify(error) is ErrorClass.UNKNOWN
    assert delay_after(POLICY, error, 0, 0.5, NOW) == 60
    assert delay_after(POLICY, error, 0, 0.5, NOW, unknown_errors="fail") is None


@pytest.mark.parametrize("value", [True, "404", 99, 600, None, 4.04])
def test_only_a_whole_number_in_the_range_of_http_is_taken_for_a_status(value):
    """Spec: A5"""
    assert http_status(ApiError(status_code=value)) is None


@pytest.mark.parametrize("header", ["Retry-After", "retry-after"])
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0),
    ],
)
def test_retry_after_is_read_in_seconds_and_as_a_date(value, seconds, header):
    """Spec: A5"""
    assert retry_after(api_error(429, value, header), NOW) == seconds
    assert retry_after(ApiError(status_code=429, headers={header: value}), NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [None, "", "soon", "-5", "1.5e3", "²", "Wed, 21 Oct 99999 07:28:00 GMT", "Mon, 1 Jan 2024 00:00:00 -0000",
     "Mon, 1 Jan 2024 00:00:00 +99999999999999999"],
)  # fmt: skip
def test_a_retry_after_that_makes_no_sense_is_overlooked(value):
    """Spec: A5"""
    assert retry_after(api_error(429, value), NOW) is None


@pytest.mark.parametrize(("requested", "delay"), [("300", 300), ("61", 61), ("5", 60), (None, 60)])
def test_retry_after_is_never_undercut(requested, delay):
    """Spec: A5"""
    assert delay_after(POLICY, api_error(429, requested), 0, 0.5, NOW) == delay


@pytest.mark.parametrize(("requested", "delay"), [(None, 60), (300, 300), (2, 2), (0, 0)])
def test_a_handler_that_asks_to_run_again_has_the_delay_it_names(requested, delay):
    """Spec: D4"""
    assert delay_after(POLICY, Retry(delay=requested), 0, 0.5, NOW) == delay


@pytest.mark.parametrize(("own", "errors", "again"), [(None, 2, True), (None, 3, False), (1, 1, False), (9, 8, True)])
def test_a_task_s_own_number_of_retries_stands_in_for_its_type_s(own, errors, again):
    """Spec: Conflicts, settled (Counting)"""
    assert (delay_after(POLICY, TimeoutError(), errors, 0.5, NOW, retries=own) is not None) == again
