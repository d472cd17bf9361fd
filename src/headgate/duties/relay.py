"""Publishes the events of tasks that somebody follows, in order and at least once, and all final failures."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from headgate.broker.audience import Audience, first_of_each
from headgate.broker.confirms import Published
from headgate.broker.connection import BrokerAway, Link, OpenLink
from headgate.broker.topology import Message, dead_message, event_message
from headgate.core.errors import HeadgateError, NotFound, Unavailable
from headgate.core.events import AuditEvent, Heading
from headgate.core.task import Task
from headgate.duties.duty import Duty
from headgate.environment import new_uuid7
from headgate.settings import Settings
from headgate.store.events.feed import MOST_GAPS
from headgate.store.events.subscriptions import Lease
from headgate.store.store import Store
from headgate.threads import InThread

SUBSCRIPTION = "headgate:relay"
FINAL_FAILURES = frozenset({"failed", "dead_lettered"})
PAGE = 2000
BATCH = 500  # messages at once
GATHER_SECONDS = 0.05  # events that happen together go together, and starts go first
log = logging.getLogger("headgate.broker")


class Relay(Duty):
    """One process at a time follows the feed by a subscription. Its place moves on when the broker has confirmed."""

    name = "relay"
    pause = 0.5

    def __init__(self, store: Store, settings: Settings, in_thread: InThread, link: OpenLink = Link) -> None:
        super().__init__(store, settings, in_thread)
        self._audience = Audience()
        self._gather = True
        self._holder = f"relay-{new_uuid7()}"
        self._link = link(settings.broker, "headgate relay", on_closed=self.wake)
        self._lease: Lease | None = None
        self._renew_at = self._rests_until = 0.0
        self._trouble = ""
        store.wakeups.on_work(lambda wakes: self.wake())

    async def turn(self) -> int:
        lease = await self._leased()  # even without the broker: retention waits for a subscription that is in use
        if lease is None or self.monotonic() < self._rests_until:
            return 0
        if self._gather:
            await asyncio.sleep(GATHER_SECONDS)
        try:
            await self._link.channel()
            done = await self._relay(lease)
        except BrokerAway as error:
            await self._link.close()
            self._rests_until = self.monotonic() + self.pause  # each commit wakes us
            if str(error) != self._trouble:
                log.warning("relay: %s; events wait in the store meanwhile", error)
                self._trouble = str(error)
            return 0
        if self._trouble:
            log.info("relay: publishes events to the broker at %s again", self._link.place)
            self._trouble = ""
        return done

    async def stop(self) -> None:
        await super().stop()
        if self._lease is not None:
            try:
                await self._in_thread(self._store.subscriptions.release, SUBSCRIPTION, self._holder)
            except HeadgateError as error:
                log.warning("relay: could not release its subscription: %s", error)
        await self._link.close()

    async def _leased(self) -> Lease | None:
        """The subscription, while this process has it."""
        if self.monotonic() < self._renew_at:
            return self._lease
        found = await self._in_thread(
            self._store.subscriptions.lease, SUBSCRIPTION, self._holder, self._settings.lease_seconds
        )
        if found is not None and self._lease is None:
            log.info("relay: publishes events to the broker at %s", self._link.place)
        self._lease, self._renew_at = found, self.monotonic() + self._settings.beat_seconds
        return found

    async def _relay(self, lease: Lease) -> int:
        """Publish a page; returns its size."""
        limit = min(PAGE, MOST_GAPS - len(lease.place.gaps))  # a place with more gaps would forget the oldest
        page, after = await self._in_thread(self._store.events.headings_after, lease.place, limit)
        events = [event for event in page if event.task_id is not None]
        await self._publish(events)
        if after != lease.place:  # for an empty page, too: gaps have closed
            await self._save(Lease(after, 0), [event.kind for event in events])
        self._gather = len(page) < PAGE
        return len(page)

    async def _publish(self, events: Sequence[Heading]) -> None:
        """Publish what somebody listens to, in order, and final failures in any case."""
        questions = self._audience.questions(events)
        await self._send(questions, {event.id for event in questions})
        asked = {event.id for event in questions}
        wanted = self._audience.wanted(event for event in events if event.id not in asked)
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            await self._send(batch, {event.id for event in first_of_each(batch)})
        failures = [event for event in events if event.kind in FINAL_FAILURES]
        if await self._deliver(await self._in_thread(self._messages, failures, self._dead_message)):
            raise BrokerAway("the dead-letter queue was deleted")  # a new connection declares it again

    async def _send(self, events: Sequence[Heading], asking: Collection[int]) -> None:
        """Publish events, some of them to ask whether a queue is bound."""
        if not events:
            return

        def message(event: AuditEvent, type_code: str) -> Message:
            return event_message(event, type_code, mandatory=event.id in asking)

        returned = await self._deliver(await self._in_thread(self._messages, events, message))
        self._audience.learn((event for event in events if event.id in asking), returned)

    async def _deliver(self, messages: Mapping[int, Message]) -> set[int]:
        """Publish messages of events; returns the ids of those that came back."""
        if not messages:
            return set()
        results = dict(zip(messages, await self._link.publish(list(messages.values())), strict=True))
        if not set(results.values()) <= {Published.CONFIRMED, Published.RETURNED}:
            raise BrokerAway("the broker did not confirm the events")
        return {event_id for event_id, result in results.items() if result is Published.RETURNED}

    async def _save(self, lease: Lease, handled: Sequence[str]) -> None:
        saved = await self._in_thread(
            self._store.subscriptions.save, SUBSCRIPTION, self._holder, lease, handled=handled
        )
        self._lease = lease if saved else None

    def _messages(self, events: Sequence[Heading], make: Callable[[AuditEvent, str], Message]) -> dict[int, Message]:
        """The message of each event, by its id. One that cannot be made holds up none of the others."""
        types = {event.id: event.type or "" for event in events}
        messages = {}
        for event in self._store.events.get_many(list(types)) if events else []:
            try:
                messages[event.id] = make(event, types[event.id])
            except Unavailable:
                raise
            except Exception:
                log.exception("relay: event cannot be published and is left out: event=%d", event.id)
        return messages

    def _dead_message(self, event: AuditEvent, type_code: str) -> Message:
        assert event.task_id is not None
        return dead_message(event, type_code, self._task(event.task_id))

    def _task(self, task_id: int) -> Task | None:
        try:
            return self._store.tasks.get(task_id)
        except NotFound:
            return None
