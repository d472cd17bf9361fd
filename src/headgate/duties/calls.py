"""Calls of schedules to HTTP endpoints: each is made once at most, and its log says what came of it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from headgate.core.errors import Unavailable
from headgate.core.schedule import call_body
from headgate.environment import monotonic, new_ids
from headgate.outward.client import NoReply, Reply
from headgate.service import InThread, Service
from headgate.store.schedules.tick_runs import HttpCall
from headgate.store.store import Store

AT_ONCE = 64
PERIOD_SECONDS = 1.0
WATCH_SECONDS = 5.0
LEASE_SECONDS = 60.0  # several times as long as the client gives a call
STOP_SECONDS = 20.0
AGAIN_SECONDS = 0.5
NO_BODY = frozenset({"GET", "DELETE"})
log = logging.getLogger("headgate.calls")


class Client(Protocol):
    """What calls are made with; raises `NoReply` when no answer came."""

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply: ...


class Calls(Service):
    """Takes calls that wait, makes so many at a time, and writes what came of each.

    A call is its caller's from the transaction that takes it. If the caller dies, its log ends as a failure, since
    nobody knows whether it arrived; it is not made again. That a caller is gone is known by this process's own clock:
    the call stood for `lease_seconds`, over several looks.
    """

    name = "calls"

    def __init__(
        self,
        store: Store,
        client: Client,
        in_thread: InThread,
        *,
        at_once: int = AT_ONCE,
        lease_seconds: float = LEASE_SECONDS,
        watch_seconds: float = WATCH_SECONDS,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(PERIOD_SECONDS)
        self._schedules = store.schedules
        self._client = client
        self._in_thread = in_thread
        self._at_once = at_once
        self._lease = lease_seconds
        self._watch_seconds = watch_seconds
        self._monotonic = monotonic
        self._caller = new_ids(1)[0]
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._still: dict[tuple[int, str], float] = {}  # for how long each call was seen to stand
        self._looked_at: float | None = None

    async def turn(self) -> int:
        given_up = await self._watch()
        free = self._at_once - len(self._under_way)
        if free <= 0 or not await self._in_thread(self._schedules.calls_wait):
            return given_up
        calls: list[HttpCall] = await self._in_thread(self._schedules.take_calls, self._caller, free)
        for call in calls:
            making = asyncio.create_task(self._make(call, self._monotonic()))
            self._under_way[making] = call.run_id
            making.add_done_callback(self._ended)
        return given_up + len(calls)

    def _ended(self, making: "asyncio.Task[None]") -> None:
        del self._under_way[making]
        self.wake()  # there is a place again, and another of its schedule may have waited for it

    async def stop(self) -> None:
        """End the loop; calls under way are waited for, as long as they can take."""
        await super().stop()
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=STOP_SECONDS)

    async def _make(self, call: HttpCall, taken_at: float) -> None:
        if self._monotonic() - taken_at > self._lease / 2:
            error: str | None = "not made: the process stood still when it had taken the call"
        else:
            error = await self._send(call)
        until = taken_at + self._lease  # by then somebody else has given it up
        while True:
            try:
                if not await self._in_thread(self._schedules.end_call, call, error):
                    log.warning("periodic task %d: a call was given up before it ended", call.schedule_id)
                return
            except Unavailable as unavailable:
                if self._monotonic() > until:
                    log.error("periodic task %d: the end of a call is lost: %s", call.schedule_id, unavailable)
                    return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _send(self, call: HttpCall) -> str | None:
        """What went wrong, if something did."""
        method, url = call.http.method, call.http.url
        body = b"" if method in NO_BODY else call_body(call.schedule_id, call.type, call.tick, call.ext)
        headers = {"Idempotency-Key": f"periodic-{call.schedule_id}-{call.run_id}"}
        if body:
            headers["Content-Type"] = "application/json"
        try:
            reply = await self._client.send(method, url, body, headers)
        except NoReply as error:
            return f"{method} {url}: {error}"
        except Exception as error:
            log.error("periodic task %d: a call failed", call.schedule_id, exc_info=error)
            return f"{method} {url}: {type(error).__name__}"
        return None if 200 <= reply.status < 300 else f"{method} {url} answered {reply.status}"

    async def _watch(self) -> int:
        """Give up calls that stand for too long. One look counts for two periods at most, lest a frozen one blames."""
        now = self._monotonic()
        if self._looked_at is not None and now - self._looked_at < self._watch_seconds:
            return 0
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, 2 * self._watch_seconds)
        self._looked_at = now
        mine = set(self._under_way.values())
        seen = [found for found in await self._in_thread(self._schedules.calls_under_way) if found[0] not in mine]
        self._still = {found: self._still.get(found, -passed) + passed for found in seen}
        lost = [found for found, still in self._still.items() if still >= self._lease]
        if not lost:
            return 0
        given_up: int = await self._in_thread(self._schedules.give_up_calls, lost)
        log.warning("%d calls of schedules were given up: whoever made them is gone", given_up)
        return given_up
