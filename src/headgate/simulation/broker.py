"""A RabbitMQ that keeps its promises to the letter, and on bad days not even those; it records what passes through."""

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from headgate.broker.channel import QueueState
from headgate.broker.confirms import Published
from headgate.broker.topology import DELIVERY_LIMIT, EVENTS, TASKS, Message
from headgate.simulation.evidence import MessageEntry
from headgate.simulation.process import LATENCIES

if TYPE_CHECKING:
    from headgate.simulation.link import SimulatedChannel

# What may befall it, in the words of a plan: methods of `SimulatedBroker`.
FAULTS = ("stop", "cut", "cut_in_mid_publish", "purge_queue", "delete_queue", "send_garbage", "fall_ill", "fall_ill")
# Bad days, each for a while. What a real one does not do unless a connection is lost is the harder case.
LOSES, FORGETS_CONFIRMS, FORGETS_ACKS, REPEATS, DELAYS, SHUFFLES, REFUSES, SILENT = CONDITIONS = (
    "loses messages", "forgets confirms", "forgets acks", "repeats messages", "delays messages", "shuffles messages",
    "refuses messages", "says nothing",
)  # fmt: skip
BAD_SHARE = 0.4  # of the messages on a bad day
LONGEST_DELAY = 9.0  # seconds
LISTENING = ((1.0, 1.0), (1.0, 0.0), (1.0, 0.5), (7.0, 0.5))
GARBAGE = Message(TASKS, "", "garbage", headers={"task_id": "none"})


class Refused(ConnectionError):
    """The broker is away, or the connection to it is."""


@dataclass(eq=False, slots=True)
class QueuedMessage:
    """A message in a queue, and how often it was delivered in vain."""

    message: Message
    returns: int = 0


@dataclass(eq=False, slots=True)
class Consumer:
    """A consumer of a queue, with a limit on unacknowledged messages."""

    consumer_tag: str
    channel: "SimulatedChannel"
    queue: "Queue"
    prefetch: int
    unacknowledged: int = 0

    @property
    def is_free(self) -> bool:
        return not self.prefetch or self.unacknowledged < self.prefetch


@dataclass(eq=False, slots=True)
class Queue:
    """A queue for tasks, bound under its own name; its consumers take turns."""

    name: str
    messages: deque[QueuedMessage] = field(default_factory=deque)
    consumers: list[Consumer] = field(default_factory=list)

    def next_consumer(self) -> Consumer | None:
        for number, consumer in enumerate(self.consumers):
            if consumer.is_free:
                self.consumers.append(self.consumers.pop(number))
                return consumer
        return None


class SimulatedBroker:
    """Queues and connections. A restart keeps what was confirmed, and delivers unacknowledged messages again.

    A message on `headgate.events` or `headgate.dead` is confirmed only when it was taken, or has no listener. Messages
    of a channel are taken in the order in which it sent them: of a broken batch, the beginning.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        later: Callable[..., object],
        rng: random.Random,
        faults: Counter[str],
        last_row: Callable[[], int],
    ) -> None:
        self.entries: list[MessageEntry] = []
        self.rng = rng
        self.clock = clock
        self.later = later
        self._faults = faults
        self._last_row = last_row
        self._queues: dict[str, Queue] = {}
        self._channels: dict[SimulatedChannel, None] = {}
        self._tags = count(1)
        self._down_until = 0.0
        self._bad_until: dict[str, float] = {}
        self._listening: dict[str, tuple[float, float]] = {}  # by kind of event: the period, and the share of it
        self._cut_next: set[str] = set()  # processes whose next batch is cut off in the middle

    @property
    def latency(self) -> float:
        return self.rng.choice(LATENCIES)

    # faults

    def suffer(self, what: str, **parameters: Any) -> None:
        """One of `FAULTS`."""
        if what != "fall_ill":  # of which each message counts
            self._faults[f"broker: {what}"] += 1
        getattr(self, what)(**parameters)

    def stop(self, seconds: float) -> None:
        """Go down with every connection, and be away for a while."""
        self._down_until = max(self._down_until, self.clock() + seconds)
        for consumer in [each for channel in self._channels for each in channel.consumers.values()]:
            self.cancel(consumer)  # before anything goes back to a queue: no consumer may get it
        for channel in list(self._channels):
            self.disconnect(channel)

    def fall_ill(self, how: str, seconds: float) -> None:
        self._bad_until[how] = self.clock() + seconds

    def is_ill(self, how: str) -> bool:
        return self.clock() < self._bad_until.get(how, 0.0)

    def strikes(self, how: str) -> bool:
        """Whether it is a bad day of that kind, and this message is affected."""
        struck = self.is_ill(how) and self.rng.random() < BAD_SHARE
        if struck:
            self._faults[f"broker {how}"] += 1
        return struck

    def cut(self, process: str) -> None:
        """Lose every connection of a process."""
        for channel in [each for each in self._channels if each.process.name == process]:
            self.disconnect(channel)

    def cut_in_mid_publish(self, process: str) -> None:
        """Lose the connection on which a process publishes next, with only a part of that taken."""
        self._cut_next.add(process)

    def purge_queue(self, pick: float) -> None:
        for queue in self._picked(pick):
            queue.messages.clear()

    def delete_queue(self, pick: float) -> None:
        for queue in self._picked(pick):
            self.delete(queue.name)

    def send_garbage(self, pick: float) -> None:
        """Publish a message that is not one of ours."""
        for queue in self._picked(pick):
            self._queue(queue, GARBAGE)

    def _picked(self, pick: float) -> list[Queue]:
        """One of the queues, one with messages if there is any; none if there is no queue."""
        queues = list(self._queues.values())
        full = [queue for queue in queues if queue.messages] or queues
        return [full[int(pick * len(full))]] if full else []

    def heal(self) -> None:
        self._down_until = 0.0
        self._bad_until.clear()
        self._cut_next.clear()

    # connections

    def connect(self, channel: "SimulatedChannel") -> None:
        if self.clock() < self._down_until:
            raise Refused("the connection was refused")
        self._channels[channel] = None

    def disconnect(self, channel: "SimulatedChannel") -> None:
        """Forget a connection: what was delivered on it and not acknowledged goes back to its queue."""
        if channel not in self._channels:
            return
        del self._channels[channel]
        for consumer in list(channel.consumers.values()):
            self.cancel(consumer)
        unacknowledged, channel.unacknowledged = channel.unacknowledged, {}
        for consumer, queued in reversed(unacknowledged.values()):
            self._return(consumer.queue, queued)
        channel.closed()

    def drop(self, process: object) -> None:
        """The process is gone, and its connections with it."""
        for channel in [each for each in self._channels if each.process is process]:
            self.disconnect(channel)

    def declare(self, name: str) -> QueueState:
        queue = self._queues.setdefault(name, Queue(name))
        return QueueState(len(queue.messages), len(queue.consumers))

    def delete(self, name: str) -> None:
        if (queue := self._queues.pop(name, None)) is not None:
            for consumer in list(queue.consumers):  # who are told
                self.cancel(consumer)

    def consume(self, channel: "SimulatedChannel", name: str, prefetch: int) -> Consumer:
        consumer = Consumer(f"consumer {next(self._tags)}", channel, self._queues[name], prefetch)
        channel.consumers[consumer.consumer_tag] = consumer
        consumer.queue.consumers.append(consumer)
        self._pump(consumer.queue)
        return consumer

    def cancel(self, consumer: Consumer) -> None:
        consumer.channel.consumers.pop(consumer.consumer_tag, None)
        if consumer in consumer.queue.consumers:
            consumer.queue.consumers.remove(consumer)

    # messages

    def publish(self, channel: "SimulatedChannel", messages: list[Message]) -> Iterator[Published]:
        """What becomes of each message; ends early if the channel hears nothing about the rest."""
        cut_at = None
        if channel.process.name in self._cut_next:
            self._cut_next.discard(channel.process.name)
            cut_at = self.rng.randrange(len(messages))
        for number, message in enumerate(messages):
            self.note("sent", message)
            if self.is_ill(SILENT):
                self._faults[f"broker {SILENT}"] += 1
                return
            if number == cut_at or (message.exchange != TASKS and self.strikes(LOSES)):
                self._faults["broker connection cut in a publish"] += 1
                self.disconnect(channel)
                return
            result = self._take(message)
            yield Published.UNCONFIRMED if self.strikes(FORGETS_CONFIRMS) else result
            if result is Published.REFUSED and message.exchange != TASKS:
                return

    def _take(self, message: Message) -> Published:
        if self.strikes(REFUSES):
            return Published.REFUSED
        queue = self._queues.get(message.routing_key) if message.exchange == TASKS else None
        if message.exchange == EVENTS and not self._is_heard(message):
            self.note("returned" if message.mandatory else "dropped", message)
            return Published.RETURNED if message.mandatory else Published.CONFIRMED
        if message.exchange == TASKS and queue is None and message.mandatory:
            return Published.RETURNED
        for _ in range(1 + self.strikes(REPEATS)):
            self.note("taken", message)
            if queue is not None and not self.strikes(LOSES):
                self._queue(queue, message)
        return Published.CONFIRMED

    def _is_heard(self, message: Message) -> bool:
        """Whether somebody is bound to the events of this kind: always, never, or again and again for a while."""
        kind = message.headers["kind"]
        if kind not in self._listening:
            self._listening[kind] = self.rng.choice(LISTENING)
        period, share = self._listening[kind]
        return self.clock() % period < share * period

    def _queue(self, queue: Queue, message: Message) -> None:
        if self.strikes(DELAYS):
            self.later(self.rng.uniform(0.0, LONGEST_DELAY), self._put, queue, QueuedMessage(message))
        else:
            self._put(queue, QueuedMessage(message))

    def _put(self, queue: Queue, queued: QueuedMessage) -> None:
        place = self.rng.randint(0, len(queue.messages)) if self.strikes(SHUFFLES) else len(queue.messages)
        queue.messages.insert(place, queued)
        self._pump(queue)

    def _pump(self, queue: Queue) -> None:
        while queue.messages and (consumer := queue.next_consumer()) is not None:
            consumer.unacknowledged += 1
            consumer.channel.deliver(consumer, queue.messages.popleft())

    def settle(self, channel: "SimulatedChannel", tag: int, *, requeue: bool | None) -> None:
        """Handle the answer to a delivery: acknowledged (None), to be queued again, or rejected for good."""
        if tag not in channel.unacknowledged or self.strikes(FORGETS_ACKS):
            return
        consumer, queued = channel.unacknowledged.pop(tag)
        consumer.unacknowledged -= 1
        if requeue:
            self._return(consumer.queue, queued)
        elif requeue is False:
            self.note("buried", queued.message)
        self._pump(consumer.queue)

    def _return(self, queue: Queue, queued: QueuedMessage) -> None:
        queued.returns += 1
        if queued.returns > DELIVERY_LIMIT:
            self.note("buried", queued.message)
        else:
            queue.messages.appendleft(queued)
            self._pump(queue)

    def note(self, what: str, message: Message) -> None:
        task_id = message.headers.get("task_id")
        named = task_id if isinstance(task_id, int) else None
        self.entries.append(MessageEntry(self._last_row(), what, message.exchange, message.message_id, named))
