"""What becomes of messages: those that come too often, too late, to a full worker, to nobody, or make no sense."""

import asyncio
import json
import random
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headgate.broker.channel import Channel
from headgate.broker.connection import Link, probe_broker
from headgate.core.states import State
from headgate.duties import Dispatcher
from headgate.duties.dispatcher import DRAINED_SECONDS, LONGEST_LEASE
from headgate.environment import new_uuid7
from headgate.store.db.statement import clock
from headgate.store.execution.workers import DISPATCHER
from headgate.store.store import configured_store
from headgate.threads import inline
from tests.broker.conftest import doing
from tests.broker.listening import at_broker, depth, headers, publish, take_all
from tests.broker.test_scenarios import by_broker, ended, kinds
from tests.worker.conftest import until, working


def exec_ids(app, task_id, kind="scheduled"):
    return [event.exec_id for event in app.store.events.of(task_id) if event.kind == kind]


def stand_in(app, *types):
    """The row of a consumer that is not there: what is dispatched for it stays in the broker."""
    detail = json.dumps({"pools": [{"types": types, "slots": 9}], "broker": True})
    return app.store.workers.register("stand-in", types=types, detail=detail, lease_seconds=600)


def test_a_message_that_meets_no_free_slot_goes_to_a_worker_that_has_one(app, broker, settings):
    """Spec: D2. RabbitMQ may hand both messages to the same worker: quorum queues know no prefetch of a channel."""
    together = threading.Barrier(2)

    @app.task
    def meet(number: int) -> int:
        together.wait(30)
        return number

    with doing(settings), working(app, name="one", threads=1), working(app, name="two", threads=1):
        until(lambda: by_broker(app))
        for round_number in range(5):
            tasks = [meet.submit_sync(number=round_number) for _ in range(2)]
            assert [task.wait_sync(30).result for task in tasks] == [round_number] * 2
            for task in tasks:
                assert kinds(app, task.id) == ["submitted", "scheduled", "started", "completed"]


def test_a_worker_of_many_queues_with_one_slot_spends_no_message_s_deliveries(app, broker, settings):
    """Spec: D2. Each queue may deliver a message before the first of them has met no slot."""
    go_on = threading.Event()

    def wait() -> None:
        go_on.wait(60)

    names = [f"waiting_{number}" for number in range(6)]
    tasks = [app.task(code=name)(wait) for name in names]
    asyncio.run(probe_broker(broker))
    take_all(broker, "headgate.dead")
    with doing(settings):
        stand_in(app, *names)
        submitted = [task.submit_sync() for task in tasks]
        until(lambda: all(kinds(app, task.id) == ["submitted", "scheduled"] for task in submitted))
        with working(app, threads=1) as worker:
            until(lambda: worker.deliveries["no slot"] > 0)
            consumer: Any = worker._consumer
            until(lambda: not consumer._channel.consumers)
            go_on.set()
            until(lambda: ended(app, *submitted))
            assert worker.deliveries["no slot"] <= len(names) ** 2
    assert depth(broker, "headgate.dead") == 0


def test_no_more_messages_are_out_than_slots_so_that_priority_goes_on_working(app, broker, settings):
    """Spec: A2, D1"""
    began, go_on, order = threading.Event(), threading.Event(), []

    @app.task
    def work(name: str) -> None:
        order.append(name)
        began.set()
        go_on.wait(30)

    with doing(settings), working(app, threads=1):
        until(lambda: by_broker(app))
        first = work.submit_sync(name="first")
        assert began.wait(30)
        later = work.submit_sync(name="later")
        urgent = work.using(priority=1).submit_sync(name="urgent")
        exact_from = time.monotonic() + 1.0  # what claims promise of the order
        until(lambda: time.monotonic() > exact_from)
        assert {app.store.tasks.get(task.id).status for task in (later, urgent)} == {State.QUEUED}
        go_on.set()
        until(lambda: ended(app, first, later, urgent))
    assert order == ["first", "urgent", "later"]


def test_an_undecodable_message_goes_to_the_dead_letter_queue(app, broker, settings):
    """Spec: D2"""
    asyncio.run(probe_broker(broker))
    take_all(broker, "headgate.dead")

    @app.task
    def plain() -> int:
        return 1

    queue = "headgate.tasks.default.plain"
    with doing(settings), working(app) as worker:
        until(lambda: by_broker(app))
        for properties in (
            {},
            {"message_id": "x"},
            {"headers": {"task_id": 1}, "message_id": ""},
            {"message_id": "x", "headers": {"task_id": "1"}},
            {"message_id": "x", "headers": {"task_id": -1}},
        ):
            publish(broker, "headgate.tasks", queue, **properties)
        until(lambda: worker.deliveries.get("received", 0) == 5)
        assert plain.submit_sync().wait_sync(30).result == 1
        refused = worker.deliveries["undecodable"]
        until(lambda: depth(broker, "headgate.dead") == refused)
        until(lambda: app.store.broker_reports.current().dead_letters == refused)
    assert refused == 4, "an empty id names a task, and is stale"
    assert {headers(message)["x-first-death-reason"] for message in take_all(broker, "headgate.dead")} == {"rejected"}


def test_duplicate_and_shuffled_deliveries_under_load_run_nothing_twice(app, broker, settings):
    """Spec: D2"""
    runs: Counter[int] = Counter()
    lock = threading.Lock()

    @app.task
    async def tick(number: int) -> None:
        with lock:
            runs[number] += 1

    queue = "headgate.tasks.default.tick"
    with doing(settings), working(app, concurrency=8):
        until(lambda: by_broker(app))
        tasks = [tick.submit_sync(number=number) for number in range(200)]
        until(lambda: len(runs) > 20)
        seen = [(task.id, exec_id) for task in tasks for exec_id in exec_ids(app, task.id)]
        random.Random(7).shuffle(seen)
        for task_id, exec_id in seen[:60]:
            publish(broker, "headgate.tasks", queue, message_id=exec_id, headers={"task_id": task_id})
        until(lambda: ended(app, *tasks), 60)
        until(lambda: depth(broker, queue) == 0)
    assert runs == Counter(range(200))


def test_a_message_that_was_lost_is_sent_again_under_the_same_exec_id(app, broker, settings):
    """Spec: D1, E4"""

    @app.task(code=f"lonely-{new_uuid7()}")
    def lonely() -> int:
        return 1

    queue = f"headgate.tasks.default.{lonely._handler.code}"
    app.store  # noqa: B018 registers the type
    stand_in(app, lonely._handler.code)
    with doing(settings, [Dispatcher], broker_resend_seconds=0.2):
        task = lonely.submit_sync()
        until(lambda: app.store.tasks.get(task.id).status is State.SCHEDULING)
        until(lambda: depth(broker, queue) == 1)
        at_broker(broker, lambda channel: channel.queue_purge(queue))
        until(lambda: depth(broker, queue) >= 1)
        [exec_id] = exec_ids(app, task.id)
        assert {message.header.properties.message_id for message in take_all(broker, queue)} == {exec_id}
        with working(app):
            assert task.wait_sync(30).result == 1
    assert app.store.tasks.get(task.id).attempt == 1
    assert kinds(app, task.id) == ["submitted", "scheduled", "started", "completed"]


@pytest.mark.parametrize("resend", [0.3])
def test_a_queue_that_was_deleted_is_made_again_and_loses_nothing(app, broker, settings):
    """Spec: D1, D2"""

    @app.task
    def often(number: int) -> int:
        return number

    queue = "headgate.tasks.default.often"
    with doing(settings), working(app):
        until(lambda: by_broker(app))
        assert often.submit_sync(number=1).wait_sync(30).result == 1
        for number in (2, 3):
            at_broker(broker, lambda channel: channel.queue_delete(queue))
            assert often.submit_sync(number=number).wait_sync(30).result == number


def test_an_unroutable_message_leaves_its_task_dispatchable_and_on_record(app, broker, settings):
    """Spec: D1"""

    @app.task(code=f"lost-{new_uuid7()}")
    def lost() -> int:
        return 1

    app.store  # noqa: B018 registers the type
    stand_in(app, lost._handler.code)
    queue = f"headgate.tasks.default.{lost._handler.code}"
    with doing(settings, [Dispatcher]):
        first = lost.submit_sync()
        until(lambda: depth_or_none(broker, queue) == 1)
        at_broker(broker, lambda channel: channel.queue_delete(queue))
        second = lost.submit_sync()
        until(lambda: "given_back" in kinds(app, second.id))
        [back] = [event for event in app.store.events.of(second.id) if event.kind == "given_back"]
        assert (back.actor, json.loads(back.detail)["reason"]) == ("system:dispatcher", "unroutable: its queue is gone")
        until(lambda: depth_or_none(broker, queue) == 1)
        assert app.store.tasks.get(first.id).status is State.SCHEDULING, "it will be sent again"


def depth_or_none(broker, queue):
    try:
        return depth(broker, queue)
    except Exception:
        return None


def test_what_no_live_consumer_serves_any_more_goes_back_to_its_queue(app, broker, settings):
    """Spec: D1"""

    @app.task
    def orphan() -> int:
        return 1

    app.store  # noqa: B018 registers the type
    consumer = stand_in(app, "orphan")
    with doing(settings, [Dispatcher]):
        task = orphan.submit_sync()
        until(lambda: app.store.tasks.get(task.id).status is State.SCHEDULING)
        app.store.workers.leave(consumer)
        until(lambda: app.store.tasks.get(task.id).status is State.QUEUED)
    assert app.store.tasks.get(task.id).error_count == 0


def test_what_was_paused_while_its_message_was_out_is_held_back(app, broker, settings):
    """Spec: A9, D2"""

    @app.task
    def held() -> int:
        return 1

    app.store  # noqa: B018 registers the type
    stand_in(app, "held")
    with doing(settings, [Dispatcher]):
        task = held.submit_sync()
        until(lambda: app.store.tasks.get(task.id).status is State.SCHEDULING)
        app.store.lanes.pause("default")
        with working(app):
            until(lambda: kinds(app, task.id)[-1] == "given_back")
            assert app.store.tasks.get(task.id).status is State.QUEUED
            app.store.lanes.resume("default")
            assert task.wait_sync(30).result == 1


def test_a_dispatcher_that_stops_leaves_its_tasks_to_the_next_and_to_workers(app, broker, settings):
    """Spec: D9"""

    @app.task
    def kept() -> int:
        return 1

    app.store  # noqa: B018 registers the type
    stand_in(app, "kept")
    with doing(settings, [Dispatcher]):
        task = kept.submit_sync()
        until(lambda: app.store.tasks.get(task.id).status is State.SCHEDULING)
    assert app.store.tasks.get(task.id).status is State.QUEUED
    assert [each for each in app.store.workers.all() if each.name == DISPATCHER] == []
    with working(app):
        assert task.wait_sync(30).result == 1


def test_of_two_dispatchers_one_dispatches_and_the_other_takes_over(app, broker, settings):
    """Spec: D1"""

    @app.task
    def shared(number: int) -> int:
        return number

    def leader():
        found = [each.id for each in app.store.workers.all() if each.name == DISPATCHER]
        return found[0] if len(found) == 1 else None

    with doing(settings, [Dispatcher]), working(app):
        with doing(settings, [Dispatcher]):
            until(lambda: by_broker(app))
            before = leader()
            assert [shared.submit_sync(number=n).wait_sync(30).result for n in range(5)] == [*range(5)]
            assert leader() == before is not None
        until(lambda: leader() is not None)
        assert shared.submit_sync(number=7).wait_sync(30).result == 7


def test_a_waiting_parent_lends_its_slot_to_its_child_in_broker_mode_too(app, broker, settings):
    """Spec: D7"""

    @app.task
    async def inner() -> int:
        return 1

    @app.task
    async def outer() -> int:
        task = await inner.submit()
        return int((await task.wait(30)).result) + 1

    with doing(settings), working(app, concurrency=1):
        until(lambda: by_broker(app))
        assert outer.submit_sync().wait_sync(30).result == 2


@pytest.mark.parametrize("resend", [0.5])
def test_an_awaited_task_in_the_broker_runs_though_everyone_who_could_take_it_waits_for_it(app, broker, settings):
    """Spec: D1, D7"""
    go_on = threading.Event()

    @app.task
    def inner() -> int:
        return 1

    @app.task
    def outer() -> int:
        task = inner.submit_sync()
        go_on.wait(30)
        return int(task.wait_sync(30).result) + 1

    with doing(settings), working(app, threads=1):
        until(lambda: by_broker(app))
        another = stand_in(app, "inner")
        task = outer.submit_sync()
        until(lambda: any(each.status is State.SCHEDULING for each in inners(app)))
        app.store.workers.leave(another)
        go_on.set()
        assert task.wait_sync(30).result == 2
    [child] = inners(app)
    [back] = [event for event in app.store.events.of(child.id) if event.kind == "given_back"]
    assert json.loads(back.detail)["reason"] == "no live consumer has a free slot for it"


def inners(app):
    return [task for task in app.store.tasks.find().items if task.type == "inner"]


def test_a_message_that_starts_nothing_is_sent_again_later_each_time(app, broker, settings):
    """Spec: D1, E4"""

    @app.task(code=f"patient-{new_uuid7()}")
    def patient() -> int:
        return 1

    patient.submit_sync()
    stand_in(app, patient._handler.code)
    now = 0.0

    async def dispatch():
        nonlocal now
        dispatcher = Dispatcher(app.store, settings, inline)
        dispatcher.monotonic = lambda: now
        sent = []
        try:
            for passed in (0, 0, 10, 10, 10, 20, 20):
                now += passed
                await dispatcher.turn()
                sent.append(dispatcher.counts["published"])
        finally:
            await dispatcher.stop()
        return sent

    assert asyncio.run(dispatch()) == [1, 1, 2, 2, 3, 3, 4]
    assert len(take_all(broker, f"headgate.tasks.default.{patient._handler.code}")) == 4


def test_a_dispatcher_claims_again_at_once_only_if_every_slot_is_taken(app, broker, settings):
    """Spec: D1. A claim in vain would run beside the starts of what was just handed over."""

    @app.task
    def scarce() -> None: ...

    scarce.submit_sync()
    stand_in(app, "scarce")  # with nine slots

    async def turns():
        dispatcher = Dispatcher(app.store, settings, inline)
        try:
            yield await dispatcher.turn(), dispatcher.next_in
            app.submit_many_sync([scarce.call() for _ in range(20)])
            yield await dispatcher.turn(), dispatcher.next_in
        finally:
            await dispatcher.stop()

    async def followed():
        return [turn async for turn in turns()]

    assert asyncio.run(followed()) == [(0, DRAINED_SECONDS), (8, None)]


@pytest.mark.parametrize("prefetch", [0])
def test_a_prefetch_of_0_takes_as_many_messages_at_once_as_there_are_slots(app, broker, settings, monkeypatch):
    """Spec: D2"""
    asked, ask = [], Channel.basic_qos

    async def noted(channel, count):
        asked.append(count)
        await ask(channel, count)

    monkeypatch.setattr(Channel, "basic_qos", noted)

    @app.task
    async def light() -> None: ...

    @app.task
    def heavy() -> None: ...

    with doing(settings), working(app, concurrency=12, threads=2):
        until(lambda: by_broker(app))
        light.submit_sync().wait_sync(30)
        heavy.submit_sync().wait_sync(30)
    assert asked == [3, 1], "five consumers of the one queue, two of the other"


def test_a_dispatcher_that_dies_holds_up_starts_for_seconds_however_long_the_leases_of_workers_are(settings):
    """Spec: D1"""

    async def lease():
        with configured_store(replace(settings, lease_seconds=600.0, beat_seconds=60.0)) as store:
            dispatcher = Dispatcher(store, replace(settings, lease_seconds=600.0, beat_seconds=60.0), inline)
            await dispatcher.turn()
            [record] = [each for each in store.workers.all() if each.kind == "dispatcher"]
            left = record.lease_until - store.database.read(clock)
            await dispatcher.stop()
            return left

    assert timedelta(0) < asyncio.run(lease()) <= timedelta(seconds=LONGEST_LEASE)


def test_a_broker_that_confirms_slowly_costs_the_dispatcher_no_lease(app, broker, settings, monkeypatch):
    """Spec: D1"""
    beats = threading.Semaphore(0)
    publish_all = Link.publish

    async def publish_slowly(link, messages):
        """Confirms that come when the lease would be over, had nobody renewed it."""
        if link._name == "headgate dispatcher" and messages:
            for _ in range(3):
                await asyncio.to_thread(beats.acquire, timeout=60)
        return await publish_all(link, messages)

    monkeypatch.setattr(Link, "publish", publish_slowly)

    @app.task
    def patient() -> int:
        return 1

    with doing(settings, [Dispatcher], beat_seconds=0.1) as [dispatcher], working(app):
        until(lambda: by_broker(app))
        beat = dispatcher._store.workers.beat

        def noted(worker_id, *told):
            beats.release()
            return beat(worker_id, *told)

        monkeypatch.setattr(dispatcher._store.workers, "beat", noted)
        assert patient.submit_sync().wait_sync(60).result == 1
        assert kinds(app, 1) == ["submitted", "scheduled", "started", "completed"]
