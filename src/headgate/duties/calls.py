"""Calls of schedules to HTTP endpoints: each is made once at most, and its log says what came of it.

Each tenant has its share of what a process does at once, so that none waits for what another one calls.
"""

import asyncio
import logging
from functools import cached_property

from headgate.core.errors import Unavailable
from headgate.core.schedule import call_body
from headgate.duties.call_shares import CallShares
from headgate.duties.duty import Duty
from headgate.duties.standstill import Standstill
from headgate.environment import new_ids
from headgate.outward.address import allowed_by
from headgate.outward.client import HttpClient, NoReply, NotAllowed, OutwardClient, Resolver
from headgate.pauses import Backoff
from headgate.settings import Settings
from headgate.store.schedules.tick_runs import FIRST_TENANT, HttpCall
from headgate.store.store import Store
from headgate.threads import InThread

STOP_SECONDS = 20.0
AGAIN = Backoff(0.2, 5.0, jitter=0.5)
MOST_HOSTS = 32  # of one tenant that are looked at for calls, in a turn
MOST_LOOKUPS = 8  # of names of hosts at once, for one tenant: a lookup may hang longer than its call
NO_BODY = frozenset({"GET", "DELETE"})
log = logging.getLogger("headgate.calls")


class Calls(Duty):
    """Takes waiting calls, makes a limited number at a time, and records the result of each.

    The transaction that takes a call gives it to one caller. If the caller dies, the call's log ends as a failure,
    since it is unknown whether the call arrived; it is not repeated. A caller counts as gone when, by this process's
    own clock and over several looks, the call has not changed for `lease_seconds`.
    """

    name = "calls"
    at_once = 256
    lease_seconds = 60.0  # several times as long as the client gives a call
    watch_seconds = 5.0

    def __init__(
        self, store: Store, settings: Settings, in_thread: InThread, *, client: HttpClient | None = None
    ) -> None:
        super().__init__(store, settings, in_thread)
        self._schedules = store.schedules
        self._given_client = client
        self._clients: dict[tuple[int, bool], HttpClient] = {}
        self._resolvers: dict[int, Resolver] = {}
        self._allowed = {by_tenant: allowed_by(settings, by_tenant=by_tenant) for by_tenant in (False, True)}
        self._caller = new_ids(1)[0]
        self._under_way: dict[asyncio.Task[None], HttpCall] = {}
        self._last_tenant = FIRST_TENANT
        self._others: Standstill[tuple[int, str]] = Standstill()

    @cached_property
    def _shares(self) -> CallShares:
        return CallShares(self.at_once, self._settings.callback_concurrency)

    async def turn(self) -> int:
        given_up = await self._watch()
        calls = await self._take()
        for call in calls:
            making = asyncio.create_task(self._make(call, self.monotonic()))
            self._shares.begin(call.tenant_id, call.http.host)
            self._under_way[making] = call
            making.add_done_callback(self._ended)
        return given_up + len(calls)

    async def _take(self) -> list[HttpCall]:
        """As many calls of each tenant as it has room for; the first tenants and hosts are others in each turn."""
        if self._shares.free <= 0:
            return []
        waiting = await self._in_thread(
            self._schedules.waiting_calls,
            self._last_tenant,
            tenants=self._shares.free,
            hosts=MOST_HOSTS,
            last_hosts=self._shares.last_hosts,
        )
        if not (shares := self._shares.choose(waiting)):
            return []
        self._last_tenant = shares[-1].tenant_id
        return await self._in_thread(self._schedules.take_calls, self._caller, shares)

    def _ended(self, making: "asyncio.Task[None]") -> None:
        call = self._under_way.pop(making)
        self._shares.end(call.tenant_id, call.http.host)
        self.wake()  # there is a place again, and another of its schedule may have waited for it

    async def stop(self) -> None:
        """End the loop; waits for calls under way as long as they can take."""
        await super().stop()
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=STOP_SECONDS)

    async def _make(self, call: HttpCall, taken_at: float) -> None:
        if self.monotonic() - taken_at > self.lease_seconds / 2:
            error: str | None = "not made: the process stood still when it had taken the call"
        else:
            error = await self._send(call)
        left = self.lease_seconds - (self.monotonic() - taken_at)  # after that another process gives it up
        for pause in AGAIN.pauses(left):
            try:
                if not await self._in_thread(self._schedules.end_call, call, error):
                    log.warning("call cancelled before it ended: schedule=%d", call.schedule_id)
                return
            except Unavailable as unavailable:
                failure = unavailable
            await asyncio.sleep(pause)
        log.error("the result of a call could not be recorded: schedule=%d error=%s", call.schedule_id, failure)

    async def _send(self, call: HttpCall) -> str | None:
        """What went wrong, if something did."""
        method, url = call.http.method, call.http.url
        body = b"" if method in NO_BODY else call_body(call.schedule_id, call.type, call.tick, call.ext)
        headers = {"Idempotency-Key": f"periodic-{call.schedule_id}-{call.run_id}"}
        if body:
            headers["Content-Type"] = "application/json"
        try:
            reply = await self._client(call).send(method, url, body, headers)
        except NoReply as error:
            if isinstance(error, NotAllowed):
                log.warning("call refused: schedule=%d reason=%s", call.schedule_id, error.reason)
            return f"{method} {url}: {error}"
        except Exception as error:
            log.error("call failed: schedule=%d", call.schedule_id, exc_info=error)
            return f"{method} {url}: {type(error).__name__}"
        return None if 200 <= reply.status < 300 else f"{method} {url} answered {reply.status}"

    def _client(self, call: HttpCall) -> HttpClient:
        """The client for a call: it looks up names for its tenant, and allows what the endpoint's owner may call."""
        if self._given_client is not None:
            return self._given_client
        key = call.tenant_id, call.http.by_tenant
        if key not in self._clients:
            resolver = self._resolvers.setdefault(call.tenant_id, Resolver(MOST_LOOKUPS))
            self._clients[key] = OutwardClient(self._allowed[call.http.by_tenant], resolve=resolver)
        return self._clients[key]

    async def _watch(self) -> int:
        """Give up calls of other processes that have not changed for too long."""
        now = self.monotonic()
        if now - self._others.looked_at < self.watch_seconds:
            return 0
        mine = {call.run_id for call in self._under_way.values()}
        seen = [found for found in await self._in_thread(self._schedules.calls_under_way) if found[0] not in mine]
        still = self._others.look(seen, self.watch_seconds, now, now)
        lost = [found for found, seconds in still.items() if seconds >= self.lease_seconds]
        if not lost:
            return 0
        given_up = await self._in_thread(self._schedules.give_up_calls, lost)
        log.warning("calls given up because their process is gone: count=%d", given_up)
        return given_up
