"""What every route works with: the store, and the threads that wait for it."""

import asyncio
from collections.abc import Sequence
from functools import partial

from headgate.api.agents.cache import AgentCache
from headgate.api.agents.late_progress import LateProgress
from headgate.api.door.connections import ConnectionLimits, most_files
from headgate.api.door.keyring import Keyring
from headgate.api.door.sessions import Sessions
from headgate.api.door.shared_threads import SharedThreads
from headgate.api.door.shares import Shares
from headgate.api.live.polls import Polls
from headgate.api.recent import Recent
from headgate.api.routing import Route
from headgate.api.submits import MOST_BATCHES, Submits
from headgate.api.tally import Tally
from headgate.core.errors import Unavailable
from headgate.events.end_lines import EndLines
from headgate.events.live import LiveEvents
from headgate.outward.address import allowed_by
from headgate.outward.sealing import Seals
from headgate.pack import Pack, pack_fields
from headgate.settings import Settings
from headgate.store.reading.series import Point
from headgate.store.store import Store
from headgate.threads import Threads

THREADS = 32
OWN_THREADS = 8  # for what the server does by itself: readiness, events, polls; requests do not use them up
KEY_THREADS = 4  # for looking up keys and sessions: new requests do not wait for those being answered


def check_ready(store: Store) -> None:
    """`Unavailable` if the store cannot be written, or its schema is behind."""
    if missing := store.migration_plan():
        raise Unavailable(f"the store's schema is {len(missing)} steps behind: run `headgate migrate`")
    store.check_writable()


class Server:
    """One process that answers HTTP. `stopping` is set when it is to end: what waits for long gives up then."""

    def __init__(self, store: Store, settings: Settings, packs: Sequence[Pack], routes: Sequence[Route]) -> None:
        self.store = store
        self.settings = settings
        self.packs = packs
        self.routes = routes
        self.stopping = asyncio.Event()
        self.allowed = allowed_by(settings, by_tenant=False)
        self.allowed_to_tenants = allowed_by(settings, by_tenant=True)
        self.seals = Seals(settings.secrets)
        self.shares = Shares(settings, ConnectionLimits.of(settings, most_files()).total)
        self._threads = Threads("headgate api", THREADS)  # for requests
        self._own_threads = Threads("headgate server", OWN_THREADS)
        self._submit_threads = Threads("headgate submits", MOST_BATCHES)  # kept for submits
        self._key_threads = Threads("headgate keys", KEY_THREADS)
        self.in_thread = SharedThreads(self._threads)  # calls to the store for a request
        self.keyring = Keyring(store, self._key_threads, self._own_threads)
        self.sessions = Sessions(store, settings, self._key_threads, self._own_threads)
        self.submits = Submits(store, self._submit_threads, self.in_thread)
        self.agent_cache = AgentCache(store, settings)
        self.late_progress = LateProgress(store, self.in_thread)
        self.polls = Polls(store, self.agent_cache, self._own_threads, self.stopping)
        self.live_events = LiveEvents(
            store, self._own_threads, self.stopping, partial(pack_fields, packs), for_clients=self.in_thread
        )
        self.latest_point: Recent[None, Point | None] = Recent(lambda _: store.series.newest(), self._own_threads, 1.0)
        self.ready: Recent[None, None] = Recent(lambda _: check_ready(store), self._own_threads, 1.0)
        self.end_lines = EndLines()
        store.families.on_end = self.end_lines.parent_ended
        self.tally = Tally(store, self.live_events.feed.task_infos)

    async def close(self) -> None:
        self.end_lines.close()
        self.live_events.close()
        await self.polls.close()
        await self.late_progress.close()
        await self.keyring.close()
        await self.sessions.close()
        for threads in (self._threads, self._own_threads, self._submit_threads, self._key_threads):
            threads.close(wait=False)
