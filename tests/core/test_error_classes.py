"""Whether running again may help: error classes one by one, and what they lead to."""

import errno
import json
import subprocess
from datetime import timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from headgate.core.end_reasons import EndReason
from headgate.core.errors import BadArguments, Invalid, NotFound, Unavailable
from headgate.core.retry import (
    DiskSpaceError,
    ErrorClass,
    Fatal,
    Retry,
    Verdict,
    classify,
    fixed,
    http_status,
    retry_after,
    verdict,
)
from headgate.core.task import TaskType
from tests.core.factories import NOW

POLICY = fixed(60, retries=3)


def judged(error: BaseException, errors: int = 0, retries: int | None = None, **rules: Any) -> Verdict:
    return verdict(TaskType("any", retry=POLICY, **rules), error, errors, 0.5, NOW, retries)


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
    ValueError("no"), PermissionError("no"), OSError(errno.EACCES, "no"), ValidationError("no"),
    Invalid("no"), Fatal("no"),
    refused(400), refused(401), refused(403), refused(404),
    api_error(400), api_error(401), api_error(403), api_error(404),
    DiskSpaceError("full"), OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "over quota"), NotFound("task 1"),
    ApiError(retryable=False), ApiError(retryable=False, status_code=503),
]  # fmt: skip
UNKNOWN = [
    RuntimeError("?"), KeyError("?"), ZeroDivisionError(), refused(500), refused(418), ApiError(retryable="?"),
    UnicodeError("a bad answer"), json.JSONDecodeError("a bad answer", "", 0), OverflowError("?"),
]  # fmt: skip


def error_id(value: object) -> str:
    return f"{value!r}-{vars(value)}" if isinstance(value, ApiError) else repr(value)


@pytest.mark.parametrize("error", RETRYABLE, ids=error_id)
def test_a_retryable_error_follows_the_policy_even_where_unknown_ones_fail(error):
    """Spec: A5, D4"""
    assert classify(error) is ErrorClass.RETRYABLE
    assert judged(error, unknown_errors="fail").reason is EndReason.ERROR
    assert judged(error, 3) == Verdict(None, EndReason.EXHAUSTED)


@pytest.mark.parametrize("error", FATAL, ids=error_id)
def test_a_fatal_error_never_runs_again(error):
    """Spec: A5, D4"""
    assert classify(error) is ErrorClass.FATAL
    assert judged(error) == Verdict(None, EndReason.FATAL)


@pytest.mark.parametrize("error", UNKNOWN, ids=error_id)
def test_an_unknown_error_follows_the_policy_unless_the_type_says_fail(error):
    """Spec: Conflicts, settled (Unknown errors)"""
    assert classify(error) is ErrorClass.UNKNOWN
    assert judged(error) == Verdict(60, EndReason.ERROR)
    assert judged(error, unknown_errors="fail") == Verdict(None, EndReason.UNKNOWN)


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
    assert judged(api_error(429, requested)).delay == delay


@pytest.mark.parametrize(("requested", "delay"), [(None, 60), (300, 300), (2, 2), (0, 0)])
def test_a_handler_that_asks_to_run_again_has_the_delay_it_names(requested, delay):
    """Spec: D4"""
    assert judged(Retry(delay=requested)).delay == delay


@pytest.mark.parametrize(("own", "errors", "again"), [(None, 2, True), (None, 3, False), (1, 1, False), (9, 8, True)])
def test_a_task_s_own_number_of_retries_stands_in_for_its_type_s(own, errors, again):
    """Spec: Conflicts, settled (Counting)"""
    assert (judged(TimeoutError(), errors, own).delay is not None) == again


class PaymentError(OSError):
    """As a program has it."""


class CardExpired(PaymentError): ...


@pytest.mark.parametrize(
    ("rules", "error", "expected"),
    [
        ({"retry_on": ("ValueError",)}, ValueError("no"), ErrorClass.RETRYABLE),
        ({"retry_on": ("ValueError",)}, json.JSONDecodeError("no", "", 0), ErrorClass.RETRYABLE),
        ({"retry_on": ("json.decoder.JSONDecodeError",)}, json.JSONDecodeError("no", "", 0), ErrorClass.RETRYABLE),
        ({"retry_on": ("other.decoder.JSONDecodeError",)}, json.JSONDecodeError("no", "", 0), ErrorClass.UNKNOWN),
        ({"fatal": ("KeyError",)}, KeyError("no"), ErrorClass.FATAL),
        ({"fatal": ("KeyError",)}, RuntimeError("no"), ErrorClass.UNKNOWN),
        ({"fatal": ("OSError",)}, ConnectionError("gone"), ErrorClass.FATAL),
        ({"fatal": ("OSError",), "retry_on": ("ConnectionError",)}, ConnectionError("gone"), ErrorClass.RETRYABLE),
        ({"retry_on": ("PaymentError",), "fatal": ("CardExpired",)}, CardExpired("no"), ErrorClass.FATAL),
        ({"retry_on": ("CardExpired",), "fatal": ("PaymentError",)}, CardExpired("no"), ErrorClass.RETRYABLE),
        ({"retry_on": ("OSError",)}, DiskSpaceError("full"), ErrorClass.RETRYABLE),
        ({"retry_on": ("ApiError",)}, refused(404), ErrorClass.RETRYABLE),
        ({"retry_on": ("Fatal",)}, Fatal("no"), ErrorClass.FATAL),
        ({"fatal": ("Retry",)}, Retry(), ErrorClass.RETRYABLE),
        ({"retry_on": ("BadArguments",)}, BadArguments("no"), ErrorClass.FATAL),
    ],
)
def test_what_a_type_lists_goes_before_what_is_known_and_the_nearest_class_decides(rules, error, expected):
    """Spec: A5"""
    assert classify(error, **rules) is expected
    assert (judged(error, unknown_errors="fail", **rules).delay is not None) == (expected is ErrorClass.RETRYABLE)


@pytest.mark.parametrize(
    ("error", "errors", "expected"),
    [
        (BadArguments("no"), 0, Verdict(None, EndReason.ARGUMENTS)),
        (MemoryError("no"), 0, Verdict(60, EndReason.MEMORY)),
        (MemoryError("no"), 3, Verdict(None, EndReason.MEMORY)),
    ],
)
def test_an_error_whose_cause_is_known_says_so(error, errors, expected):
    """Spec: A5"""
    assert judged(error, errors) == expected


def test_a_missed_deadline_is_told_as_such_whether_or_not_it_is_retried():
    """Spec: A5"""
    rules = TaskType("any", retry=POLICY)
    ends = [verdict(rules, TimeoutError(), errors, 0.5, NOW, cause=EndReason.OVERDUE) for errors in (0, 3)]
    assert ends == [Verdict(60, EndReason.OVERDUE), Verdict(None, EndReason.OVERDUE)]
