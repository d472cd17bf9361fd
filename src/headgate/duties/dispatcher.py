"""Hands queued tasks to the broker, one process at a time, and sends again what nobody started."""

import logging
from collections import Counter
from collections.abc import Sequence

import msgspec

from headgate.broker.connection import BrokerAway, Link, Published, place_of, reason_of
from headgate.broker.topology import task_message
from headgate.core.errors import HeadgateError, WorkerLost
from headgate.duties.duty import Duty
from headgate.settings import Settings
from headgate.store.execution.dispatch import Handover
from headgate.store.store import Store
from headgate.threads import InThread

ACTOR = "system:dispatcher"
LONGEST_PAUSE = 1.0
BUSY_SECONDS = 0.005
log = logging.getLogger("headgate.broker")
_REASONS = {
    Published.RETURNED: "unroutable: its queue is gone",
    Published.REFUSED: "refused: its queue is full or broken",
}


class Dispatcher(Duty):
    """Claims for the broker what live consumers have free slots for, and publishes it with confirms.

    What is in the broker stays `scheduling` until a consumer starts it. It goes back to its queue only when the broker
    is lost, the message was returned or nobody serves the type any more; a message that started nothing for a while is
    sent again under the same exec_id. Without the broker it steps down, and workers claim from the store.
    """

    name = "dispatcher"

    def __init__(self, store: Store, settings: Settings, in_thread: InThread) -> None:
        super().__init__(store, settings, in_thread)
        self.pause = min(settings.poll_seconds, LONGEST_PAUSE)
        self.counts: Counter[str] = Counter()
        self._link = Link(settings.broker, "headgate dispatcher", on_closed=self.wake)
        self._worker_id: int | None = None  # while this process dispatches
        self._sent: dict[str, float] = {}  # by exec_id: when its message was published last
        self._beat_at = self._look_at = 0.0
        self._trouble = ""
        store.wakeups.on_work(lambda wakes: self.wake())

    def start(self) -> None:
        self._store.wakeups.listen()
        super().start()

    async def turn(self) -> int:
        self.next_in = None
        try:
            await self._link.channel()
            worker_id = await self._lead()
            return 0 if worker_id is None else await self._dispatch(worker_id)
        except WorkerLost:
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
            found = await self._in_thread(self._store.dispatch.lead, self._settings.lease_seconds, self._detail())
            if found is None:
                return None
            self._worker_id = found
            log.info("dispatcher: hands tasks to the broker at %s", place_of(self._settings.broker))
        elif now >= self._beat_at:
            await self._in_thread(self._store.workers.beat, self._worker_id, (), self._detail())
        else:
            return self._worker_id
        self._beat_at, self._trouble = now + self._settings.beat_seconds, ""
        return self._worker_id

    def _detail(self) -> str:
        return msgspec.json.encode({"messages": dict(self.counts)}).decode()

    async def _step_down(self, reason: str) -> None:
        """The broker is lost, or of no use: let workers claim from the store."""
        if reason != self._trouble:
            log.warning("dispatcher: %s; workers claim from the store meanwhile", reason)
            self._trouble = reason
        await self._link.close()
        await self._give_up(f"the broker was lost: {reason}")

    async def _give_up(self, reason: str) -> None:
        if self._worker_id is not None:
            await self._return(None, reason)
            await self._in_thread(self._store.workers.leave, self._worker_id)
            self._forget()

    def _forget(self) -> None:
        self._worker_id = None
        self._sent.clear()

    async def _return(self, only: Sequence[tuple[int, str]] | None, reason: str) -> None:
        assert self._worker_id is not None
        await self._in_thread(
            self._store.executions.return_unstarted, self._worker_id, only, reason=reason, actor=ACTOR
        )

    # what it dispatches

    async def _dispatch(self, worker_id: int) -> int:
        dispatched = await self._in_thread(self._store.dispatch.take, worker_id)
        await self._publish(dispatched.handovers)
        self.next_in = BUSY_SECONDS if dispatched.busy else dispatched.token_in
        if self.monotonic() >= self._look_at:  # also for what was taken when the answer of the store was lost
            self._look_at = self.monotonic() + min(self.pause, self._settings.broker_resend_seconds / 2)
            await self._send_again(worker_id)
        return len(dispatched.handovers)

    async def _send_again(self, worker_id: int) -> None:
        """Send again what was not started in time; give back what nobody serves any more."""
        waiting = await self._in_thread(self._store.dispatch.unstarted, worker_id)
        served = await self._in_thread(self._store.dispatch.served_types)
        self._sent = {e.exec_id: self._sent[e.exec_id] for e, _, _ in waiting if e.exec_id in self._sent}
        unserved = [(e.id, e.exec_id) for e, _, _ in waiting if e.type not in served]
        if unserved:
            await self._return(unserved, "no live consumer serves its type")
        before = self.monotonic() - self._settings.broker_resend_seconds
        late = [
            each
            for each in waiting
            if each.execution.type in served and self._sent.get(each.execution.exec_id, before) <= before
        ]
        if late:
            log.warning("dispatcher: %d messages started nothing in time and are sent again", len(late))
            self.counts["resent"] += len(late)
            await self._publish(late)

    async def _publish(self, handovers: Sequence[Handover]) -> None:
        if not handovers:
            return
        try:
            for queue in {each.queue for each in handovers}:
                await self._link.declare_queue(queue)
            published = await self._link.publish([task_message(*each) for each in handovers])
        except HeadgateError:
            raise
        except Exception as error:
            raise BrokerAway(f"the broker refused: {reason_of(error)}") from error
        now = self.monotonic()
        self._sent |= {each.execution.exec_id: now for each in handovers}
        self.counts["published"] += len(handovers)
        self.counts.update(str(result) for result in published)
        pairs = list(zip(handovers, published, strict=True))
        for result, reason in _REASONS.items():
            if back := [each for each, outcome in pairs if outcome is result]:
                log.warning("dispatcher: %d messages came back: %s", len(back), reason)
                await self._return([(each.execution.id, each.execution.exec_id) for each in back], reason)
                await self._link.close()  # on a new connection every queue is declared again
        if not {Published.UNCONFIRMED, Published.REFUSED}.isdisjoint(published):
            raise BrokerAway("the broker did not confirm what was published")
