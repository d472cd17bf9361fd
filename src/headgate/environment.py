"""Sources of nondeterminism: the clocks, random numbers, fresh ids. A simulation brings its own."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Environment:
    """Where everything comes from."""

    now: Callable[[], datetime]  # the wall clock, in UTC
    monotonic: Callable[[], float]
    random_number: Callable[[], float]
    random_bytes: Callable[[int], bytes]


_environment = Environment(lambda: datetime.now(UTC), time.monotonic, random.random, os.urandom)


@contextmanager
def replaced(environment: Environment) -> Iterator[None]:
    """Take everything from there for a while, in the whole process."""
    global _environment
    before, _environment = _environment, environment
    try:
        yield
    finally:
        _environment = before


def utc_now() -> datetime:
    """The wall clock."""
    return _environment.now()


def monotonic() -> float:
    """Seconds, by a clock that is never set."""
    return _environment.monotonic()


def random_number() -> float:
    """A number in [0, 1)."""
    return _environment.random_number()


def random_bytes(count: int) -> bytes:
    """`count` bytes that cannot be guessed."""
    return _environment.random_bytes(count)


def new_uuid7() -> str:
    """A fresh UUID (version 7): those of later milliseconds sort behind it, and lie beside it in an index."""
    milliseconds = f"{int(utc_now().timestamp() * 1000):012x}"
    digits = _environment.random_bytes(10).hex()
    variant = "89ab"[int(digits[3], 16) & 3]
    return f"{milliseconds[:8]}-{milliseconds[8:]}-7{digits[:3]}-{variant}{digits[4:7]}-{digits[7:19]}"


def new_ids(count: int) -> list[str]:
    """Fresh random UUIDs (version 4), as text; one call to the system for all of them."""
    digits = _environment.random_bytes(16 * count).hex()
    return [
        f"{n[:8]}-{n[8:12]}-4{n[13:16]}-{'89ab'[int(n[16], 16) & 3]}{n[17:20]}-{n[20:]}"
        for n in (digits[start : start + 32] for start in range(0, 32 * count, 32))
    ]
