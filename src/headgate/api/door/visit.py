"""One request under way: what it uses of its key's and tenant's shares, and whether its client is there."""

import asyncio
from collections.abc import Hashable, Mapping
from contextvars import ContextVar
from typing import Any

from starlette.types import Receive

from headgate.api.door.principal import Principal
from headgate.api.door.shares import REFUSED_SECONDS, Kind, Shares, ShareUsedUp

HUNG_UP = "hung_up"  # in the state of a request: our own connections say there that their client is gone


class Visit:
    """Counts as a request of its key and tenant until it ends, unless it becomes a long poll or a stream."""

    __slots__ = ("_hung_up", "_kind", "_receive", "_shares", "_state", "accounts", "has_begun", "who")

    def __init__(self, shares: Shares, who: Principal, receive: Receive, state: Mapping[str, Any]) -> None:
        self.who = who
        self.accounts = shares.accounts(who)
        self.has_begun = False  # something in the store
        self._shares = shares
        self._receive = receive
        self._state = state  # of the request's scope
        self._hung_up: asyncio.Task[None] | None = None
        shares.take_token(self.accounts)
        shares.begin(self.accounts, "requests")
        self._kind: Kind = "requests"

    def become(self, kind: Kind) -> None:
        """Count as one of these from now on; `ShareUsedUp` if there are as many as there may be."""
        if kind != self._kind:
            self._shares.begin(self.accounts, kind)
            self._shares.end(self.accounts, self._kind)
            self._kind = kind

    @property
    def caller(self) -> Hashable:
        """On whose behalf the store is asked: all keys of a tenant are one caller. None without a key."""
        return self.accounts[-1] if self.accounts else None

    async def take_tokens_of_bulk(self, tasks: int) -> None:
        """Count so many tasks; `ShareUsedUp`, as late as at the door, if that is more than there may be now."""
        try:
            self._shares.take_tokens_of_bulk(self.accounts, tasks)
        except ShareUsedUp:
            await asyncio.sleep(REFUSED_SECONDS)
            raise

    @property
    def hung_up(self) -> "asyncio.Task[None]":
        """Done when the client is gone. It is watched from the first time that this is asked for, after the body."""
        if self._hung_up is None:
            self._hung_up = asyncio.create_task(hung_up(self._receive), name="headgate client hangs up")
        return self._hung_up

    @property
    def is_gone(self) -> bool:
        """Whether the client is known to have hung up. From any thread."""
        return HUNG_UP in self._state or (self._hung_up is not None and self._hung_up.done())

    async def wait_for_hang_up(self, seconds: float) -> bool:
        """Wait for some seconds; returns whether the client is gone."""
        await asyncio.wait([self.hung_up], timeout=seconds)
        return self.hung_up.done()

    def end(self) -> None:
        self._shares.end(self.accounts, self._kind)
        if self._hung_up is not None:
            self._hung_up.cancel()


current_visit: ContextVar[Visit | None] = ContextVar("current_visit", default=None)  # the request that code runs for


def this_visit() -> Visit:
    """The request that the caller runs for."""
    visit = current_visit.get()
    assert visit is not None, "only requests that came in by the gatekeeper wait"
    return visit


async def hung_up(receive: Receive) -> None:
    """Return when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
