"""Calls of schedules to HTTP endpoints: each is made once at most, and its log says what came of it."""

import asyncio
import logging

from headgate.core.errors import Unavailable
from headgate.core.schedule import call_body
from headgate.duties.duty import Duty
from headgate.duties.standstill import Standstill
from headgate.environment import new_ids
from headgate.outward.client import HttpClient, NoReply, NotAllowed, OutwardClient
from headgate.pauses import Backoff
from headgate.settings import Settings
from headgate.store.schedules.tick_runs import HttpCall
from headgate.store.store import Store
from headgate.threads import InThread

STOP_SECONDS = 20.0
AGAIN = Backoff(0.2, 5.0, jitter=0.5)
NO_BODY = frozenset({"GET", "DELETE"})
log = logging.getLogger("headgate.calls")


class Calls(Duty):
    """Takes calls that wait, makes so many at a time, and writes what came of each.

    A call is its caller's from the transaction that takes it. If the caller dies, its log ends as a failure, since
    nobody knows whether it arrived; it is not made again. That a caller is gone is known by this process's own clock:
    the call stood for `lease_seconds`, over several looks.
    """

    name = "calls"
    at_once = 64
    lease_seconds = 60.0  # several times as long as the client gives a call
    watch_seconds = 5.0

    def __init__(
        self, store: Store, settings: Settings, in_thread: InThread, *, client: HttpClient | None = None
    ) -> None:
        super().__init__(store, settings, in_thread)
        self._schedules = store.schedules
        self._client = client or OutwardClient(settings.callback_allow)
        self._caller = new_ids(1)[0]
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._others: Standstill[tuple[int, str]] = Standstill()

    async def turn(self) -> int:
        given_up = await self._watch()
        free = self.at_once - len(self._under_way)
        if free <= 0 or not await self._in_thread(self._schedules.calls_wait):
            return given_up
        calls = await self._in_thread(self._schedules.take_calls, self._caller, free)
        for call in calls:
            making = asyncio.create_task(self._make(call, self.monotonic()))
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
        if self.monotonic() - taken_at > self.lease_seconds / 2:
            error: str | None = "not made: the process stood still when it had taken the call"
        else:
            error = await self._send(call)
        left = self.lease_seconds - (self.monotonic() - taken_at)  # then somebody else gives it up
        for pause in AGAIN.pauses(left):
            try:
                if not await self._in_thread(self._schedules.end_call, call, error):
                    log.warning("call was given up before it ended: schedule=%d", call.schedule_id)
                return
            except Unavailable as unavailable:
                failure = unavailable
            await asyncio.sleep(pause)
        log.error("end of call could not be recorded: schedule=%d error=%s", call.schedule_id, failure)

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
            if isinstance(error, NotAllowed):
                log.warning("call refused: schedule=%d reason=%s", call.schedule_id, error.reason)
            return f"{method} {url}: {error}"
        except Exception as error:
            log.error("call failed: schedule=%d", call.schedule_id, exc_info=error)
            return f"{method} {url}: {type(error).__name__}"
        return None if 200 <= reply.status < 300 else f"{method} {url} answered {reply.status}"

    async def _watch(self) -> int:
        """Give up calls of others that stand for too long."""
        now = self.monotonic()
        if now - self._others.looked_at < self.watch_seconds:
            return 0
        mine = set(self._under_way.values())
        seen = [found for found in await self._in_thread(self._schedules.calls_under_way) if found[0] not in mine]
        still = self._others.look(seen, self.watch_seconds, now, now)
        lost = [found for found, seconds in still.items() if seconds >= self.lease_seconds]
        if not lost:
            return 0
        given_up = await self._in_thread(self._schedules.give_up_calls, lost)
        log.warning("calls given up, their callers are gone: count=%d", given_up)
        return given_up
