"""Where clock and chance come from; nothing else asks for them."""

import os
import random
from datetime import UTC, datetime


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def draw() -> float:
    """A number in [0, 1)."""
    return random.random()


def new_ids(count: int) -> list[str]:
    """Fresh random UUIDs (version 4), as text; one call to the system for all of them."""
    noise = os.urandom(16 * count).hex()
    return [
        f"{n[:8]}-{n[8:12]}-4{n[13:16]}-{'89ab'[int(n[16], 16) & 3]}{n[17:20]}-{n[20:]}"
        for n in (noise[start : start + 32] for start in range(0, 32 * count, 32))
    ]
