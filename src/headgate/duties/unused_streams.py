"""Removes streams that nothing has used for a while, and then lanes and resources, so that no list only grows."""

from collections.abc import Mapping

from headgate.core.states import State
from headgate.duties.duty import Duty
from headgate.settings import Settings
from headgate.store.catalog.unused_names import UnusedName
from headgate.store.store import Store
from headgate.threads import InThread


class RemoveUnusedStreams(Duty):
    """Removes streams that it has seen unused for `unused_seconds`, and repairs tasks that came into one meanwhile.

    A page a turn; 0 at the end of the round, when lanes and resources that nobody set have their turn. What is
    remembered here is lost with the process: then it takes longer.
    """

    name = "streams"
    pause = 30.0
    pause_after_work = 0.1
    page = 500
    names_page = 5000
    unused_seconds = 3600.0

    def __init__(self, store: Store, settings: Settings, in_thread: InThread) -> None:
        super().__init__(store, settings, in_thread)
        self._after = 0
        self._places: Mapping[State, int] = {}
        self._unused_since: dict[int, float] = {}
        self._names_since: dict[UnusedName, float] = {}

    async def turn(self) -> int:
        self._places = await self._in_thread(self._store.streams.repair, self._places, limit=self.page)
        ids, unused = await self._in_thread(self._store.streams.unused, after=self._after, limit=self.page)
        since, now = self._unused_since, self.monotonic()
        for stream_id in ids:
            if stream_id not in unused:
                since.pop(stream_id, None)
        for stream_id in unused:
            since.setdefault(stream_id, now)
        if old := [stream_id for stream_id in unused if now - since[stream_id] >= self.unused_seconds]:
            await self._in_thread(self._store.streams.remove, old)
            for stream_id in old:
                del since[stream_id]
        self._after = max(ids) if len(ids) == self.page else 0
        if not self._after:
            await self._remove_names()
        return self.page if self._after or self._places else 0

    async def _remove_names(self) -> None:
        names = self._store.unused_names
        now, unused = self.monotonic(), await self._in_thread(names.find)
        self._names_since = {name: self._names_since.get(name, now) for name in unused}
        old = [name for name, since in self._names_since.items() if now - since >= self.unused_seconds]
        for first in range(0, len(old), self.names_page):
            await self._in_thread(names.remove, old[first : first + self.names_page])
