"""What every route works with: the store, and the threads that wait for it."""

import asyncio
from collections.abc import Sequence
from functools import partial

from headgate.api.agents.cache import AgentCache
from headgate.api.agents.late_progress import LateProgress
from headgate.api.door.keyring import Keyring
from headgate.api.door.sessions import Sessions
from headgate.api.live.polls import Polls
from headgate.api.recent import Recent
from headgate.api.routing import Route
from headgate.api.submits import Submits
from headgate.api.tally import Tally
from headgate.core.errors import Unavailable
from headgate.events.end_lines import EndLines
from headgate.events.live import LiveEvents
from headgate.outward.address import Allowed
from headgate.outward.sealing import Seals
from headgate.pack import Pack, pack_fields
from headgate.settings import Settings
from headgate.store.reading.series import Point
from headgate.store.store import Store
from headgate.threads import Threads

THREADS = 32


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
        self.allowed = Allowed.parse(settings.callback_allow)
        self.seals = Seals(settings.secrets)
        self.in_thread = Threads("headgate api", THREADS)  # calls to the store
        self.keyring = Keyring(store, self.in_thread)
        self.sessions = Sessions(store, settings, self.in_thread)
        self.submits = Submits(store, self.in_thread)
        self.agent_cache = AgentCache(store, settings)
        self.late_progress = LateProgress(store, self.in_thread)
        self.polls = Polls(store, self.agent_cache, self.in_thread, self.stopping)
        self.live_events = LiveEvents(store, self.in_thread, self.stopping, partial(pack_fields, packs))
        self.latest_point: Recent[None, Point | None] = Recent(lambda _: store.series.newest(), self.in_thread, 1.0)
        self.ready: Recent[None, None] = Recent(lambda _: check_ready(store), self.in_thread, 1.0)
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
        self.in_thread.close(wait=False)
