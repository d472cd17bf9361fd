"""Publishes every event of a task to the broker, in order and at least once, and final failures once more."""

import logging
from collections.abc import Sequence

from headgate.broker.connection import BrokerAway, Link, Published, place_of
from headgate.broker.topology import Message, dead_message, event_message
from headgate.core.errors import HeadgateError, NotFound
from headgate.core.task import Task
from headgate.duties.duty import Duty
from headgate.environment import new_uuid7
from headgate.events.live import Feed, FeedEvent
from headgate.settings import Settings
from headgate.store.events.feed import MOST_GAPS
from headgate.store.events.subscriptions import Lease
from headgate.store.store import Store
from headgate.threads import InThread

SUBSCRIPTION = "headgate:relay"
FINAL_FAILURES = frozenset({"failed", "dead_lettered"})
PAGE = 500
log = logging.getLogger("headgate.broker")


class Relay(Duty):
    """One process at a time follows the feed by a subscription. Its place moves on when the broker has confirmed."""

    name = "relay"
    pause = 0.5

    def __init__(self, store: Store, settings: Settings, in_thread: InThread) -> None:
        super().__init__(store, settings, in_thread)
        self._feed = Feed(store)
        self._holder = f"relay-{new_uuid7()}"
        self._link = Link(settings.broker, "headgate relay", on_closed=self.wake)
        self._lease: Lease | None = None
        self._renew_at = 0.0
        self._trouble = ""
        store.wakeups.on_work(lambda wakes: self.wake())

    async def turn(self) -> int:
        lease = await self._leased()  # even without the broker: retention waits for a subscription that is in use
        if lease is None:
            return 0
        try:
            await self._link.channel()
            done = await self._relay(lease)
        except BrokerAway as error:
            await self._link.close()
            if str(error) != self._trouble:
                log.warning("relay: %s; events wait in the store meanwhile", error)
                self._trouble = str(error)
            return 0
        self._trouble = ""
        return done

    async def stop(self) -> None:
        await super().stop()
        if self._lease is not None:
            try:
                await self._in_thread(self._store.subscriptions.release, SUBSCRIPTION, self._holder)
            except HeadgateError as error:
                log.warning("relay: could not let go of its subscription: %s", error)
        await self._link.close()

    async def _leased(self) -> Lease | None:
        """The subscription, while this process has it."""
        if self.monotonic() < self._renew_at:
            return self._lease
        found = await self._in_thread(
            self._store.subscriptions.lease, SUBSCRIPTION, self._holder, self._settings.lease_seconds
        )
        if found is not None and self._lease is None:
            log.info("relay: publishes events to the broker at %s", place_of(self._settings.broker))
        self._lease, self._renew_at = found, self.monotonic() + self._settings.beat_seconds
        return found

    async def _relay(self, lease: Lease) -> int:
        """Publish a page; its size."""
        limit = min(PAGE, MOST_GAPS - len(lease.place.gaps))  # a place with more gaps would forget the oldest
        page, after = await self._in_thread(self._feed.read, lease.place, limit)
        if not page:
            if after != lease.place:  # gaps have closed
                await self._save(Lease(after, 0), [])
            return 0
        messages = await self._in_thread(self._messages, page)
        published = await self._link.publish(messages)
        if any(result is not Published.CONFIRMED for result in published):
            raise BrokerAway("the broker did not confirm the events")
        await self._save(Lease(after, 0), [entry.event.kind for entry in page if entry.event.task_id is not None])
        return len(page)

    async def _save(self, lease: Lease, handled: Sequence[str]) -> None:
        saved = await self._in_thread(
            self._store.subscriptions.save, SUBSCRIPTION, self._holder, lease, handled=handled
        )
        self._lease = lease if saved else None

    def _messages(self, page: Sequence[FeedEvent]) -> list[Message]:
        messages = []
        for entry in page:
            event = entry.event
            if event.task_id is None:
                continue
            type_code = "" if entry.task_info is None else entry.task_info.type
            messages.append(event_message(event, type_code))
            if event.kind in FINAL_FAILURES:
                messages.append(dead_message(event, type_code, self._task(event.task_id)))
        return messages

    def _task(self, task_id: int) -> Task | None:
        try:
            return self._store.tasks.get(task_id)
        except NotFound:
            return None
