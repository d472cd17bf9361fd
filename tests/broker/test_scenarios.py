"""The seven scenarios of D13, on a real RabbitMQ and on both databases."""

import asyncio
import json
import threading
from collections import Counter

import headgate
from headgate.broker.connection import probe_broker
from headgate.core.states import State
from headgate.store.reading.lists import Filter
from tests.broker.conftest import doing
from tests.broker.listening import depth, headers, publish, subscribed, take_all
from tests.worker.conftest import until, working


def by_broker(app):
    """Whether a dispatcher lives and every worker takes what the broker delivers."""
    found = [worker for worker in app.store.workers.all() if worker.kind == "worker"]
    connected = bool(found) and all('"fed":true' in (each.detail or "") for each in found)
    return connected and app.store.dispatch.is_live()


def kinds(app, task_id):
    return [event.kind for event in app.store.events.of(task_id)]


def ended(app, *tasks):
    return all(app.store.tasks.get(task.id).status in (State.SUCCEEDED, State.FAILED, State.DEAD) for task in tasks)


def test_happy_path_a_task_goes_through_the_broker_and_succeeds(app, broker, settings):
    """Spec: D1, D2, D13"""

    @app.task
    def greet(name: str) -> str:
        return f"hello {name}"

    with subscribed(broker, "task.#") as subscriber, doing(settings), working(app):
        until(lambda: by_broker(app))
        task = greet.using(correlation_id="order-7").submit_sync(name="you")
        assert task.wait_sync(30).result == "hello you"
        assert kinds(app, task.id) == ["submitted", "scheduled", "started", "completed"]
        until(lambda: subscriber.kinds(task.id) == kinds(app, task.id))
        assert {message.header.properties.correlation_id for message in subscriber.messages} == {"order-7"}
        [started] = [event for event in app.store.events.of(task.id) if event.kind == "started"]
        [worker] = [each for each in app.store.workers.all() if each.kind == "worker"]
        assert started.actor == f"worker:{worker.id}"


def test_retry_path_a_failed_task_comes_again_by_the_broker_with_its_count(app, broker, settings):
    """Spec: D5, D13"""
    tries = []

    @app.task(retry=headgate.fixed(0.05, retries=3))
    def flaky() -> int:
        tries.append(headgate.context().attempt)
        if len(tries) < 3:
            raise OSError("not yet")
        return len(tries)

    with doing(settings), working(app, due=True):
        until(lambda: by_broker(app))
        task = flaky.submit_sync()
        assert task.wait_sync(30).result == 3
    found = kinds(app, task.id)
    assert (found.count("scheduled"), found.count("retrying")) == (3, 2)
    assert app.store.tasks.get(task.id).error_count == 2


def test_dead_letter_path_a_final_failure_is_in_the_store_and_in_the_brokers_queue(app, broker, settings):
    """Spec: D5, D13"""
    asyncio.run(probe_broker(broker))  # which makes the queue
    take_all(broker, "headgate.dead")

    @app.task(retry=headgate.fixed(0.05, retries=1), need_manual=True)
    def hopeless() -> None:
        raise OSError("no such luck")

    with doing(settings), working(app, due=True):
        until(lambda: by_broker(app))
        task = hopeless.using(creator=42, correlation_id="c" * 32).submit_sync()
        until(lambda: app.store.tasks.get(task.id).status is State.DEAD)
        until(lambda: depth(broker, "headgate.dead") == 1)
    [message] = take_all(broker, "headgate.dead")
    properties, body = message.header.properties, json.loads(message.body)
    assert (body["kind"], body["after"], body["task_id"]) == ("dead_lettered", "dead", task.id)
    assert properties.correlation_id == "c" * 32
    wanted = {"task_id": task.id, "type": "hopeless", "user": 42, "reason": "exhausted", "x-retry-count": 2}
    assert headers(message).items() >= wanted.items()
    assert headers(message)["trace_id"] == "c" * 32


def test_idempotency_a_message_that_comes_again_runs_nothing_twice(app, broker, settings):
    """Spec: D2, D13"""
    runs: Counter[int] = Counter()

    @app.task
    def count(number: int) -> int:
        runs[number] += 1
        return number

    with doing(settings), working(app) as worker:
        until(lambda: by_broker(app))
        tasks = [count.submit_sync(number=number) for number in range(20)]
        until(lambda: ended(app, *tasks))
        before = worker.deliveries.get("received", 0)
        for task in tasks:
            [exec_id] = {event.exec_id for event in app.store.events.of(task.id) if event.exec_id}
            for _ in range(2):
                publish(broker, "headgate.tasks", "headgate.tasks.default.count", message_id=exec_id,
                        headers={"task_id": task.id})  # fmt: skip
        until(lambda: worker.deliveries.get("received", 0) >= before + 40)
        last = count.submit_sync(number=99)
        assert last.wait_sync(30).result == 99
        until(lambda: worker.deliveries["stale"] == 40)
    assert runs == Counter([*range(20), 99])


def test_concurrency_many_tasks_run_once_each_on_several_workers(app, broker, settings):
    """Spec: D2, D13"""
    runs: Counter[int] = Counter()
    lock = threading.Lock()

    @app.task
    async def work(number: int) -> int:
        with lock:
            runs[number] += 1
        return number

    with doing(settings), working(app, name="one", concurrency=7), working(app, name="two", concurrency=2):
        until(lambda: by_broker(app))
        tasks = [work.submit_sync(number=number) for number in range(300)]
        until(lambda: ended(app, *tasks), 60)
    assert runs == Counter(range(300))
    for task in tasks:
        assert kinds(app, task.id).count("completed") == 1


def test_eventing_every_event_is_published_in_the_order_of_its_task(app, broker, settings):
    """Spec: D6, D13"""

    @app.task(code="shop.order")
    def order(fails: bool) -> None:
        if fails:
            raise headgate.Fatal("no")

    with (
        subscribed(broker, "task.#") as all_events,
        subscribed(broker, "task.failed.shop.order") as failures,
        doing(settings),
        working(app),
    ):
        until(lambda: by_broker(app))
        tasks = [order.submit_sync(fails=number % 3 == 0) for number in range(12)]
        until(lambda: ended(app, *tasks))
        until(lambda: all(all_events.kinds(task.id) == kinds(app, task.id) for task in tasks))
        until(lambda: len(failures.events) == 4)
    assert {event["task_id"] for event in failures.events} == {task.id for task in tasks[::3]}
    assert {event["detail"]["reason"] for event in failures.events} == {"fatal"}


def test_sub_task_a_parent_ends_when_its_children_have_come_through_the_broker(app, broker, settings):
    """Spec: D7, D13"""

    @app.task
    async def child(number: int) -> int:
        return number

    @app.task
    async def parent() -> str:
        for number in range(5):
            await headgate.context().submit(child.call(number=number))
        return "handed out"

    with doing(settings), working(app):
        until(lambda: by_broker(app))
        task = parent.submit_sync()
        assert task.wait_sync(30).result == "handed out"
        children = app.store.tasks.find(Filter(parent_id=task.id)).items
        assert len(children) == 5
        assert {each.status for each in children} == {State.SUCCEEDED}
