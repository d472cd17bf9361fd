"""Bugs to be planted where tasks go through the broker and events to it: as a tired colleague would."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import headgate.duties.dispatcher as dispatcher
import headgate.duties.relay as relay
import headgate.store.claim.sqlite as claim_sqlite
import headgate.store.execution.dispatch as dispatch
import headgate.store.history.history as history
from headgate.broker.audience import Audience, Topic, topic_of
from headgate.broker.topology import Message, task_message
from headgate.core.dispatch import Budget, budgets
from headgate.core.events import Heading
from headgate.core.pause import PauseScope
from headgate.core.task import Execution
from headgate.duties.relay import Relay
from headgate.environment import new_ids
from headgate.simulation.broker import FORGETS_CONFIRMS, LOSES
from headgate.simulation.plan import CLIENTS, Move
from headgate.store.catalog.catalog import Catalog
from headgate.store.events.subscriptions import Lease
from headgate.store.execution.dispatch import Dispatch, Dispatched
from headgate.worker.pool import Pool
from tests.simulation.bugs import Patch, bug, reworded, submits


def broken(at: float, what: str, **parameters: Any) -> Move:
    return Move(at, "break_broker", {"what": what, **parameters})


def paused(*times: float) -> list[Move]:
    parameters = {"client": CLIENTS[0], "scope": PauseScope.TYPE, "name": "plain"}
    return [Move(at, "set_pause", {**parameters, "seconds": 1.0}) for at in times]


@bug("I12", broker=True)
def a_message_is_acknowledged_as_it_comes(patch: Patch) -> None:
    """It has arrived: the broker may forget it."""
    offer = Pool.offer

    def offer_and_acknowledge(self: Pool, delivery: Any) -> bool:
        taken = offer(self, delivery)
        if taken:
            delivery.settle(True)
        return taken

    patch.setattr(Pool, "offer", offer_and_acknowledge)


@bug("I12", broker=True, more=[*submits(5.0, 6, "plain"), broken(4.9, "fall_ill", how=LOSES, seconds=5.0)])
def a_message_that_is_sent_again_gets_a_new_exec_id(patch: Patch) -> None:
    """Each message has an id of its own."""
    sent: set[str] = set()

    def fresh_message(execution: Execution, submitted_at: datetime, queue: str) -> Message:
        again = execution.exec_id in sent
        sent.add(execution.exec_id)
        return task_message(execution._replace(exec_id=new_ids(1)[0]) if again else execution, submitted_at, queue)

    patch.setattr(dispatcher, "task_message", fresh_message)


@bug("I1", "I6", "I8", "I13", broker=True, more=[
    *submits(5.0, 6, "plain"), broken(4.9, "fall_ill", how=LOSES, seconds=5.0),
])  # fmt: skip
def a_message_that_was_confirmed_is_never_sent_again(patch: Patch) -> None:
    """The broker has it, so it will come."""
    patch.setattr(dispatch, "UNSTARTED", reworded(dispatch.UNSTARTED, "status = 'scheduling'", "false"))


@bug("I4", broker=True, more=[*paused(4.0, 6.0, 8.0), *submits(4.5, 6, "plain")])
def tasks_are_dispatched_while_their_type_is_paused(patch: Patch) -> None:
    """Whether it is paused is looked at when it starts."""
    take = Dispatch.take

    def take_whatever_is_paused(self: Dispatch, worker_id: int) -> Dispatched:
        with Patch.context() as within:
            within.setattr(claim_sqlite, "held_by", lambda pauses, streams: {})
            return take(self, worker_id)

    patch.setattr(Dispatch, "take", take_whatever_is_paused)


@bug("I4", broker=True, more=[
    *submits(4.0, 9, "plain", seconds=0.3), *paused(*(4.0 + number / 50 for number in range(40))),
])  # fmt: skip
def a_message_starts_what_was_paused_meanwhile(patch: Patch) -> None:
    """It was not paused when it was handed over."""
    patch.setattr(Catalog, "pause_of", lambda self, db, stream: None)


@bug("I12", broker=True, more=submits(4.0, 20, "plain", seconds=1.5))
def what_is_in_the_broker_takes_no_slot(patch: Patch) -> None:
    """A slot is taken when a task runs in it."""

    def unaware(slots: Iterable[tuple[frozenset[str], int]], in_broker: Mapping[str, int]) -> list[Budget]:
        return budgets(slots, {})

    patch.setattr(dispatch, "budgets", unaware)


@bug(
    "I13",
    broker=True,
    more=[broken(5.0, "fall_ill", how=FORGETS_CONFIRMS, seconds=3.0), broken(6.0, "stop", seconds=3.0)],
)
def the_relay_moves_on_before_the_broker_has_confirmed(patch: Patch) -> None:
    """Whoever publishes has published."""

    async def save_and_publish(self: Relay, lease: Lease) -> int:
        page, after = await self._in_thread(self._store.events.headings_after, lease.place, relay.PAGE)
        if page:
            await self._save(Lease(after, 0), [])
            await self._publish([event for event in page if event.task_id is not None])
        return len(page)

    patch.setattr(Relay, "_relay", save_and_publish)


@bug("I13", broker=True)
def who_did_not_listen_is_not_asked_again(patch: Patch) -> None:
    """Nobody has bound a queue to that."""
    silent: set[Topic] = set()
    learn, questions = Audience.learn, Audience.questions

    def remember(self: Audience, events: Iterable[Heading], returned: Collection[int]) -> None:
        events = list(events)
        silent.update(topic_of(event) for event in events if event.id in returned)
        learn(self, events, returned)

    def ask_the_others(self: Audience, page: Sequence[Heading]) -> list[Heading]:
        return questions(self, [event for event in page if topic_of(event) not in silent])

    patch.setattr(Audience, "learn", remember)
    patch.setattr(Audience, "questions", ask_the_others)


@bug("I13", broker=True)
def final_failures_are_events_like_others(patch: Patch) -> None:
    """Whoever wants to know of failures follows the events."""
    patch.setattr(relay, "FINAL_FAILURES", frozenset())


@bug("I13", broker=True, more=[
    *submits(5.0, 6, "plain"), broken(4.9, "stop", seconds=6.0),
    *(Move(at, "purge", {"client": CLIENTS[0], "seconds": 0.0}) for at in (6.0, 8.0, 10.0)),
])  # fmt: skip
def retention_waits_for_nobody(patch: Patch) -> None:
    """What is old is old."""
    patch.setattr(history, "lowest_floor", lambda db: None)
