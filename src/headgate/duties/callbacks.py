"""Callbacks go out: leased, signed, sent, put on record; again and again until they arrive."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from headgate.core.callbacks import Attempt, Delivery, Kind, answered, judge
from headgate.core.errors import HeadgateError, Invalid
from headgate.core.task import TaskType, clip
from headgate.duties.hosts import Hosts
from headgate.outside import draw, monotonic, noise
from headgate.outward.callback import Destination, destination, resealed
from headgate.outward.client import Outward, Reply, Unsent
from headgate.outward.kept import Kept
from headgate.outward.sealing import Seals, Unopened
from headgate.service import Aside, Service
from headgate.settings import Settings
from headgate.store.base import Store
from headgate.store.deliveries import Leased, Line, Outcome, Share

MOST_AT_ONCE = 256
MOST_NOWHERE = 100
LEASE_SECONDS = 60.0  # four times as long as a request may take
GRACE_SECONDS = 3.0  # for what is under way when this process ends
MOST_ERROR_BYTES = 1024
NONCE_BYTES = 16
log = logging.getLogger("headgate.callbacks")


class Sender(Protocol):
    """Who sends requests; `Outward`, but for simulations."""

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply: ...


class _Nowhere(NamedTuple):
    """Why a line goes nowhere, and what its callbacks are then."""

    reason: str
    status: Delivery


class _Choice(NamedTuple):
    """Of which lines to take how many, and where they go."""

    wanted: list[Share]
    places: dict[tuple[str, Kind], Destination | _Nowhere]


class Callbacks(Service):
    """Sends what is due, each receiver apart from the others. Killed, it costs a repetition with the same id."""

    name = "callbacks"
    breath = 0.002  # what ends meanwhile is put on record together

    def __init__(
        self,
        store: Store,
        settings: Settings,
        aside: Aside,
        *,
        sender: Sender | None = None,
        lease_seconds: float = LEASE_SECONDS,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(settings.poll_seconds)
        self._store = store
        self._aside = aside
        self._kept = Kept()
        self._sender = sender or Outward(settings.callback_allow, kept=self._kept)
        self._seals = Seals(settings.secrets)
        self._lease_seconds = lease_seconds
        self._monotonic = monotonic
        self._hosts = Hosts(settings.callback_concurrency, MOST_AT_ONCE)
        self._sending: dict[asyncio.Task[None], Leased] = {}
        self._ended: list[Outcome] = []
        self._next_at: float | None = None
        self._has_resealed = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()

        def hear(_: None) -> None:
            with suppress(RuntimeError):  # the loop has ended: so has this
                loop.call_soon_threadsafe(self.wake)

        self._store.on_owed(hear)
        self._store.listen()
        super().start()

    async def stop(self) -> None:
        """Take nothing more on, wait a moment for what is under way, and give back what is not over by then."""
        await super().stop()
        if self._sending:
            await asyncio.wait(self._sending, timeout=GRACE_SECONDS)
        left = list(self._sending.values())
        for sending in list(self._sending):
            sending.cancel()
        self._kept.close()
        with suppress(HeadgateError):  # what was not put on record is sent again when its lease is over
            if self._ended:
                await self._aside(self._store.deliveries.record, self._ended)
            if left:
                await self._aside(self._store.deliveries.give_back, left)

    async def turn(self) -> int:
        """Put on record what ended, and begin what there is room for."""
        if not self._has_resealed:
            await self._aside(self._reseal)
            self._has_resealed = True
        ended, self._ended = self._ended, []
        try:
            lines = await self._aside(self._store.deliveries.lines) if self._hosts.free > 0 else []
            choice = self._choose(lines)
            if not ended and not choice.wanted:
                return 0
            exchange = self._store.deliveries.record_and_lease
            leased = await self._aside(exchange, ended, choice.wanted, self._lease_seconds)
        except BaseException:
            self._ended = ended + self._ended
            raise
        self._begin(leased, choice)
        return len(ended) + len(leased)

    def _next_pause(self) -> float:
        """Until something is due, or a receiver that was left alone is tried again."""
        pause = super()._next_pause()
        if self._failures or self._next_at is None:
            return pause
        return min(max(self._next_at - self._monotonic(), self.breath), pause)

    # sending

    def _begin(self, leased: Sequence[Leased], choice: _Choice) -> None:
        for each in leased:
            place = choice.places[each.type, each.kind]
            if isinstance(place, _Nowhere):
                self._ended.append(Outcome(each, None, Attempt(None, 0.0, place.reason), place.status))
            else:
                self._hosts.begin(place.host)
                sending = asyncio.create_task(self._send(each, place), name=f"headgate callback {each.id}")
                self._sending[sending] = each
                sending.add_done_callback(self._over)

    def _choose(self, lines: Sequence[Line]) -> _Choice:
        """What to take: as much of each line as its receiver has room for, which its lines share."""
        now = self._monotonic()
        choice = _Choice([], {})
        moments = [now + line.due_in for line in lines if line.due_in > 0]
        by_host: dict[str, list[Line]] = defaultdict(list)
        for line in sorted((line for line in lines if line.due_in <= 0), key=lambda line: line.due_in):
            place = self._place(line)
            choice.places[line.type, line.kind] = place
            if isinstance(place, _Nowhere):
                choice.wanted.append((line.type, line.kind, MOST_NOWHERE))
            else:
                by_host[place.host].append(line)
        free = self._hosts.free
        for host, its_lines in by_host.items():
            room = self._hosts.room(host, now, free)
            share = max(room // len(its_lines), 1)
            choice.wanted.extend((line.type, line.kind, share) for line in its_lines[:room])
            free -= room
            if (until := self._hosts.rests_until(host, now)) is not None:
                moments.append(until)
        self._next_at = min(moments, default=None)
        return choice

    def _place(self, line: Line) -> Destination | _Nowhere:
        """Where a line goes. A type without a callback owes none; one whose address cannot be read needs a person."""
        try:
            place = destination(self._store.type_of(line.type), line.kind)
        except Invalid as error:
            return _Nowhere(str(error), Delivery.UNDELIVERABLE)
        gone = f"type {line.type} has no {line.kind} callback any more"
        return place or _Nowhere(gone, Delivery.DROPPED)

    async def _send(self, leased: Leased, place: Destination) -> None:
        began, troubled = self._monotonic(), False
        try:
            attempt = await self._attempt(leased, place, began)
            troubled = attempt.troubled
        except Unopened as error:  # which says nothing about the receiver
            attempt = Attempt(None, 0.0, clip(str(error), MOST_ERROR_BYTES))
        finally:
            self._hosts.end(place.host, troubled, self._monotonic())
        status, delay = judge(attempt, leased.attempts, draw())
        self._ended.append(Outcome(leased, place.host, attempt, status, delay))
        if status is Delivery.UNDELIVERABLE:
            log.warning(
                "the %s callback of task %d to %s is given up after %d attempts",
                leased.kind, leased.task_id, place.host, leased.attempts,
            )  # fmt: skip

    async def _attempt(self, leased: Leased, place: Destination, began: float) -> Attempt:
        timestamp, nonce = int(leased.at.timestamp()), noise(NONCE_BYTES).hex()
        headers = place.headers(self._seals, leased.webhook_id, timestamp, nonce, leased.body)
        try:
            reply = await self._sender.send(place.method, place.url, leased.body, headers)
        except Unsent as error:
            return Attempt(None, self._monotonic() - began, clip(str(error), MOST_ERROR_BYTES))
        wish = reply.headers.get("retry-after")
        return answered(reply.status, self._monotonic() - began, reply.body, wish, leased.at)

    def _over(self, sending: "asyncio.Task[None]") -> None:
        del self._sending[sending]
        if not sending.cancelled() and (error := sending.exception()) is not None:
            log.error("a callback was not sent; it will be when its lease is over", exc_info=error)
        self.wake()

    # secrets

    def _reseal(self) -> None:
        """Seal anew what was sealed under an older HEADGATE_SECRET, so that the older one can go."""
        for code, kind in self._store.types().items():
            after = self._resealed(kind)
            if after is None:
                continue
            if self._store.deliveries.reseal(kind, after):
                log.info("the secret of type %s is sealed anew", code)
            elif self._resealed(self._store.types().get(code, TaskType(code))) is not None:
                log.warning(
                    "the secret of type %s stays sealed under an older HEADGATE_SECRET until the next start:"
                    " somebody edited the type just now", code,
                )  # fmt: skip

    def _resealed(self, kind: TaskType) -> dict[str, Any] | None:
        try:
            return resealed(kind.callback, kind.code, self._seals)
        except Unopened as error:
            log.warning("%s", error)
            return None
