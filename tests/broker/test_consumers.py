"""The reference consumer in JavaScript: a process that takes messages from a real RabbitMQ, and settles over HTTP."""

import asyncio
import shutil
import subprocess
import threading
from contextlib import contextmanager

import pytest

import lab.node
from headgate.broker.connection import probe_broker
from headgate.core.retry import fixed
from headgate.core.task import TaskType
from headgate.environment import new_uuid7
from headgate.settings import Settings
from headgate.store.store import open_store
from lab.node import CLIENTS
from tests.api.serving import PATIENCE, serving
from tests.broker.conftest import doing
from tests.broker.listening import at_broker, depth, headers, publish, take_all
from tests.clients.test_refusals import problem, refusing
from tests.worker.conftest import until

QUICK = {"LEASE_SECONDS = 30": "LEASE_SECONDS = 6", "BEAT_SECONDS = 5": "BEAT_SECONDS = 1"}
NOWHERE = "amqp://guest:secret-word@127.0.0.1:1/"


def found_node():
    """The program, and the environment it runs in."""
    _, environment = lab.node.node()
    return shutil.which("node", path=environment["PATH"]), environment


class Consumer:
    """A consumer, and what it has said."""

    def __init__(self, folder, address, broker, name):
        node, environment = found_node()
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [node, folder / "consumer.mjs", address, name],
            env=environment | {"BROKER": broker, "HEADGATE_KEY": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        assert self.process.stderr is not None
        with self.process.stderr as said:
            self.lines.extend(said)

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(PATIENCE) == 0, self.lines
        self._reader.join(PATIENCE)


class Place:
    """A server with a dispatcher, over a store of its own, and consumers of it."""

    def __init__(self, folder, served, broker):
        self.folder = folder
        self.served = served
        self.broker = broker

    def reached(self, task_id, *states):
        return self.served.reached(task_id, *states)

    def story(self, task_id):
        """What happened to a task, and who did it."""
        items = self.served.ask("GET", f"/api/tasks/{task_id}/events")[1]["items"]
        return [(event["kind"], event["actor"].split(":")[0]) for event in items if event["kind"] != "progress"]

    def goes_by_broker(self, number):
        """Have a task done; whether it went through the broker."""
        task_id = self.served.submit("echo", {"n": number})
        assert self.reached(task_id, "succeeded")["result"] == {"n": number}
        return "scheduled" in [kind for kind, _ in self.story(task_id)]

    def exec_id(self, task_id):
        items = self.served.ask("GET", f"/api/tasks/{task_id}/events")[1]["items"]
        return next(event["exec_id"] for event in items if event["kind"] == "started")

    def consumers(self):
        """The names of those that the dispatcher counts upon."""
        items = self.served.ask("GET", "/api/workers")[1]["items"]
        return {worker["agent_id"] for worker in items if worker["by_broker"]}

    @contextmanager
    def consuming(self, name, *, broker=None, slots=4):
        """A consumer, for a while; it must go in good order, unless it was killed."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "node_modules").symlink_to(CLIENTS / "node_modules")
        text = (CLIENTS / "consumer.mjs").read_text()
        for slow, fast in {**QUICK, "SLOTS = 4": f"SLOTS = {slots}"}.items():
            assert text.count(slow) == 1
            text = text.replace(slow, fast)
        (folder / "consumer.mjs").write_text(text)
        consumer = Consumer(folder, self.served.address, broker or self.broker, name)
        try:
            if broker is None:
                until(lambda: name in self.consumers())
            yield consumer
        finally:
            consumer.stop()
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def place(tmp_path_factory, server):
    lab.node.install(CLIENTS)
    folder = tmp_path_factory.mktemp("place")
    url = f"sqlite:///{folder}/store.db"
    with open_store(url) as store:
        store.migrate()
        for task_type in (TaskType("echo"), TaskType("sleep"), TaskType("fail", retry=fixed(0, retries=3))):
            store.types.put(task_type)
    settings = Settings(url=url, broker=server.url, beat_seconds=0.5, lease_seconds=5.0, poll_seconds=0.2)
    with serving(url, broker=server.url) as served, doing(settings):
        yield Place(folder, served, server.url)


def test_the_consumer_runs_what_the_broker_delivers_and_reports_over_http(place):
    """Spec: D1, D2, X6"""
    served = place.served
    with place.consuming("node-1"):
        plain = [served.submit("echo", {"n": n}) for n in range(6)]
        failing = served.submit("fail")
        assert [place.reached(task_id, "succeeded")["result"] for task_id in plain] == [{"n": n} for n in range(6)]
        assert place.reached(failing, "failed")["error_count"] == 1
        delivered = [("submitted", "person"), ("scheduled", "worker"), ("started", "agent")]
        assert place.story(plain[0]) == [*delivered, ("completed", "agent")]
        endless = served.submit("sleep", {"seconds": 600})
        place.reached(endless, "running")
        served.ask("POST", f"/api/tasks/{endless}/cancel", {})
        assert place.reached(endless, "cancelled")["attempt"] == 1
        left = served.submit("sleep", {"seconds": 600})
        place.reached(left, "running")
    given_back = place.reached(left, "queued")
    assert (given_back["error_count"], given_back["lost_count"]) == (0, 0)
    assert place.consumers() == set()
    served.ask("POST", f"/api/tasks/{left}/cancel", {})


def test_a_message_that_comes_twice_runs_nothing_twice_and_one_that_makes_no_sense_is_dead_lettered(place):
    """Spec: D2"""
    asyncio.run(probe_broker(place.broker))
    take_all(place.broker, "headgate.dead")
    queue = "headgate.tasks.default.sleep"
    with place.consuming("node-2"):
        task_id = place.served.submit("sleep", {"seconds": 600})
        place.reached(task_id, "running")
        twice = {"message_id": place.exec_id(task_id), "headers": {"task_id": task_id}}
        unknown = {"message_id": str(new_uuid7()), "headers": {"task_id": task_id}}
        wrong = [
            {},
            {"message_id": "x", "headers": {"task_id": task_id}},
            {"message_id": str(new_uuid7()), "headers": {"task_id": -1}},
        ]
        for properties in (twice, unknown, *wrong, twice):
            publish(place.broker, "headgate.tasks", queue, **properties)
        until(lambda: depth(place.broker, "headgate.dead") == len(wrong))
        place.served.ask("POST", f"/api/tasks/{task_id}/cancel", {})
        place.reached(task_id, "cancelled")
        publish(place.broker, "headgate.tasks", queue, **twice)
        after = place.served.submit("sleep", {"seconds": 0})
        place.reached(after, "succeeded")
        until(lambda: depth(place.broker, queue) == 0)
    assert [kind for kind, _ in place.story(task_id)].count("started") == 1
    assert {headers(each)["x-first-death-reason"] for each in take_all(place.broker, "headgate.dead")} == {"rejected"}


def test_a_consumer_killed_in_mid_task_loses_nothing(place):
    """Spec: D2, B2"""
    with place.consuming("node-3") as killed:
        tasks = [place.served.submit("sleep", {"seconds": 600}) for _ in range(2)]
        for task_id in tasks:
            place.reached(task_id, "running")
        killed.kill()
        tasks += [place.served.submit("echo", {"n": n}) for n in range(4)]  # some may be sent to the dead one
        with place.consuming("node-4"):
            for task_id in tasks[2:]:
                place.reached(task_id, "succeeded")
            for task_id in tasks[:2]:
                again = place.served.when(task_id, lambda task: (task["status"], task["attempt"]) == ("running", 2))
                assert (again["error_count"], again["result"]) == (0, None)
                place.served.ask("POST", f"/api/tasks/{task_id}/cancel", {})
            for task_id in tasks[:2]:
                place.reached(task_id, "cancelled")


def test_a_consumer_whose_connection_is_cut_or_whose_queue_is_deleted_returns_to_the_broker(place, server):
    """Spec: D2"""
    with place.consuming("node-8") as consumer:

        def connected_again(times):
            return sum("connected\n" in line for line in consumer.lines) > times

        server.control("close_all_connections", "a test")
        until(lambda: connected_again(1))
        until(lambda: place.goes_by_broker(1))
        at_broker(place.broker, lambda channel: channel.queue_delete("headgate.tasks.default.echo"))
        until(lambda: connected_again(2))
        until(lambda: place.goes_by_broker(2))


def test_a_message_that_meets_a_full_consumer_goes_to_another(place):
    """Spec: D2"""
    with place.consuming("node-5", slots=1), place.consuming("node-6", slots=1):
        for _ in range(2):
            tasks = [place.served.submit("sleep", {"seconds": 600}) for _ in range(2)]
            for task_id in tasks:
                place.reached(task_id, "running")
            for task_id in tasks:
                place.served.ask("POST", f"/api/tasks/{task_id}/cancel", {})
            for task_id in tasks:
                assert place.reached(task_id, "cancelled")["attempt"] == 1


def test_a_consumer_whose_broker_is_away_claims_over_http_and_is_sent_nothing(place):
    """Spec: D1"""
    with place.consuming("node-7", broker=NOWHERE) as consumer:
        task_id = place.served.submit("echo", {"n": 1})
        assert place.reached(task_id, "succeeded")["result"] == {"n": 1}
        assert [kind for kind, _ in place.story(task_id)] == ["submitted", "started", "completed"]
        assert place.consumers() == set()
    assert any("claimed over HTTP" in line for line in consumer.lines)
    assert not any("secret-word" in line for line in consumer.lines)


def test_a_consumer_that_may_not_come_in_says_so_and_ends():
    """Spec: B2, X6"""
    lab.node.install(CLIENTS)
    node, environment = found_node()
    with refusing(problem(503), problem(403)) as (address, calls, _):
        done = subprocess.run(
            [node, CLIENTS / "consumer.mjs", address, "agent-1"],
            env=environment | {"BROKER": NOWHERE},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert (done.returncode, [path for path, _ in calls]) == (1, ["consume", "consume"])
    assert all(f"refused with {status}" in done.stderr for status in (503, 403))


@pytest.mark.parametrize("words", [["http://127.0.0.1:8000", "node-1"], ["http://127.0.0.1:8000"], []])
def test_a_consumer_that_was_not_told_enough_says_how_it_is_started(words):
    lab.node.install(CLIENTS)
    node, environment = found_node()
    environment |= {"BROKER": NOWHERE if len(words) < 2 else ""}
    done = subprocess.run([node, CLIENTS / "consumer.mjs", *words], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: BROKER=amqp://… node consumer.mjs SERVER AGENT_ID\n"
