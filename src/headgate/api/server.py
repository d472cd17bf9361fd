"""What every route works with: the store, and the threads that wait for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headgate.api.feed import Live
from headgate.api.keyring import Keyring
from headgate.api.newest import Newest
from headgate.api.polls import Polls
from headgate.api.roster import Roster
from headgate.api.submits import Submits
from headgate.api.tally import Tally
from headgate.api.visits import Visits
from headgate.outward.address import Allowed
from headgate.outward.sealing import Seals
from headgate.settings import Settings
from headgate.store.base import Store

T = TypeVar("T")
THREADS = 32


class Server:
    """One process that answers HTTP. `stopping` is set when it is to end: what waits for long gives up then."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.stopping = asyncio.Event()
        self.allowed = Allowed.read(settings.callback_allow)
        self.seals = Seals(settings.secrets)
        self.ready_until = 0.0  # what `/readyz` found holds for so long
        self.keyring = Keyring(store, self.aside)
        self.visits = Visits(store, settings, self.aside)
        self.submits = Submits(store, self.aside)
        self.roster = Roster(store, settings)
        self.polls = Polls(store, self.roster, self.aside, self.stopping)
        self.live = Live(store, self.aside, self.stopping)
        self.newest = Newest(store, self.aside)
        self.tally = Tally(store, self.live.feed.kinds)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="headgate api")

    async def aside(self, work: Callable[..., T], *arguments: Any) -> T:
        """A call to the store, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def close(self) -> None:
        self.live.close()
        await self.polls.close()
        await self.keyring.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
