"""Sends callbacks: leases, signs, sends and records them, and repeats until they arrive."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from headgate.core.callbacks import (
    SENDER_SILENT_SECONDS,
    SETTING,
    Attempt,
    Delivery,
    attempt_of,
    delivery_after,
    last_served,
)
from headgate.core.errors import HeadgateError, Invalid
from headgate.core.task import TaskType, clip
from headgate.duties.duty import Duty
from headgate.duties.receivers import Receivers, Rest
from headgate.environment import random_bytes, random_number
from headgate.events.log_lines import FIELDS
from headgate.outward.callback import Destination, destination, resealed_callback
from headgate.outward.client import HttpClient, NoReply, NotAllowed, OutwardClient
from headgate.outward.connections import ConnectionPool
from headgate.outward.sealing import Seals, Unopened
from headgate.settings import Settings
from headgate.store.callbacks.deliveries import DeliveryOutcome, DeliveryQueue, Leased, Share
from headgate.store.callbacks.holds import NewHold, Queue
from headgate.store.store import Store
from headgate.threads import InThread

MOST_AT_ONCE = 256
MOST_WITHOUT_DESTINATION = 100
GRACE_SECONDS = 3.0  # for what is under way when this process ends
MOST_ERROR_BYTES = 1024
NONCE_BYTES = 16
ALIVE_SECONDS = SENDER_SILENT_SECONDS / 4
log = logging.getLogger("headgate.callbacks")


class _NoDestination(NamedTuple):
    """Why the callbacks of a queue cannot be sent, and the status they get."""

    reason: str
    status: Delivery


class _Choice(NamedTuple):
    """How many to take of which queues, and where they go."""

    wanted: list[Share]
    places: "Places"


Places = Mapping[Queue, Destination | _NoDestination]


class Callbacks(Duty):
    """Sends due callbacks, each receiver apart from the others. If killed, it repeats callbacks with the same id."""

    name = "callbacks"
    pause_after_work = 0.002  # what ends meanwhile is put on record together
    lease_seconds = 60.0  # four times as long as a request may take

    def __init__(
        self, store: Store, settings: Settings, in_thread: InThread, *, client: HttpClient | None = None
    ) -> None:
        super().__init__(store, settings, in_thread)
        self.pause = settings.poll_seconds
        self._connections = ConnectionPool()
        self._client = client or OutwardClient(settings.callback_allow, pool=self._connections)
        self._seals = Seals(settings.secrets)
        self._receivers = Receivers(settings.callback_concurrency, MOST_AT_ONCE)
        self._sending: dict[asyncio.Task[None], Leased] = {}
        self._ended: list[DeliveryOutcome] = []
        self._has_resealed = False
        self._said_alive_at: float | None = None
        self._last_tenants: dict[Queue, int] = {}  # whose callback of a queue was the last to go
        self._told: dict[Queue, Rest] = {}  # what this process last told of queues that are held
        self._logged: set[tuple[str, str]] = set()  # types and receivers that are blocked, and logged

    def start(self) -> None:
        self._store.wakeups.on_callbacks(lambda _: self.wake())
        self._store.wakeups.listen()
        super().start()

    async def stop(self) -> None:
        """Start no new requests, wait briefly for those under way, and give back what has not finished."""
        await super().stop()
        if self._sending:
            await asyncio.wait(self._sending, timeout=GRACE_SECONDS)
        left = list(self._sending.values())
        for sending in list(self._sending):
            sending.cancel()
        self._connections.close()
        with suppress(HeadgateError):  # what was not put on record is sent again when its lease is over
            if self._ended:
                await self._in_thread(self._store.deliveries.record, self._ended)
            if left:
                await self._in_thread(self._store.deliveries.give_back, left)

    async def turn(self) -> int:
        """Record finished requests, and start as many as there is room for."""
        if not self._has_resealed:
            await self._in_thread(self._reseal)
            self._has_resealed = True
        await self._say_alive()
        ended, self._ended = self._ended, []
        try:
            queues = await self._in_thread(self._store.deliveries.lines) if self._receivers.free > 0 else []
            places = {(queue.type, queue.kind): self._place(queue) for queue in queues}
            await self._tell_holds(queues, places)
            choice = self._choose(queues, places)
            if not ended and not choice.wanted:
                return 0
            leased = await self._in_thread(
                self._store.deliveries.record_and_lease, ended, choice.wanted, self.lease_seconds, self._last_tenants
            )
        except BaseException:
            self._ended = ended + self._ended
            raise
        self._begin(leased, choice)
        return len(ended) + len(leased)

    async def _say_alive(self) -> None:
        """Record that a process sends callbacks."""
        now = self.monotonic()
        if self._said_alive_at is None or now - self._said_alive_at >= ALIVE_SECONDS:
            await self._in_thread(self._store.deliveries.say_alive)
            self._said_alive_at = now

    async def _tell_holds(self, queues: Sequence[DeliveryQueue], places: Places) -> None:
        """Record which queues are held, and which no longer are because their receiver has answered.

        A hold is recorded once for each rest, so that processes that disagree do not overwrite each other.
        """
        now = self.monotonic()
        held: list[NewHold] = []
        released: list[DeliveryQueue] = []
        rests: dict[Queue, Rest] = {}
        for queue in queues:
            key, place = (queue.type, queue.kind), places[queue.type, queue.kind]
            host = None if isinstance(place, _NoDestination) else place.host
            rest = None if host is None else self._receivers.rest(host, now)
            if host is not None and rest is not None:
                rests[key] = rest
                if self._told.get(key) != rest:
                    held.append(NewHold(key, host, rest.until - now, rest.blocked, rest.reason))
            elif queue.hold is not None and (host != queue.hold.host or self._receivers.is_healthy(host)):
                released.append(queue)
        if held:
            await self._in_thread(self._store.deliveries.hold, held)
        if released:
            await self._in_thread(self._store.deliveries.release, released)
        self._told = rests

    # sending

    def _begin(self, leased: Sequence[Leased], choice: _Choice) -> None:
        served: dict[Queue, list[int]] = defaultdict(list)
        for each in leased:
            served[each.type, each.kind].append(each.tenant_id)
            place = choice.places[each.type, each.kind]
            if isinstance(place, _NoDestination):
                self._ended.append(DeliveryOutcome(each, None, Attempt(None, 0.0, place.reason), place.status))
            else:
                self._receivers.begin(place.host)
                sending = asyncio.create_task(self._send(each, place), name=f"headgate callback {each.id}")
                self._sending[sending] = each
                sending.add_done_callback(self._sending_ended)
        self._last_tenants |= {queue: last_served(tenants) for queue, tenants in served.items()}

    def _choose(self, queues: Sequence[DeliveryQueue], places: Places) -> _Choice:
        """What to take: from each queue as much as its receiver has room for. Queues of one receiver share its room."""
        now = self.monotonic()
        choice = _Choice([], places)
        moments = [now + queue.due_in for queue in queues if queue.due_in > 0]
        by_host: dict[str, list[DeliveryQueue]] = defaultdict(list)
        for queue in sorted((queue for queue in queues if queue.due_in <= 0), key=lambda queue: queue.due_in):
            place = places[queue.type, queue.kind]
            if isinstance(place, _NoDestination):
                choice.wanted.append((queue.type, queue.kind, MOST_WITHOUT_DESTINATION))
            else:
                by_host[place.host].append(queue)
        free = self._receivers.free
        for host, its_queues in by_host.items():
            room = self._receivers.room(host, now, free)
            share = max(room // len(its_queues), 1)
            choice.wanted.extend((queue.type, queue.kind, share) for queue in its_queues[:room])
            free -= room
            if (rest := self._receivers.rest(host, now)) is not None:
                moments.append(rest.until)
        self.next_in = min(moments) - now if moments else None
        return choice

    def _place(self, queue: DeliveryQueue) -> Destination | _NoDestination:
        """Where a queue goes. A type without a callback sends none; one whose address cannot be read needs a person."""
        try:
            place = destination(self._store.types.recent(queue.type), queue.kind)
        except Invalid as error:
            return _NoDestination(str(error), Delivery.UNDELIVERABLE)
        gone = f"type {queue.type} has no {queue.kind} callback any more"
        return place or _NoDestination(gone, Delivery.DROPPED)

    async def _send(self, leased: Leased, place: Destination) -> None:
        began, outcome = self.monotonic(), None
        try:
            attempt = outcome = await self._attempt(leased, place, began)
        except Unopened as error:  # not the receiver's fault
            attempt = Attempt(None, 0.0, clip(str(error), MOST_ERROR_BYTES))
        finally:
            self._receivers.end(place.host, outcome, self.monotonic())
        if not attempt.refused:
            self._logged.discard((leased.type, place.host))
        status, delay = delivery_after(attempt, leased.attempts, random_number())
        self._ended.append(DeliveryOutcome(leased, place.host, attempt, status, delay))
        if status is Delivery.UNDELIVERABLE:
            log.warning(
                "callback given up: task=%d kind=%s receiver=%s attempts=%d",
                leased.task_id, leased.kind, place.host, leased.attempts, extra={FIELDS: {"task_id": leased.task_id}},
            )  # fmt: skip

    async def _attempt(self, leased: Leased, place: Destination, began: float) -> Attempt:
        timestamp, nonce = int(leased.at.timestamp()), random_bytes(NONCE_BYTES).hex()
        headers = place.headers(self._seals, leased.webhook_id, timestamp, nonce, leased.body)
        try:
            reply = await self._client.send(place.method, place.url, leased.body, headers)
        except NoReply as error:
            if refused := isinstance(error, NotAllowed):
                self._log_blocked(leased, place.host, error.reason)
            seconds, text = self.monotonic() - began, clip(str(error), MOST_ERROR_BYTES)
            return Attempt(None, seconds, text, refused=refused)
        retry_after = reply.headers.get("retry-after")
        return attempt_of(reply.status, self.monotonic() - began, reply.body, retry_after, leased.at)

    def _log_blocked(self, leased: Leased, host: str, reason: str) -> None:
        """Once for each type and receiver, until something can be sent there."""
        if (leased.type, host) in self._logged:
            return
        self._logged.add((leased.type, host))
        log.warning(
            "callbacks blocked, sent once %s allows their receiver: task=%d type=%s kind=%s receiver=%s reason=%s",
            SETTING, leased.task_id, leased.type, leased.kind, host, reason,
        )  # fmt: skip

    def _sending_ended(self, sending: "asyncio.Task[None]") -> None:
        del self._sending[sending]
        if not sending.cancelled() and (error := sending.exception()) is not None:
            log.error("callback not sent, retrying when its lease ends", exc_info=error)
        self.wake()

    # secrets

    def _reseal(self) -> None:
        """Seal anew what was sealed under an older HEADGATE_SECRET, so that the older one can go."""
        for code, task_type in self._store.types.by_code().items():
            after = self._resealed(task_type)
            if after is None:
                continue
            if self._store.deliveries.reseal(task_type, after):
                log.info("callback secret sealed under the newest HEADGATE_SECRET: type=%s", code)
            elif self._resealed(self._store.types.by_code().get(code, TaskType(code))) is not None:
                log.warning(
                    "callback secret stays sealed under an older HEADGATE_SECRET until the next start,"
                    " because the type was edited just now: type=%s", code,
                )  # fmt: skip

    def _resealed(self, task_type: TaskType) -> dict[str, Any] | None:
        try:
            return resealed_callback(task_type.callback, task_type.code, self._seals)
        except Unopened as error:
            log.warning("%s", error)
            return None
