"""What a claiming process remembers, so that no claim reads what others have left behind.

PostgreSQL keeps dead index entries as long as any transaction holds an old snapshot, and a claim that starts from the
front of the queue walks all of them. So a process remembers how far it has read in each stream, and which tasks ran in
each limited lane. It reads from the very start at most once a second, or where a wake-up names something lower. A wrong
memory costs a second, never a task. It also remembers which tenant's turn it is: that decides who goes first, and
nothing else.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.core.turns import Turn, Turns
from headgate.environment import random_number
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.contract import FIRST, ClaimRequest
from headgate.store.wakeup.message import News, Wakes

LOOK_AGAIN_SECONDS = 1.0
PAUSE_SECONDS = 10.0
MOST_REQUESTS = 1000

Places = dict[int | None, int]  # by tenant: the stream that was visited last; None: the tenant that was


@dataclass(slots=True)
class StreamCursor:
    """How far a stream has been read: everything up to `floor` is gone; `empty` if there was nothing behind it."""

    floor: tuple[int, int] = FIRST
    empty: bool = False
    from_start_at: float = -1e18
    shut_until: float = -1e18  # no token before then, or a pause
    woken: int = 0  # how often; what was read before the last time must not move the floor


@dataclass(frozen=True, slots=True)
class Holders:
    """Which tasks held a lane or a resource when it was last counted, and the newest claim among them.

    Claims of one limit are numbered while it is locked, so later claims have higher numbers. Only the claim that holds
    the lock may remember a count: a count made without it has no place in that order.
    """

    ids: tuple[int, ...] = ()
    newest: int = 0


class Cursors:
    """One process's cursors and holders; shared by its threads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.lock = threading.Lock()
        self.by_stream: dict[int, StreamCursor] = {}
        self._holders: dict[str, Holders] = {}
        self._counted_at: dict[str, float] = {}
        self.turns = Turns(random_number)
        self._served: dict[object, tuple[int, list[Stream]]] = {}
        self._places: dict[object, Places] = {}  # of each kind of request, or one could pass over what another visits
        self._shut_gates: dict[str, float] = {}  # until when
        self._surveyed_at = -1e18
        self._version = -1

    def served(self, catalog: Catalog, request: ClaimRequest) -> list[Stream]:
        """The streams a request is for, found once for each version of the catalog. The lock must be held."""
        if catalog.version != self._version:  # a bucket that was shut for an hour may be lifted
            self._version = catalog.version
            self._clear()
        key = (request.types, request.categories, request.tenant_id, request.agent_id, request.assigned)
        if len(self._served) > MOST_REQUESTS and key not in self._served:  # agents may ask for anything
            self._served.clear()
        version, streams = self._served.get(key, (-1, []))
        if version != catalog.version:
            streams = [stream for stream in catalog.streams.values() if request.serves(stream)]
            self._served[key] = catalog.version, streams
        return streams

    def open_streams(self, catalog: Catalog, request: ClaimRequest) -> list[Stream]:
        """The streams a request is for that are not known to be empty, or shut for a while."""
        now, held = self.monotonic(), catalog.held
        streams = []
        with self.lock:
            for stream in self.served(catalog, request):
                if stream.id in held:
                    continue
                cursor = self.by_stream.get(stream.id)
                if cursor is None:
                    cursor = self.by_stream[stream.id] = StreamCursor()
                if now - cursor.from_start_at >= LOOK_AGAIN_SECONDS:
                    cursor.floor, cursor.empty, cursor.from_start_at = FIRST, False, now
                if not cursor.empty and now >= cursor.shut_until:
                    streams.append(stream)
        return streams

    def survey_is_due(self) -> bool:
        with self.lock:
            return self.monotonic() - self._surveyed_at >= LOOK_AGAIN_SECONDS

    def begin_survey(self, catalog: Catalog) -> dict[int, int]:
        """How often each stream has been woken before its tasks are looked for."""
        with self.lock:
            for stream_id in catalog.streams.keys() - self.by_stream.keys():
                self.by_stream[stream_id] = StreamCursor()
            return {stream_id: cursor.woken for stream_id, cursor in self.by_stream.items()}

    def end_survey(self, queued: Collection[int], woken: Mapping[int, int]) -> None:
        """Read what has anything queued from its start; all else is empty, unless it was woken meanwhile."""
        now = self.monotonic()
        with self.lock:
            for stream_id, cursor in self.by_stream.items():
                cursor.floor, cursor.from_start_at = FIRST, now
                cursor.empty = stream_id not in queued and cursor.woken == woken.get(stream_id)
            self._surveyed_at = now

    def know_empty(self, stream_ids: Iterable[int]) -> None:
        """Pass over streams that have nothing queued, until they are woken."""
        with self.lock:
            for stream_id in stream_ids:
                if (cursor := self.by_stream.get(stream_id)) is not None:
                    cursor.empty = True

    def shut_for(self, seconds: Mapping[str, float]) -> None:
        """Know for the given seconds that these gates let nothing through."""
        now = self.monotonic()
        with self.lock:
            self._shut_gates |= {gate: now + left for gate, left in seconds.items()}

    def shut_gates(self) -> set[str]:
        """The gates that let nothing through now, as far as we remember."""
        now = self.monotonic()
        with self.lock:
            self._shut_gates = {gate: until for gate, until in self._shut_gates.items() if until > now}
            return set(self._shut_gates)

    def places(self, request: ClaimRequest) -> Places:
        """Where the last visit for such a request ended. The lock must be held."""
        key = (
            request.types, request.categories, request.tenant_id, request.creator, request.agent_id, request.assigned,
            request.ids is None,
        )  # fmt: skip
        if len(self._places) > MOST_REQUESTS and key not in self._places:
            self._places.clear()
        return self._places.setdefault(key, {})

    def next_token_in(self, catalog: Catalog, request: ClaimRequest) -> float | None:
        """Seconds until a stream that a request is for, and that may have something, has a token again."""
        if not catalog.rates and not catalog.pauses:
            return None
        now = self.monotonic()
        with self.lock:
            cursors = [self.by_stream.get(stream.id) for stream in self.served(catalog, request)]
        waits = [cursor.shut_until - now for cursor in cursors if cursor is not None and not cursor.empty]
        return min((wait for wait in waits if wait > 0), default=None)

    def shut(self, seconds: Mapping[int, float]) -> None:
        """Skip these streams for the given seconds, PAUSE_SECONDS at most: the database's clock may be set anew."""
        now = self.monotonic()
        with self.lock:
            for stream_id, left in seconds.items():
                if stream_id in self.by_stream:
                    self.by_stream[stream_id].shut_until = now + min(left, PAUSE_SECONDS)

    def holders(self, gate: str) -> Holders:
        """The tasks to check first when counting; once a second it is empty, so that the count starts afresh."""
        now = self.monotonic()
        with self.lock:
            if now - self._counted_at.get(gate, -1e18) >= LOOK_AGAIN_SECONDS:
                self._counted_at[gate] = now
                self._holders.pop(gate, None)
            return self._holders.get(gate, Holders())

    def remember(self, gate: str, claims: dict[int, int]) -> None:
        """Keep who holds a locked limit: ids, with the number of their claim."""
        with self.lock:
            newest = self._holders.get(gate, Holders()).newest
            self._holders[gate] = Holders(tuple(claims), max([newest, *claims.values()]))

    def started(self, gate: str, ids: Collection[int], claim_no: int) -> None:
        """Add what a committed claim started to a count that still stands; one that was dropped is not begun here."""
        with self.lock:
            known = self._holders.get(gate)
            if known is not None:
                self._holders[gate] = Holders((*known.ids, *ids), max(known.newest, claim_no))

    def use_turns(self, turns: Sequence[Turn]) -> None:
        """Count the turns of what has started."""
        if turns:
            with self.lock:
                self.turns.use(turns)

    def hear(self, news: News) -> None:
        """Look again wherever a commit made something claimable."""
        if news.missed:
            self.forget()
        self.woken(news.wakes)
        with self.lock:
            for gate in news.room:
                self._shut_gates.pop(gate, None)

    def woken(self, wakes: Wakes) -> None:
        """Something may be claimed again that lies before the floor."""
        with self.lock:
            for stream_id, (priority, task_id) in wakes.items():
                cursor = self.by_stream.get(stream_id)
                if cursor is not None:
                    cursor.empty = False
                    cursor.woken += 1
                    cursor.floor = min(cursor.floor, (priority, task_id - 1))

    def forget(self) -> None:
        """Look at everything from the start next time."""
        with self.lock:
            self._clear()

    def _clear(self) -> None:
        self.by_stream.clear()
        self._holders.clear()
        self._shut_gates.clear()
        self._surveyed_at = -1e18
