"""Agents that wait for work: who is woken, what it costs, and that nothing is stranded by it."""

import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.api.live import polls
from headgate.core.limits import Rate
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.settings import Settings
from headgate.store.claim.visits import MOST_STREAMS
from headgate.store.store import open_store
from tests.api.conftest import HERE
from tests.api.serving import PATIENCE, serving
from tests.factories import PLAIN, sql, submit

MANY = 1000


@pytest.fixture
def app(store, monkeypatch):
    monkeypatch.setattr(polls, "SAFETY_SECONDS", 1e9)  # whoever finds something was told of it
    return create_app(store, Settings())


@pytest.fixture
def office(app):
    """Agents that wait at one server, each in a thread of its own."""
    with TestClient(app, base_url=HERE) as http, ThreadPoolExecutor(32) as pool:
        office = Office(app.server, http, pool)
        yield office
        office.stop()


class Office:
    def __init__(self, server, http, pool):
        self.server = server
        self.looks: list[str] = []  # whoever has looked for something, in order
        self._http = http
        self._pool = pool
        hand_over = server.store.agents.hand_over

        def counted(request, **more):
            claimed = hand_over(request, **more)
            self.looks.append(request.agent_id)
            return claimed

        server.store.agents.hand_over = counted

    def claim(self, agent, wait_seconds=60, **wanted):
        answer = self._http.post(f"/api/agents/{agent}/claim", json={"wait_seconds": wait_seconds, **wanted})
        assert answer.status_code == 200, answer.text
        return [task["id"] for task in answer.json()["tasks"]]

    def wait(self, agent, **wanted):
        """An agent that has looked once and waits by now."""
        before = self.looks.count(agent)
        waiting = self._pool.submit(self.claim, agent, **wanted)
        until(lambda: self.looks.count(agent) > before)
        return waiting

    def stop(self):
        self._http.portal.call(self.server.stopping.set)


def until(holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_waiting_agent_is_woken_by_this_server_and_by_any_other(store, url, office):
    """Spec: B2"""
    waiting = office.wait("one")
    task = submit(store)
    assert waiting.result(PATIENCE) == [task.id]
    with open_store(url) as other:
        waiting = office.wait("one")
        until(lambda: office.server.polls._listening)
        task = submit(other)
        assert waiting.result(PATIENCE) == [task.id]


def test_one_task_wakes_one_agent_of_many_that_wait_for_the_same(store, office):
    """Spec: B2, X4"""
    waiting = [office.wait(f"agent-{number}") for number in range(20)]
    del office.looks[:]
    first = submit(store)
    until(lambda: any(poll.done() for poll in waiting))
    assert [poll.result() for poll in waiting if poll.done()] == [[first.id]]
    until(lambda: len(office.looks) >= 2)  # who got all that it asked for lets the next one look
    ids = {task.id for task in (submit(store) for _ in range(5))}
    until(lambda: sum(poll.done() for poll in waiting) == 6)
    assert {poll.result()[0] for poll in waiting if poll.done()} == {first.id} | ids
    assert len(office.looks) <= 3 * 6  # each of the 20 would be 120


def test_an_agent_that_waits_has_room_and_one_that_works_has_none(store, office):
    """Spec: X3, B2"""
    store.lanes.set_capacity("narrow", 1)
    first, second = submit(store, lane="narrow"), submit(store, lane="narrow")

    def room():
        [gate] = [gate for gate in store.tasks.why(second.id) if gate.name == "worker"]
        assert gate.code in ("served", "agents-busy")
        return gate.open

    assert office.claim("rig") == [first.id]
    assert not room()
    office.wait("rig")
    until(room)


def test_a_task_wakes_nobody_who_waits_for_something_else(store, office):
    """Spec: B2"""
    others = [
        office.wait("a", types=["manual"]), office.wait("b", categories=["x"]), office.wait("c", tenant_id=5),
    ]  # fmt: skip
    del office.looks[:]
    fitting = office.wait("d", types=["plain"])
    task = submit(store)
    assert fitting.result(PATIENCE) == [task.id]
    assert set(office.looks) == {"d"}
    assert not any(poll.done() for poll in others)


def test_an_assigned_task_wakes_its_agent_and_nobody_else(store, office):
    """Spec: E1"""
    first, second = office.wait("first"), office.wait("second")
    task = submit(store, agent_id="second")
    assert second.result(PATIENCE) == [task.id]
    assert not first.done()


def test_room_in_a_lane_wakes_who_waits_for_it(store, office):
    """Spec: B2, A9"""
    store.lanes.set_capacity("default", 1)
    held, next_one = submit(store), submit(store)
    assert office.claim("one", wait_seconds=0) == [held.id]
    waiting = office.wait("two")
    execution = store.agents.holdings([held.id])[held.id].execution
    store.executions.give_back(held.id, execution.exec_id)
    assert waiting.result(PATIENCE)[0] in (held.id, next_one.id)


def test_the_next_token_wakes_one_agent_of_those_who_wait_for_it(store, office):
    """Spec: D8, B2"""
    store.rate_limits.set("key:slow", Rate(2, 1))
    ids = [submit(store, rate_key="slow").id for _ in range(3)]
    first = office.claim("a0")
    waiting = [office.wait(f"a{number}") for number in (1, 2)]
    found = [each.result(PATIENCE) for each in waiting]
    assert sorted([*first, *(task_id for claimed in found for task_id in claimed)]) == ids


def test_a_token_that_comes_late_holds_up_none_that_comes_soon(store, office):
    """Spec: D8, B2"""
    store.rate_limits.set("key:slow", Rate(0.001, 1))
    slow = [submit(store, rate_key="slow").id for _ in range(2)]
    assert office.claim("a0") == slow[:1]
    waiting = office.wait("a1")  # until there is a token, in 1000 seconds
    until(lambda: office.server.polls._later)
    store.rate_limits.set("key:quick", Rate(2, 1))
    quick = [submit(store, rate_key="quick").id for _ in range(2)]
    assert waiting.result(PATIENCE) == quick[:1]
    assert office.claim("a2") == quick[1:]


def test_an_agent_looks_into_all_streams_though_nothing_wakes_it(store, office):
    """Spec: B2"""
    others = [NewTask("plain", lane=f"lane {n}", creator=1) for n in range(3 * MOST_STREAMS)]
    for first in range(0, len(others), 100):
        store.tasks.submit_many(others[first : first + 100])
    mine = submit(store, creator=2)
    assert office.claim("one", creator=2) == [mine.id]


def test_what_nobody_was_told_of_is_found_by_the_safety_look(store, url, office, monkeypatch):
    """Spec: B2"""
    monkeypatch.setattr(polls, "SAFETY_SECONDS", 0.05)
    monkeypatch.setattr(polls, "TICK_SECONDS", 0.05)
    waiting = office.wait("one")
    later = submit(store, delay_seconds=3600)
    sql(url, f"UPDATE headgate_task SET status = 'queued' WHERE id = {later.id}")
    assert waiting.result(PATIENCE) == [later.id]


def test_who_waits_lives(store, office, monkeypatch):
    """Spec: B2"""
    monkeypatch.setattr(polls, "TICK_SECONDS", 0.05)
    office.wait("one", lease_seconds=5)
    [before] = store.workers.all()
    until(lambda: store.workers.all()[0].lease_until > before.lease_until)


def test_a_server_that_goes_lets_nobody_wait(store, office):
    """Spec: D9"""
    waiting = [office.wait(f"agent-{number}") for number in range(3)]
    office.stop()
    assert [poll.result(PATIENCE) for poll in waiting] == [[], [], []]


def test_when_the_time_is_up_there_is_nothing(store, office):
    """Spec: B2"""
    assert office.claim("one", wait_seconds=0.01) == []
    assert len(office.server.polls) == 0


@pytest.fixture
def server(url):
    with open_store(url) as store:
        store.types.put(PLAIN)
    with serving(url) as server:
        yield server


def test_a_task_is_not_stranded_with_an_agent_that_has_hung_up(server):
    """Spec: B2, B3"""
    for number in range(20):
        connection = hanging(server.address, f"gone-{number}", 60)
        connection.close()
    task_id = server.submit("plain")
    status, answer = server.ask("POST", "/api/agents/alive/claim", {"wait_seconds": 60})
    assert (status, [task["id"] for task in answer["tasks"]]) == (200, [task_id])
    assert (server.task(task_id)["lost_count"], server.task(task_id)["error_count"]) == (0, 0)


def hanging(address, agent, seconds):
    """A connection on which an agent waits."""
    connection = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
    connection.sendall(request_of(agent, seconds))
    return connection


def request_of(agent, seconds):
    body = json.dumps({"wait_seconds": seconds})
    head = f"POST /api/agents/{agent}/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def test_a_thousand_agents_that_wait_cost_neither_threads_nor_much_memory(server, url):
    """Spec: B2, X4"""
    before = server.process.memory_info().rss
    with open_store(url) as store:
        answered, threads, memory = asyncio.run(_wait_together(server, store))
    assert answered == 2
    assert threads < 50
    assert memory - before < 150 * 1024 * 1024


async def _wait_together(server, store):
    port = int(server.address.rpartition(":")[2])
    connections = []
    for number in range(MANY):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_of(f"agent-{number}", 60))
        connections.append((reader, writer))
    await asyncio.to_thread(until, lambda: len(store.workers.all()) == MANY)
    threads, memory = server.process.num_threads(), server.process.memory_info().rss
    answers = [asyncio.create_task(reader.readuntil(b"\r\n\r\n")) for reader, _ in connections]
    tasks = [store.tasks.submit(NewTask("plain")).id, store.tasks.submit(NewTask("plain", agent_id="agent-7")).id]
    while sum(answer.done() for answer in answers) < 2:
        await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    assert answers[7].done()
    assert {store.tasks.get(task_id).status for task_id in tasks} == {State.RUNNING, State.SCHEDULING}
    answered = sum(answer.done() for answer in answers)
    for answer in answers:
        answer.cancel()
    await asyncio.gather(*answers, return_exceptions=True)
    for _, writer in connections:
        writer.close()
    return answered, threads, memory
