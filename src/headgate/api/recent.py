"""What the store said a moment ago: it is asked once for everybody who wants to know."""

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from headgate.core.errors import HeadgateError
from headgate.environment import monotonic
from headgate.threads import InThread

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
NEVER = -1e18
NOTE_SECONDS = 60.0
MOST_KNOWN = 10_000
log = logging.getLogger("headgate.api")


class Recent(Generic[K, V]):
    """Answers of the store by what was asked for, each good for some seconds."""

    def __init__(self, look_up: Callable[[K], V], in_thread: InThread, seconds: float) -> None:
        self._look_up = look_up
        self._in_thread = in_thread
        self._seconds = seconds
        self._known: dict[K, tuple[V | None, float]] = {}
        self._looks: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, *, only_known: bool = False) -> V | None:
        """What the store has; `only_known`: without asking it for what it did not have lately."""
        value, until = self._known.get(key, (None, NEVER))
        if monotonic() < until or (only_known and value is None):
            return value
        look = self._looks.get(key)
        if look is None:
            look = self._looks[key] = asyncio.create_task(self._look(key))
        return await asyncio.shield(look)  # a caller that goes away does not cancel it for the others

    async def _look(self, key: K) -> V:
        this = asyncio.current_task()
        try:
            found: V = await self._in_thread(self._look_up, key)
            if self._looks.get(key) is this:  # else it began before something changed
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = found, monotonic() + self._seconds
            return found
        finally:
            if self._looks.get(key) is this:
                del self._looks[key]

    def forget(self) -> None:
        """Ask again for everything: something was changed here."""
        self._known = {key: (value, NEVER) for key, (value, _) in self._known.items()}
        self._looks.clear()

    def drop(self, key: K) -> None:
        """It is gone."""
        self._known.pop(key, None)
        self._looks.pop(key, None)


class Uses(Generic[K]):
    """Notes what was used: each is written once a minute, and no request waits for that."""

    def __init__(self, note: Callable[[K], Any], in_thread: InThread) -> None:
        self._note = note
        self._in_thread = in_thread
        self._noted: dict[K, float] = {}
        self._notes: set[asyncio.Task[None]] = set()

    def add(self, key: K) -> None:
        now = monotonic()
        if now < self._noted.get(key, NEVER):
            return
        if len(self._noted) >= MOST_KNOWN:
            self._noted.clear()
        self._noted[key] = now + NOTE_SECONDS
        note = asyncio.create_task(self._tell(key), name="headgate use noted")
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def _tell(self, key: K) -> None:
        try:
            await self._in_thread(self._note, key)
        except HeadgateError as error:
            log.warning("use of a key or session was not recorded: error=%s", error)

    async def close(self) -> None:
        """Once the last use is noted."""
        if self._notes:
            await asyncio.wait(self._notes)
