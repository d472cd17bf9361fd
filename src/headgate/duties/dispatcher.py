"""Publishes queued tasks to the broker, one process at a time, and resends messages that started nothing."""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headgate.broker.confirms import Published
from headgate.broker.connection import BrokerAway, Link, OpenLink, reason_of
from headgate.broker.topology import task_message
from headgate.core.errors import HeadgateError, WorkerLost
from headgate.duties.duty import Duty
from headgate.pauses import Backoff
from headgate.settings import Settings
from headgate.store.execution.dispatch import Handover
from headgate.store.store import Store
from headgate.threads import InThread

ACTOR = "system:dispatcher"
LONGEST_PAUSE = 1.0
BUSY_SECONDS = 0.005
DRAINED_SECONDS = 0.01  # before the next look when all that waited was claimed: no wake-up may come
LONGEST_RESEND = 300.0
LONGEST_LEASE = 5.0  # its death stops every start for as long, while workers wait for the broker
BEATS = 5  # in that time
log = logging.getLogger("headgate.broker")
_REASONS = {
    Published.RETURNED: "unroutable: its queue is gone",
    Published.REFUSED: "refused: its queue is full or broken",
}


class Sent(NamedTuple):
    """A message that is out: how often it was sent, and when it is late."""

    times: int
    late_at: float


class Dispatcher(Duty):
    """Claims for the broker what live consumers have free slots for, and publishes it with confirms.

    It claims the next tasks while the broker confirms the last ones. A task in the broker stays `scheduling` until a
    consumer starts it. It goes back to its queue only when the broker is lost, the message was returned, no consumer
    serves the type any more, or it is late and no consumer has a free slot for it. Any other message that started
    nothing for a while is sent again under the same exec_id. Without the broker the dispatcher steps down for a while,
    and workers claim from the store.
    """

    name = "dispatcher"

    def __init__(self, store: Store, settings: Settings, in_thread: InThread, link: OpenLink = Link) -> None:
        super().__init__(store, settings, in_thread)
        self.pause = min(settings.poll_seconds, LONGEST_PAUSE)
        self.counts: Counter[str] = Counter()
        self._link = link(settings.broker, "headgate dispatcher", on_closed=self.wake)
        self._worker_id: int | None = None  # while this process dispatches
        self._sent: dict[str, Sent] = {}  # by exec_id
        self._resend = Backoff(settings.broker_resend_seconds, max(LONGEST_RESEND, settings.broker_resend_seconds))
        self._publishing: asyncio.Task[None] | None = None
        self._process = f"{socket.gethostname()}-{os.getpid()}"
        self._dead_letters: int | None = None  # as of the last beat
        self._lease_seconds, self._beat_seconds = settings.lease_seconds, settings.beat_seconds
        if self._lease_seconds > LONGEST_LEASE:
            self._lease_seconds, self._beat_seconds = LONGEST_LEASE, LONGEST_LEASE / BEATS
        self._beat_at = self._look_at = self._rests_until = 0.0
        self._trouble = ""
        store.wakeups.on_work(lambda wakes: self.wake())

    def start(self) -> None:
        self._store.wakeups.listen()
        super().start()

    async def turn(self) -> int:
        self.next_in = None
        if self.monotonic() < self._rests_until:
            return 0
        try:
            await self._link.channel()
            worker_id = await self._lead()
            return 0 if worker_id is None else await self._dispatch(worker_id)
        except WorkerLost:
            await self._end_publishing()
            self._forget()
            return 1
        except BrokerAway as error:
            await self._step_down(str(error))
            return 0

    async def stop(self) -> None:
        await super().stop()
        try:
            await self._give_up("the dispatcher stops")
        except HeadgateError as error:  # the reaper does it
            log.warning("dispatcher: could not give back what is in the broker: %s", error)
        await self._link.close()

    # who dispatches

    async def _lead(self) -> int | None:
        """The row to dispatch under; None while another process does."""
        now = self.monotonic()
        if self._worker_id is None:
            found = await self._in_thread(self._store.dispatch.lead, self._lease_seconds, self._detail())
            if found is None:
                self._rests_until = now + self.pause  # each commit wakes us, and this asks for a write
                return None
            self._worker_id, self._beat_at, self._trouble = found, now, ""
            log.info("dispatcher: hands tasks to the broker at %s", self._link.place)
        elif now >= self._beat_at:
            await self._beat(self._worker_id)
            self._dead_letters = await self._link.dead_letters()
        return self._worker_id

    async def _beat(self, worker_id: int) -> None:
        now = self.monotonic()
        await self._in_thread(self._store.workers.beat, worker_id, (), self._detail())
        self._beat_at, self._trouble = now + self._beat_seconds, ""

    def _detail(self) -> str:
        """Its report for people: where it runs, what became of its messages, how many dead letters wait."""
        told = {"process": self._process, "messages": dict(self.counts), "dead_letters": self._dead_letters}
        return msgspec.json.encode(told).decode()

    async def _step_down(self, reason: str) -> None:
        """The broker is lost or unusable: let workers claim from the store."""
        if reason != self._trouble:
            log.warning("dispatcher: %s; workers claim from the store meanwhile", reason)
            self._trouble = reason
        await self._link.close()
        await self._give_up(f"the broker was lost: {reason}")
        self._rests_until = self.monotonic() + self.pause  # what was given back wakes us at once

    async def _give_up(self, reason: str) -> None:
        await self._end_publishing()
        if self._worker_id is not None:
            await self._return(None, reason)
            await self._in_thread(self._store.workers.leave, self._worker_id)
            self._forget()

    async def _end_publishing(self) -> None:
        """Wait for what is under way, whatever comes of it."""
        publishing, self._publishing = self._publishing, None
        if publishing is not None:
            await asyncio.gather(publishing, return_exceptions=True)

    def _forget(self) -> None:
        self._worker_id = None
        self._sent.clear()

    async def _return(self, only: Sequence[Handover] | None, reason: str) -> None:
        """Send tasks that have not been started back to their queues; None: all."""
        assert self._worker_id is not None
        reports = None if only is None else [(each.execution.id, each.exec_id) for each in only]
        if reports != []:
            await self._in_thread(
                self._store.executions.return_unstarted, self._worker_id, reports, reason=reason, actor=ACTOR
            )

    # what it dispatches

    async def _dispatch(self, worker_id: int) -> int:
        dispatched = await self._in_thread(self._store.dispatch.take, worker_id)
        await self._confirmed(worker_id)
        if dispatched.handovers:
            self._publishing = asyncio.create_task(self._publish(dispatched.handovers))
        self.next_in = BUSY_SECONDS if dispatched.busy else dispatched.token_in
        if self.monotonic() >= self._look_at:  # also for what was taken when the answer of the store was lost
            self._look_at = self.monotonic() + min(self.pause, self._settings.broker_resend_seconds / 2)
            await self._confirmed(worker_id)
            await self._look_after(worker_id)
        if dispatched.handovers and dispatched.slots_left and not dispatched.busy:
            self.next_in = DRAINED_SECONDS  # nothing more waits, and a claim in vain would hold up these starts
            return 0
        return len(dispatched.handovers)

    async def _confirmed(self, worker_id: int) -> None:
        """Until what was published last is confirmed; `BrokerAway` if it is not. A slow broker costs no lease."""
        while self._publishing is not None:
            await asyncio.wait({self._publishing}, timeout=self._beat_seconds)
            if self._publishing.done():
                publishing, self._publishing = self._publishing, None
                await publishing
            else:
                await self._beat(worker_id)

    async def _look_after(self, worker_id: int) -> None:
        """Resend what was not started in time; give back what no consumer serves any more or has a free slot for."""
        waiting = await self._in_thread(self._store.dispatch.unstarted, worker_id)
        served = await self._in_thread(self._store.dispatch.served_types)
        free = await self._in_thread(self._store.dispatch.types_with_room)
        self._sent = {e.exec_id: self._sent[e.exec_id] for e, _, _ in waiting if e.exec_id in self._sent}
        now = self.monotonic()
        late = [each for each in waiting if each.exec_id not in self._sent or self._sent[each.exec_id].late_at <= now]
        await self._return(
            [each for each in waiting if each.execution.type not in served], "no live consumer serves its type"
        )
        # A handler that waits for such a task lends its slot only to what is in the queue.
        await self._return(
            [each for each in late if each.execution.type in served - free], "no live consumer has a free slot for it"
        )
        again = [each for each in late if each.execution.type in free]
        if again:
            log.warning("dispatcher: %d messages started nothing in time and are sent again", len(again))
            self.counts["resent"] += len(again)
            self._publishing = asyncio.create_task(self._publish(again))
            await self._confirmed(worker_id)

    async def _publish(self, handovers: Sequence[Handover]) -> None:
        if not handovers:
            return
        try:
            for queue in sorted({each.queue for each in handovers}):
                await self._link.declare_queue(queue)
            published = await self._link.publish([task_message(*each) for each in handovers])
        except HeadgateError:
            raise
        except Exception as error:
            raise BrokerAway(f"the broker refused: {reason_of(error)}") from error
        for each in handovers:
            times = self._sent[each.exec_id].times if each.exec_id in self._sent else 0
            self._sent[each.exec_id] = Sent(times + 1, self.monotonic() + self._resend.pause(times))
        self.counts["published"] += len(handovers)
        self.counts.update(str(result) for result in published)
        pairs = list(zip(handovers, published, strict=True))
        for result, reason in _REASONS.items():
            if back := [each for each, outcome in pairs if outcome is result]:
                log.warning("dispatcher: %d messages came back: %s", len(back), reason)
                await self._return(back, reason)
                await self._link.close()  # on a new connection every queue is declared again
        if not {Published.UNCONFIRMED, Published.REFUSED}.isdisjoint(published):
            raise BrokerAway("the broker did not confirm what was published")
