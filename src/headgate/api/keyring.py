"""The keys as this process knows them: two seconds old at most."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from headgate.core.errors import HeadgateError
from headgate.core.keys import Key
from headgate.environment import monotonic
from headgate.store.store import Store

FRESH_SECONDS = 2.0
NOTE_SECONDS = 60.0
MOST_KNOWN = 10_000
log = logging.getLogger("headgate.api")
InThread = Callable[..., Awaitable[Any]]


class Keyring:
    """Looks keys up, and notes once a minute which were used."""

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._store = store
        self._in_thread = in_thread
        self._known: dict[int, tuple[Key | None, float]] = {}
        self._exist = False
        self._none_until = -1e18
        self._noted: dict[int, float] = {}
        self._notes: set[asyncio.Task[None]] = set()

    async def exist(self) -> bool:
        """Whether there ever was a key: from then on there is no way in without one."""
        if not self._exist and monotonic() >= self._none_until:
            if await self._in_thread(self._store.keys.exist):  # never back to none: one may have been made meanwhile
                self._exist = True
            self._none_until = monotonic() + FRESH_SECONDS
        return self._exist

    async def get(self, key_id: int, *, only_known: bool = False) -> Key | None:
        """A key, alive or not; `only_known`: without asking the store for one that was not used lately."""
        key, until = self._known.get(key_id, (None, -1e18))
        if monotonic() < until or (only_known and key is None):
            return key
        found: Key | None = await self._in_thread(self._store.keys.get, key_id)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[key_id] = found, monotonic() + FRESH_SECONDS
        return found

    def forget(self) -> None:
        """Look again at the next request: a key was made, or ended, here."""
        self._known = {key_id: (key, -1e18) for key_id, (key, _) in self._known.items()}
        self._none_until = -1e18

    def note_use(self, key: Key) -> None:
        """The key was used; the store hears of it once a minute."""
        now = monotonic()
        if now < self._noted.get(key.id, -1e18):
            return
        self._noted[key.id] = now + NOTE_SECONDS
        note = asyncio.create_task(self._note(key.id), name="headgate key used")
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def _note(self, key_id: int) -> None:
        try:
            await self._in_thread(self._store.keys.note_use, [key_id])
        except HeadgateError as error:
            log.warning("the use of key %d was not noted: %s", key_id, error)

    async def close(self) -> None:
        """Once the last use is noted."""
        if self._notes:
            await asyncio.wait(self._notes)
