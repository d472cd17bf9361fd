"""Callbacks (B6): who is told how a task ended, in which words, and what an answer means."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NotRequired, TypedDict

from headgate.core.retry import parse_retry_after
from headgate.core.task import clip

MAX_ATTEMPTS = 20  # attempts made automatically; a redelivery by a person gets as many again
FIRST_DELAY_SECONDS = 5.0
LONGEST_DELAY_SECONDS = 3 * 3600.0
LONGEST_RETRY_AFTER_SECONDS = 24 * 3600.0  # the longest Retry-After that is granted
MAX_BODY_BYTES = 1024  # of an answer that is kept
GONE = 410
BLOCKED_SECONDS = 60.0  # between two looks at a receiver that the policy does not allow
SETTING = "HEADGATE_CALLBACK_ALLOW"  # is the policy
SENDER_SILENT_SECONDS = 60.0  # without a sign of life for longer, no sender is taken to be running


class CallbackKind(StrEnum):
    """Which of a type's two callbacks: how a task ended decides."""

    SUCCESS = "success"
    ERROR = "error"


class CallbackTarget(TypedDict):
    """Where a callback goes."""

    url: str
    method: NotRequired[Literal["POST", "PUT"]]


class Security(TypedDict):
    """How callbacks are signed: not at all, or with a key and its secret."""

    type: Literal["none", "aksk"]
    ak: NotRequired[str]
    sk: NotRequired[str]


class Callback(TypedDict, total=False):
    """Who is told how a task ended."""

    success: CallbackTarget
    error: CallbackTarget
    security: Security


class Delivery(StrEnum):
    """What has become of a callback."""

    PENDING = "pending"  # is being sent, or will be (again)
    BLOCKED = "blocked"  # pending, and the policy does not allow its receiver; sent by itself once it does
    DELIVERED = "delivered"
    UNDELIVERABLE = "undeliverable"  # tried often enough, or told to stop: a person sends it again, or lets it be
    DROPPED = "dropped"  # no longer wanted: the task was cancelled or resolved, or its type has no callback


@dataclass(frozen=True, slots=True)
class Hold:
    """Why nothing of a queue is sent `until` then: the policy blocks it, or its receiver rests."""

    host: str
    until: datetime
    blocked: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of sending a callback once: the answer's status, or why there was none."""

    status: int | None
    seconds: float
    error: str = ""
    body: str = ""  # what can be shown of the answer
    retry_after: float | None = None  # seconds that the receiver asks for
    refused: bool = False  # nothing was sent: the policy does not allow the receiver

    @property
    def arrived(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def receiver_failing(self) -> bool:
        """Whether the receiver cannot be reached or is failing: then other callbacks need not try it at once."""
        return self.status is None or self.status >= 500 or self.status == 429


def attempt_of(status: int, seconds: float, body: bytes, retry_after: str | None, now: datetime) -> Attempt:
    """An attempt that got an answer, whatever it was."""
    requested_seconds = None if retry_after is None else parse_retry_after(retry_after, now)
    error = "redirects are not followed" if 300 <= status < 400 else ""
    return Attempt(status, seconds, error, body_text(body), requested_seconds)


def delivery_after(attempt: Attempt, attempts: int, draw: float) -> tuple[Delivery, float]:
    """What a callback is after attempt number `attempts`, and the seconds until the next one if it is pending."""
    if attempt.arrived:
        return Delivery.DELIVERED, 0.0
    if attempt.refused:
        return Delivery.PENDING, BLOCKED_SECONDS
    if attempt.status == GONE or attempts >= MAX_ATTEMPTS:
        return Delivery.UNDELIVERABLE, 0.0
    requested_seconds = min(attempt.retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS)
    return Delivery.PENDING, max(retry_delay(attempts, draw), requested_seconds)


def retry_delay(attempts: int, draw: float) -> float:
    """Seconds until the next attempt: random, with a bound that doubles each time, so that attempts spread out."""
    return draw * min(FIRST_DELAY_SECONDS * 2.0 ** min(attempts - 1, 64), LONGEST_DELAY_SECONDS)


def even_shares(places: int, among: int) -> list[int]:
    """How many of the places each gets, the first ones one more if need be; without those who get none."""
    return [places // among + (number < places % among) for number in range(min(among, places))]


def in_turn(tenants: Iterable[int], last: int | None) -> list[int]:
    """The tenants in the order of their turns, beginning after the last one that was served."""
    return sorted(tenants, key=lambda tenant: (last is not None and tenant <= last, tenant))


def last_served(served: Iterable[int]) -> int:
    """Whose turn was the last, of tenants named in turn once for each place they got: the next begins behind it.

    It is the last that got the most, so that what cannot be shared evenly goes to others the next time.
    """
    places = Counter(served)
    most = max(places.values())
    return [tenant for tenant, count in places.items() if count == most][-1]


def success_body(ext: str, result: str | None) -> bytes:
    """The body of a success callback, in the task server's fields; JSON text of the store is passed on as it is."""
    return f'{{"ext":{ext},"result":{"null" if result is None else result}}}'.encode()


def error_body(task_id: int, error_info: str | None, ext: str) -> bytes:
    """The body of an error callback, in the task server's fields."""
    return f'{{"task_id":{task_id},"error_info":{json.dumps(error_info, ensure_ascii=False)},"ext":{ext}}}'.encode()


def body_text(body: bytes) -> str:
    """The first KiB of an answer, with everything that is not printable replaced."""
    text = body[: 4 * MAX_BODY_BYTES].decode("utf-8", "replace")
    printable = "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return clip(printable, MAX_BODY_BYTES)
