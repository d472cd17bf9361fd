"""Error classes and delays: whether a failure runs again, and when."""

import errno
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from headgate.core.end_reasons import EndReason
from headgate.core.errors import BadArguments, Invalid

MAX_DELAY_SECONDS = 366 * 24 * 3600.0


class Strategy(StrEnum):
    NONE = "none"
    FIXED = "fixed_period"
    SEQUENCE = "sequence"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a task runs again, and after which delays; failure number `retries` + 1 ends it."""

    strategy: Strategy = Strategy.NONE
    retries: int = 0
    interval: float = 0.0
    sequence: tuple[float, ...] = ()
    initial: float = 5.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        if self.strategy is Strategy.NONE and self.retries != 0:
            raise Invalid("retry strategy 'none' needs max_error_count 0")
        if self.strategy is not Strategy.NONE and self.retries <= 0:
            raise Invalid(f"retry strategy '{self.strategy}' needs max_error_count above 0")
        if self.strategy is Strategy.SEQUENCE and not self.sequence:
            raise Invalid("retry strategy 'sequence' needs at least one delay")
        if not all(delay >= 0 for delay in (self.interval, self.initial, self.cap, *self.sequence)):
            raise Invalid("a retry delay must be at least 0")
        if not 0 <= self.jitter <= 1 or not self.factor >= 1:
            raise Invalid("jitter must be between 0 and 1, factor at least 1")


never = RetryPolicy()


def fixed(interval: float, *, retries: int) -> RetryPolicy:
    """The same delay each time."""
    return RetryPolicy(Strategy.FIXED, retries, interval=interval)


def sequence(delays: Sequence[float], *, retries: int | None = None) -> RetryPolicy:
    """One delay after the other; the last one repeats."""
    return RetryPolicy(Strategy.SEQUENCE, len(delays) if retries is None else retries, sequence=tuple(delays))


def exponential(
    initial: float = 5.0, *, factor: float = 2.0, cap: float = 3600.0, jitter: float = 0.1, retries: int = 4
) -> RetryPolicy:
    """`initial`, then `factor` times as long each time, `cap` at most, give or take the share `jitter`."""
    return RetryPolicy(Strategy.EXPONENTIAL, retries, initial=initial, factor=factor, cap=cap, jitter=jitter)


def calculate_retry_delay(attempt: int, base: float = 60, factor: float = 2.0, cap: float = 300) -> float:
    """Seconds before try `attempt` + 1: `factor` times as long each time, from `base` to `cap`."""
    try:
        return min(base * factor**attempt, cap)
    except OverflowError:
        return cap if base else 0.0


def next_delay(
    policy: RetryPolicy, error_count: int, draw: float, retry_after: float | None = None, retries: int | None = None
) -> float | None:
    """Seconds until the next try of a task that had failed `error_count` times before this failure; None: no more.

    `draw` in [0, 1) decides the jitter; `retry_after` is what the other side asked for and is never undercut;
    `retries` is the task's own number in place of the policy's.
    """
    if error_count >= (policy.retries if retries is None else retries):
        return None
    match policy.strategy:
        case Strategy.NONE:
            delay = 0.0
        case Strategy.FIXED:
            delay = policy.interval
        case Strategy.SEQUENCE:
            delay = policy.sequence[min(error_count, len(policy.sequence) - 1)]
        case Strategy.EXPONENTIAL:
            delay = calculate_retry_delay(error_count, policy.initial, policy.factor, policy.cap)
            delay = min(delay * (1 + policy.jitter * (2 * draw - 1)), policy.cap)
    return min(max(delay, retry_after or 0.0, 0.0), MAX_DELAY_SECONDS)


class ErrorClass(StrEnum):
    RETRYABLE = "retryable"
    FATAL = "fatal"
    UNKNOWN = "unknown"


class Retry(Exception):
    """Raised by a handler: run me again, after `delay` seconds if given, else as the type's policy says."""

    def __init__(self, message: str = "asked to run again", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Fatal(Exception):
    """Raised by a handler: running again will not help."""


class DiskSpaceError(OSError):
    """No room on the disk: running again will not help until a person makes some."""


_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_RETRYABLE_STATUS = frozenset({429, 503})
_FATAL_STATUS = frozenset({400, 401, 403, 404})
_NOT_VALID = frozenset({"ValidationError"})
_NO_CONNECTION = frozenset(
    {
        "TimeoutError", "ConnectionError",  # urllib3, redis
        "TimeoutException", "NetworkError",  # httpx
        "ClientConnectionError",  # aiohttp
        "TimeoutExpired",  # subprocess
    }
)  # fmt: skip


def error_names(error: type[BaseException]) -> tuple[str, ...]:
    """The names under which a type may list an error: its class and its base classes, nearest first."""
    return tuple(name for base in error.__mro__ if base is not object for name in (class_name(base), base.__name__))


def class_name(error: type[BaseException]) -> str:
    """`module.Name` of an error class; the name alone if no other process would know it by its module."""
    if error.__module__ == "builtins" or error.__module__.startswith("__") or "<" in error.__qualname__:
        return error.__name__
    return f"{error.__module__}.{error.__qualname__}"


def listed_class(names: Iterable[str], retry_on: Collection[str], fatal: Collection[str]) -> ErrorClass | None:
    """How a type classes an error with these names; the first name that it lists decides."""
    for name in names:
        if name in fatal:
            return ErrorClass.FATAL
        if name in retry_on:
            return ErrorClass.RETRYABLE
    return None


def classify(error: BaseException, retry_on: Collection[str] = (), fatal: Collection[str] = ()) -> ErrorClass:
    """Whether running again may help; the type's own lists come before the general rules."""
    if isinstance(error, Retry):
        return ErrorClass.RETRYABLE
    if isinstance(error, Fatal | BadArguments):
        return ErrorClass.FATAL
    if (listed := listed_class(error_names(type(error)), retry_on, fatal)) is not None:
        return listed
    if isinstance(error, DiskSpaceError):
        return ErrorClass.FATAL
    marked = getattr(error, "retryable", None)
    if isinstance(marked, bool):
        return ErrorClass.RETRYABLE if marked else ErrorClass.FATAL
    status = http_status(error)
    if status in _RETRYABLE_STATUS:
        return ErrorClass.RETRYABLE
    if status in _FATAL_STATUS:
        return ErrorClass.FATAL
    if isinstance(error, OSError):  # TimeoutError and ConnectionError are OSErrors
        hopeless = isinstance(error, PermissionError) or error.errno in _DISK_FULL
        return ErrorClass.FATAL if hopeless else ErrorClass.RETRYABLE
    if _is_called(error, _NO_CONNECTION):
        return ErrorClass.RETRYABLE
    if type(error) is ValueError or isinstance(error, Invalid) or _is_called(error, _NOT_VALID):
        return ErrorClass.FATAL
    return ErrorClass.UNKNOWN


def _is_called(error: BaseException, names: frozenset[str]) -> bool:
    """Whether one of its classes has such a name: not every library derives its errors from Python's own."""
    return any(base.__name__ in names for base in type(error).__mro__)


def http_status(error: BaseException) -> int | None:
    """The HTTP status an error carries, as the usual clients attach it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return int(value)
    return None


def retry_after(error: BaseException, now: datetime) -> float | None:
    """Seconds the other side asked us to wait, by a Retry-After header in seconds or as a date."""
    for holder in (error, getattr(error, "response", None)):
        headers = getattr(holder, "headers", None)
        if headers is not None and hasattr(headers, "get"):
            seconds = parse_retry_after(str(headers.get("Retry-After") or headers.get("retry-after") or ""), now)
            if seconds is not None:
                return seconds
    return None


def parse_retry_after(header: str, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for; None if it cannot be understood."""
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        return max((parsedate_to_datetime(header) - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):  # not a date, or one out of range
        return None


class RetryRules(Protocol):
    """What a type says of retries; a `TaskType` serves."""

    @property
    def retry(self) -> RetryPolicy: ...
    @property
    def unknown_errors(self) -> str: ...
    @property
    def retry_on(self) -> tuple[str, ...]: ...
    @property
    def fatal(self) -> tuple[str, ...]: ...


class Verdict(NamedTuple):
    """What a failure leads to: seconds until the next try, None when it was the last; and why."""

    delay: float | None
    reason: EndReason


def verdict(
    rules: RetryRules,
    error: BaseException,
    error_count: int,
    draw: float,
    now: datetime,
    retries: int | None = None,
    cause: EndReason | None = None,
) -> Verdict:
    """What `error` leads to; `cause` is why it happened, if that is better known than from the error itself."""
    error_class = classify(error, rules.retry_on, rules.fatal)
    judged = judge(rules, error_class, error_count, draw, retry_after(error, now), retries, cause or _cause_of(error))
    if isinstance(error, Retry) and error.delay is not None and judged.delay is not None:
        return judged._replace(delay=min(max(0.0, error.delay), MAX_DELAY_SECONDS))  # in this order a NaN is 0
    return judged


def judge(
    rules: RetryRules,
    error_class: ErrorClass,
    error_count: int,
    draw: float,
    retry_after: float | None = None,
    retries: int | None = None,
    cause: EndReason | None = None,
) -> Verdict:
    """What a failure of this class leads to."""
    if error_class is ErrorClass.FATAL:
        return Verdict(None, cause or EndReason.FATAL)
    if error_class is ErrorClass.UNKNOWN and rules.unknown_errors == "fail":
        return Verdict(None, cause or EndReason.UNKNOWN)
    delay = next_delay(rules.retry, error_count, draw, retry_after, retries)
    return Verdict(delay, cause or (EndReason.EXHAUSTED if delay is None else EndReason.ERROR))


def _cause_of(error: BaseException) -> EndReason | None:
    if isinstance(error, BadArguments):
        return EndReason.ARGUMENTS
    return EndReason.MEMORY if isinstance(error, MemoryError) else None
