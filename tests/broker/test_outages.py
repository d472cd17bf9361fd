"""A broker that is away, is killed in mid-load, or takes nothing: the store alone is enough, and nothing is lost."""

import asyncio
import threading
from collections import Counter

import pytest

from headgate.app import Headgate
from headgate.broker.connection import BrokerAway, probe_broker
from headgate.core.states import State
from headgate.duties import Dispatcher, Relay
from headgate.settings import Settings
from headgate.store.store import configured_store
from headgate.threads import Threads
from tests.broker.conftest import doing
from tests.broker.listening import subscribed
from tests.broker.test_scenarios import by_broker, ended, kinds
from tests.worker.conftest import until, working

on_one_database = pytest.mark.parametrize("url", ["sqlite"], indirect=True)  # a broker takes its time to start
TERMINAL = {"completed", "failed", "dead_lettered", "cancelled"}


@pytest.fixture
def stopped(server):
    """The broker, which is not there; it runs again afterwards."""
    server.stop("immediate")
    yield server
    if not server.is_running:
        server.start()


@on_one_database
def test_without_the_broker_workers_claim_from_the_store_and_return_to_it_by_themselves(app, stopped, settings, caplog):
    """Spec: D1"""

    @app.task
    def steady(number: int) -> int:
        return number

    with doing(settings), working(app):
        assert steady.submit_sync(number=1).wait_sync(30).result == 1
        until(lambda: "consumer: the broker at 127.0.0.1" in caplog.text and "dispatcher: the broker at" in caplog.text)
        assert "guest:guest" not in caplog.text
        stopped.start()
        until(lambda: by_broker(app), 60)
        task = steady.submit_sync(number=2)
        assert task.wait_sync(30).result == 2
        assert "scheduled" in kinds(app, task.id)


def test_a_broker_killed_and_started_again_in_mid_load_loses_nothing_and_ends_nothing_twice(app, server, settings):
    """Spec: D1, D2, D6"""
    runs: Counter[int] = Counter()
    lock = threading.Lock()

    @app.task
    async def load(number: int) -> None:
        with lock:
            runs[number] += 1

    with doing(settings), working(app, concurrency=5, name="one"), working(app, concurrency=5, name="two"):
        until(lambda: by_broker(app))
        tasks = [load.submit_sync(number=number) for number in range(300)]
        until(lambda: len(runs) > 30)
        server.stop("immediate")
        tasks += [load.submit_sync(number=number) for number in range(300, 400)]
        until(lambda: ended(app, *tasks), 60)
        server.start()
        until(lambda: by_broker(app), 120)  # RabbitMQ 3.10 may have lost the queue, which is then declared again
        last = load.submit_sync(number=400)
        until(lambda: ended(app, last))
        assert "scheduled" in kinds(app, last.id)
    assert runs == Counter(range(401))
    for task in [*tasks, last]:
        assert [kind for kind in kinds(app, task.id) if kind in TERMINAL] == ["completed"]


@on_one_database
def test_events_wait_in_the_store_while_the_broker_is_away_and_come_in_order(app, server, settings):
    """Spec: D6"""

    @app.task
    def noted() -> None:
        pass

    def place():
        return next(each.place for each in app.store.subscriptions.all() if each.name == "headgate:relay")

    with working(app), doing(settings, [Relay]):
        until(lambda: any(each.name == "headgate:relay" for each in app.store.subscriptions.all()))
        server.stop("immediate")
        tasks = [noted.submit_sync() for _ in range(10)]
        until(lambda: ended(app, *tasks))
        assert place().floor <= app.store.events.of(tasks[0].id)[0].id, "nothing was confirmed"
    server.start()
    with subscribed(server.url, "task.#") as subscriber, doing(settings, [Relay]):
        until(lambda: all(subscriber.kinds(task.id) == kinds(app, task.id) for task in tasks))
    [relay] = [each for each in app.store.subscriptions.all() if each.name == "headgate:relay"]
    assert (relay.failed, relay.skipped, relay.holder) == (0, 0, None)


@on_one_database
def test_a_broker_short_of_memory_confirms_nothing_and_work_goes_on_from_the_store(app, server, settings):
    """Spec: D1"""

    @app.task
    def frugal(number: int) -> int:
        return number

    with doing(settings, [Dispatcher]), working(app):
        until(lambda: by_broker(app))
        server.control("set_vm_memory_high_watermark", "0.0001")
        try:
            tasks = [frugal.submit_sync(number=number) for number in range(5)]
            until(lambda: ended(app, *tasks), 60)
            until(lambda: not app.store.dispatch.is_live())
            assert frugal.submit_sync(number=5).wait_sync(30).result == 5
        finally:
            server.control("set_vm_memory_high_watermark", "0.4")
        until(lambda: by_broker(app), 60)
        assert frugal.submit_sync(number=9).wait_sync(30).result == 9


def test_a_node_that_cannot_be_used_is_followed_by_the_next_and_none_is_named_with_its_password(server):
    """Spec: D1, X6"""
    away = "amqp://u:secret-word@127.0.0.1:1/"
    assert asyncio.run(probe_broker(f"{away},{server.url}")).startswith("RabbitMQ 3.")
    with pytest.raises(BrokerAway, match=r"at 127\.0\.0\.1:1 cannot be used.*at 127\.0\.0\.1:2 cannot") as refused:
        asyncio.run(probe_broker(f"{away},{away.replace(':1/', ':2/')}"))
    assert "secret-word" not in str(refused.value)


@on_one_database
@pytest.mark.parametrize("kind", [Dispatcher, Relay])
def test_a_duty_that_cannot_use_the_broker_rests_whatever_wakes_it(url, kind):
    """Spec: D1"""
    came = []

    async def hang_up(_, writer):
        came.append(writer)
        writer.close()

    async def turns():
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as door:
            settings = Settings(url=url, broker=f"amqp://127.0.0.1:{door.sockets[0].getsockname()[1]}/")
            with configured_store(settings) as store:
                threads, now = Threads("a duty", 1), 1000.0
                duty = kind(store, settings, threads)
                duty.monotonic = lambda: now
                for seconds in (0.0, 0.0, duty.pause):
                    now += seconds
                    await duty.turn()
                    yield len(came)
                threads.close()

    async def followed():
        return [count async for count in turns()]

    assert asyncio.run(followed()) == [1, 1, 2]


@on_one_database
def test_a_dispatcher_that_does_not_lead_rests_whatever_wakes_it(settings, monkeypatch):
    """Spec: D1. Else each commit would cost one write more for every process that could dispatch."""

    async def turns():
        with configured_store(settings) as store:
            threads, now, asked = Threads("a duty", 1), 1000.0, []
            assert store.dispatch.lead(600.0) is not None
            lead = store.dispatch.lead

            def ask(*said):
                asked.append(said)
                return lead(*said)

            monkeypatch.setattr(store.dispatch, "lead", ask)
            duty = Dispatcher(store, settings, threads)
            duty.monotonic = lambda: now
            for seconds in (0.0, 0.0, duty.pause):
                now += seconds
                await duty.turn()
                yield len(asked)
            await duty.stop()
            threads.close()

    async def followed():
        return [count async for count in turns()]

    assert asyncio.run(followed()) == [1, 1, 2]


@on_one_database
def test_a_wrong_password_is_a_line_in_the_log_without_it_and_work_goes_on(url, server, caplog):
    """Spec: D1, X6"""
    wrong = server.url.replace("guest:guest", "guest:no-such-word")
    app = Headgate(settings=Settings(url=url, broker=wrong, poll_seconds=0.2))

    @app.task
    def plain() -> int:
        return 1

    with working(app), doing(app._settings, [Dispatcher]):
        assert plain.submit_sync().wait_sync(30).result == 1
        until(lambda: "cannot be used" in caplog.text)
    assert app.store.tasks.get(1).status is State.SUCCEEDED
    app.close()
    assert "no-such-word" not in caplog.text
