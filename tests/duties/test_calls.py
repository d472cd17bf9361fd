"""Calls over real HTTP: what arrives, what the log says of it, and that it is made once at most."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import pytest

from headgate.core.errors import Unavailable
from headgate.core.schedule import Endpoint
from headgate.duties import Calls, FireSchedules
from headgate.outward.client import OutwardClient
from headgate.pauses import Backoff
from headgate.settings import Settings
from headgate.store.schedules.schedules import Schedules
from headgate.store.schedules.tick_runs import LOST
from headgate.threads import inline
from tests.duties.turns import changed
from tests.outward.receiver import listening, request_of
from tests.schedules import logged, online, take_calls, tick

HERE = "127.0.0.0/8"
GONE = "00000000-0000-4000-8000-000000000009"
SOON = 120.0


class Endpoints:
    """A server that answers as it is told, and keeps what it was sent."""

    def __init__(self) -> None:
        self.port = 0
        self.status = 200
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def at(self, path="/hook", method="POST"):
        return Endpoint(f"http://127.0.0.1:{self.port}{path}", method)

    async def serve(self, reader, writer):
        self.received.append(await request_of(reader))
        await self.gate.wait()
        writer.write(f"HTTP/1.1 {self.status} As Told\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()


@asynccontextmanager
async def endpoints():
    server = Endpoints()
    async with listening(server.serve) as port:
        server.port = port
        yield server


async def until(holds):
    async with asyncio.timeout(SOON):
        while not holds():  # noqa: ASYNC110 nobody signals it
            await asyncio.sleep(0.01)


async def made(calls):
    """Take what waits, and let it end."""
    while await calls.turn():
        pass
    await until(lambda: not calls._under_way)


def calls_of(store, client=None, **options):
    return changed(Calls(store, Settings(callback_allow=HERE), inline, client=client), **options)


def test_an_endpoint_is_told_which_schedule_calls_and_for_which_tick(store, clock):
    """Spec: B9"""

    async def scene():
        async with endpoints() as server:
            schedule = online(store, type_code="report", http=server.at("/a?b=c"), ext='{"x": [1]}')
            tick(store, clock)
            await made(calls_of(store))
            return schedule, server.received

    schedule, [(line, headers, body)] = asyncio.run(scene())
    assert line == "POST /a?b=c HTTP/1.1"
    assert headers["content-type"] == "application/json"
    assert headers["idempotency-key"].startswith(f"periodic-{schedule.id}-")
    assert json.loads(body) == {
        "periodic_task_id": schedule.id, "type": "report", "tick": "2026-03-01T12:01:00Z", "ext": {"x": [1]},
    }  # fmt: skip
    assert logged(store, schedule) == [("success", None)]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
def test_it_is_called_with_the_method_that_was_said(store, clock, method):
    """Spec: B9"""

    async def scene():
        async with endpoints() as server:
            schedule = online(store, http=server.at(method=method))
            tick(store, clock)
            await made(calls_of(store))
            return schedule, server.received

    schedule, [(line, _, body)] = asyncio.run(scene())
    assert line == f"{method} /hook HTTP/1.1"
    assert bool(body) == (method in ("PUT", "PATCH"))
    assert logged(store, schedule) == [("success", None)]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_any_answer_but_a_success_is_a_failure_and_the_call_is_not_made_again(store, clock, status):
    """Spec: B9, B10"""

    async def scene():
        async with endpoints() as server:
            server.status = status
            schedule = online(store, http=server.at())
            tick(store, clock)
            calls = calls_of(store)
            for _ in range(3):
                await made(calls)
            return schedule, server

    schedule, server = asyncio.run(scene())
    assert len(server.received) == 1
    assert logged(store, schedule) == [("failure", f"POST {server.at().url} answered {status}")]


def test_an_address_that_is_not_allowed_is_not_called_and_the_log_says_why(store, clock):
    """Spec: B9"""

    async def scene():
        async with endpoints() as server:
            schedule = online(store, http=server.at())
            tick(store, clock)
            await made(calls_of(store, OutwardClient()))
            return schedule, server.received

    schedule, received = asyncio.run(scene())
    assert received == []
    [(result, error)] = logged(store, schedule)
    assert result == "failure"
    assert "HEADGATE_CALLBACK_ALLOW" in str(error)


def test_nobody_there_is_a_failure(store, clock):
    """Spec: B9"""
    schedule = online(store, http=Endpoint("http://127.0.0.1:1/"))
    tick(store, clock)
    asyncio.run(made(calls_of(store)))
    assert logged(store, schedule)[0][0] == "failure"


def test_so_many_calls_are_under_way_at_once_and_no_more(store, clock):
    """Spec: B9"""

    async def scene():
        async with endpoints() as server:
            schedules = [online(store, http=server.at()) for _ in range(5)]
            tick(store, clock)
            server.gate.clear()
            calls = calls_of(store, at_once=8)  # of which a tenant gets a quarter
            calls.start()
            await until(lambda: len(server.received) == 2)
            await calls.turn()
            assert len(calls._under_way) == 2
            server.gate.set()
            await until(lambda: len(server.received) == 5)
            await calls.stop()
            return schedules

    for schedule in asyncio.run(scene()):
        assert logged(store, schedule) == [("success", None)]


def test_who_is_told_to_stop_waits_for_the_calls_under_way(store, clock):
    """Spec: B9, D9"""

    async def scene():
        async with endpoints() as server:
            schedule = online(store, http=server.at())
            tick(store, clock)
            server.gate.clear()
            calls = calls_of(store)
            calls.start()
            await until(lambda: server.received)
            stopping = asyncio.create_task(calls.stop())
            await asyncio.sleep(0)
            server.gate.set()
            await stopping
            return schedule

    assert logged(store, asyncio.run(scene())) == [("success", None)]


def test_a_call_whose_caller_died_is_given_up_by_the_clock_of_who_watches(store, clock):
    """Spec: B9, B10"""
    now = 0.0
    schedule = online(store, http=Endpoint("http://127.0.0.1:1/"))
    tick(store, clock)
    assert len(take_calls(store, GONE)) == 1
    calls = calls_of(store, monotonic=lambda: now)

    async def scene():
        nonlocal now
        looks = 0
        while logged(store, schedule) == [("executing", None)]:
            await calls.turn()
            now += Calls.watch_seconds
            looks += 1
            clock.advance(86400)  # whatever the store's clock says
        return looks

    assert asyncio.run(scene()) * Calls.watch_seconds >= Calls.lease_seconds
    assert logged(store, schedule) == [("failure", LOST)]


def test_a_watcher_that_was_frozen_looks_again_before_it_gives_up_anything(store, clock):
    """Spec: B9"""
    now = 0.0
    schedule = online(store, http=Endpoint("http://127.0.0.1:1/"))
    tick(store, clock)
    take_calls(store, GONE)
    calls = calls_of(store, monotonic=lambda: now)

    async def scene():
        nonlocal now
        await calls.turn()
        now += 3600
        await calls.turn()

    asyncio.run(scene())
    assert logged(store, schedule) == [("executing", None)]


def test_a_call_that_was_taken_too_long_ago_is_not_made(store, clock):
    """Spec: B9. The process stood still in between."""
    times = iter([0.0, 0.0, 40.0, 40.0, 40.0])

    async def scene():
        async with endpoints() as server:
            schedule = online(store, http=server.at())
            tick(store, clock)
            calls = calls_of(store, monotonic=lambda: next(times, 50.0))
            await calls.turn()
            await until(lambda: not calls._under_way)
            return schedule, server.received

    schedule, received = asyncio.run(scene())
    assert received == []
    assert logged(store, schedule)[0][0] == "failure"


def test_what_came_of_a_call_is_written_when_the_store_is_back(store, clock, monkeypatch):
    """Spec: B10"""
    tries = []
    end_call = Schedules.end_call

    def away_at_first(self, call, error=None):
        tries.append(call)
        if len(tries) < 3:
            raise Unavailable("the store did not answer")
        return end_call(self, call, error)

    monkeypatch.setattr(Schedules, "end_call", away_at_first)
    monkeypatch.setattr("headgate.duties.calls.AGAIN", Backoff(0.0, 0.0))

    async def scene():
        async with endpoints() as server:
            schedule = online(store, http=server.at())
            tick(store, clock)
            await made(calls_of(store))
            return schedule, server.received

    schedule, received = asyncio.run(scene())
    assert len(received) == 1
    assert logged(store, schedule) == [("success", None)]


def test_a_client_that_breaks_is_told_about_and_ends_the_log(store, clock, caplog):
    """Spec: B10"""

    class Broken:
        async def send(self, method, url, body, headers):
            raise RuntimeError("secret")

    schedule = online(store, http=Endpoint("http://127.0.0.1:1/"))
    tick(store, clock)
    with caplog.at_level(logging.ERROR):
        asyncio.run(made(calls_of(store, Broken())))
    assert logged(store, schedule) == [("failure", "POST http://127.0.0.1:1/: RuntimeError")]
    assert "secret" in caplog.text


def test_a_tick_wakes_who_makes_the_call(store, clock):
    """Spec: B9"""

    async def scene():
        async with endpoints() as server:
            calls = calls_of(store)
            calls.pause = 3600.0
            periodic = FireSchedules(store, Settings(), inline, calls.wake)
            calls.start()
            await asyncio.sleep(0)
            schedule = online(store, http=server.at())
            clock.advance(60)
            await periodic.turn()
            await until(lambda: server.received)
            await calls.stop()
            return schedule

    assert logged(store, asyncio.run(scene())) == [("success", None)]
