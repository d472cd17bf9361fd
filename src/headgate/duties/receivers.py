"""Receivers, as one process knows them: how many requests each has under way, and which are left alone for a while.

Nothing here decides whether a callback is delivered; a wrong memory costs only a little time.
"""

from collections import defaultdict
from typing import NamedTuple

from headgate.core.callbacks import BLOCKED_SECONDS, Attempt
from headgate.pauses import Backoff

TROUBLES_BEFORE_REST = 5  # in a row, before a receiver is left alone
REST = Backoff(5.0, 300.0, jitter=0.5)
FREE_DIVISOR = 8  # of the places that are free, one receiver gets an eighth
RESERVED_DIVISOR = 4  # and a quarter of all places is for those that answered the last time, however many others hang
MOST_HEALTHY = 10_000


class Rest(NamedTuple):
    """A receiver is left alone until then, because of what came of the last request, or because it is not allowed."""

    until: float
    blocked: bool
    reason: str


class Receiver:
    """One receiver. After some troubles in a row it rests; then one request at a time tests whether it has recovered.

    One that is not allowed rests at once.
    """

    def __init__(self) -> None:
        self.under_way = 0
        self._troubles = 0
        self._rests = 0
        self.rests_until = 0.0
        self._is_blocked = False
        self._reason = ""

    @property
    def is_shut(self) -> bool:
        return self._troubles >= TROUBLES_BEFORE_REST

    @property
    def is_forgettable(self) -> bool:
        return not self.under_way and not self._troubles

    def room(self, most: int, now: float) -> int:
        """How many more requests it may have."""
        if not self.is_shut:
            return most - self.under_way
        return 1 - self.under_way if now >= self.rests_until else 0

    def rest(self, now: float) -> Rest | None:
        """Why and until when it is left alone; None if it is not."""
        if not self.is_shut or self.rests_until <= now:
            return None
        return Rest(self.rests_until, self._is_blocked, self._reason)

    def ended(self, attempt: Attempt | None, now: float) -> None:
        """A request is over; None: its result tells nothing about the receiver."""
        self.under_way -= 1
        if attempt is None or not attempt.receiver_failing:
            self._troubles = self._rests = 0
            return
        self._is_blocked = attempt.refused
        self._reason = attempt.error or f"status {attempt.status}"
        if attempt.refused:
            self._troubles, self.rests_until = TROUBLES_BEFORE_REST, now + BLOCKED_SECONDS
            return
        self._troubles += 1
        if self.is_shut and now >= self.rests_until:  # requests under way when the rest began tell nothing new
            self.rests_until = now + REST.pause(self._rests)
            self._rests += 1


class Receivers:
    """Every receiver that something is under way to, or that is in trouble."""

    def __init__(self, per_receiver: int, places: int) -> None:
        self._per_receiver = per_receiver
        self._places = places
        self._receivers: defaultdict[str, Receiver] = defaultdict(Receiver)
        self._healthy: dict[str, None] = {}  # those that answered the last time, the latest last
        self.under_way = 0

    @property
    def free(self) -> int:
        return self._places - self.under_way

    def room(self, name: str, now: float, free: int) -> int:
        """How many more requests this process may send there now, out of `free` places for all receivers."""
        receiver = self._receivers.get(name)
        left = self._per_receiver if receiver is None else receiver.room(self._per_receiver, now)
        if name not in self._healthy:
            free -= self._places // RESERVED_DIVISOR
        return max(0, min(left, max(free // FREE_DIVISOR, 1), free))

    def rest(self, name: str, now: float) -> Rest | None:
        """Why and until when a receiver is left alone; None if it is not."""
        receiver = self._receivers.get(name)
        return None if receiver is None else receiver.rest(now)

    def is_healthy(self, name: str) -> bool:
        """Whether a receiver answered the last time."""
        return name in self._healthy

    def begin(self, name: str) -> None:
        self._receivers[name].under_way += 1
        self.under_way += 1

    def end(self, name: str, attempt: Attempt | None, now: float) -> None:
        self.under_way -= 1
        self._healthy.pop(name, None)
        if attempt is None or not attempt.receiver_failing:
            self._healthy[name] = None
            if len(self._healthy) > MOST_HEALTHY:
                del self._healthy[next(iter(self._healthy))]
        receiver = self._receivers[name]
        receiver.ended(attempt, now)
        if receiver.is_forgettable:
            del self._receivers[name]
