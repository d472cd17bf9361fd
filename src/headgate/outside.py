"""What comes from outside and is never twice the same: the clocks, chance, fresh ids. A simulation brings its own."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Outside:
    """Where everything comes from."""

    now: Callable[[], datetime]  # the wall clock, in UTC
    monotonic: Callable[[], float]
    draw: Callable[[], float]
    noise: Callable[[int], bytes]


_outside = Outside(lambda: datetime.now(UTC), time.monotonic, random.random, os.urandom)


@contextmanager
def replaced(outside: Outside) -> Iterator[None]:
    """Take everything from there for a while, in the whole process."""
    global _outside
    before, _outside = _outside, outside
    try:
        yield
    finally:
        _outside = before


def utc_now() -> datetime:
    """The wall clock."""
    return _outside.now()


def monotonic() -> float:
    """Seconds, by a clock that is never set."""
    return _outside.monotonic()


def draw() -> float:
    """A number in [0, 1)."""
    return _outside.draw()


def noise(count: int) -> bytes:
    """So many bytes that nobody can guess."""
    return _outside.noise(count)


def rising_id() -> str:
    """A fresh UUID (version 7): those of later milliseconds sort behind it, and lie beside it in an index."""
    milliseconds = f"{int(utc_now().timestamp() * 1000):012x}"
    noise = _outside.noise(10).hex()
    variant = "89ab"[int(noise[3], 16) & 3]
    return f"{milliseconds[:8]}-{milliseconds[8:]}-7{noise[:3]}-{variant}{noise[4:7]}-{noise[7:19]}"


def new_ids(count: int) -> list[str]:
    """Fresh random UUIDs (version 4), as text; one call to the system for all of them."""
    noise = _outside.noise(16 * count).hex()
    return [
        f"{n[:8]}-{n[8:12]}-4{n[13:16]}-{'89ab'[int(n[16], 16) & 3]}{n[17:20]}-{n[20:]}"
        for n in (noise[start : start + 32] for start in range(0, 32 * count, 32))
    ]
