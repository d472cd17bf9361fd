"""No tenant's calls and callbacks wait for what another tenant calls. Receivers are real, on loopback."""

import asyncio
import socket
import threading
from contextlib import AsyncExitStack

import pytest

from headgate.core.machine import Returned
from headgate.core.schedule import Endpoint
from headgate.core.task import NewTask, TaskType
from headgate.duties import Callbacks, Calls
from headgate.duties.call_shares import CallShares
from headgate.environment import new_ids
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.threads import inline
from tests.outward.receiver import listening, request_of
from tests.schedules import logged, online, tick

HERE = "127.0.0.0/8"
SOON = 120.0
MINE, THEIRS = 1, 2


async def until(holds):
    async with asyncio.timeout(SOON):
        while not holds():  # noqa: ASYNC110 nobody signals it
            await asyncio.sleep(0.01)


class Tarpit:
    """Takes every request, and answers none."""

    def __init__(self):
        self.received = 0

    async def serve(self, reader, writer):
        await request_of(reader)
        self.received += 1
        await asyncio.Event().wait()


class Prompt:
    """Answers at once."""

    def __init__(self):
        self.received = 0

    async def serve(self, reader, writer):
        await request_of(reader)
        self.received += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()


def url(port):
    return f"http://127.0.0.1:{port}/"


def test_a_tarpit_of_one_tenant_delays_no_call_and_no_callback_of_another(store, clock):
    """Spec: X12, B9, B6"""
    settings = Settings(callback_allow=HERE, callback_concurrency=4)

    async def scene():
        tarpit, prompt = Tarpit(), Prompt()
        async with AsyncExitStack() as stack:
            stuck, good = [await stack.enter_async_context(listening(each.serve)) for each in (tarpit, prompt)]
            for _ in range(40):
                online(store, tenant_id=MINE, http=Endpoint(url(stuck)))
            own = online(store, tenant_id=MINE, http=Endpoint(url(good)))
            other = online(store, tenant_id=THEIRS, http=Endpoint(url(good)))
            tick(store, clock)
            store.types.put(TaskType("told", callback={"success": {"url": url(good), "method": "POST"}}))
            store.tasks.submit(NewTask("told", tenant_id=THEIRS))
            [execution] = store.claims.take(ClaimRequest(store.workers.register("w"), 1)).executions
            calls, callbacks = Calls(store, settings, inline), Callbacks(store, settings, inline)
            calls.at_once = 32  # of which a tenant gets eight
            calls.start()
            await until(lambda: tarpit.received == 4)  # as many as one host of a tenant gets
            await until(lambda: (logged(store, own), logged(store, other)) == ([("success", None)],) * 2)
            tick(store, clock)  # while they hang
            calls.wake()
            store.executions.settle([Outcome(execution, Returned())])
            callbacks.start()
            await until(lambda: len(logged(store, other)) == 2 and prompt.received == 5)
            assert tarpit.received == 4
            for making in list(calls._under_way):
                making.cancel()
            await calls.stop()
            await callbacks.stop()

    asyncio.run(scene())


def test_names_that_take_long_to_look_up_hold_up_no_other_tenant(store, clock, monkeypatch):
    """Spec: X12"""
    released, look_up = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host, *more, **options):
        if str(host).endswith(".slow.example"):
            released.wait(SOON)
            raise OSError("no such name")
        return look_up(host, *more, **options)

    async def scene():
        prompt = Prompt()
        async with listening(prompt.serve) as port:
            monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
            for number in range(40):
                online(store, tenant_id=MINE, http=Endpoint(f"http://n{number}.slow.example/"))
            other = online(store, tenant_id=THEIRS, http=Endpoint(f"http://localhost:{port}/"))
            tick(store, clock)
            calls = Calls(store, Settings(callback_allow=f"{HERE},::1/128"), inline)
            calls.start()
            await until(lambda: logged(store, other) == [("success", None)])
            assert len(calls._under_way) > 8
            released.set()
            await calls.stop()

    asyncio.run(scene())


def test_however_many_tenants_fill_their_share_the_next_gets_a_quarter_of_the_rest():
    """Spec: X12"""
    shares = CallShares(256, per_host=1000)
    got = []
    for tenant in range(12):
        [share] = shares.choose({tenant: ["tarpit"]})
        for _ in range(share.most):
            shares.begin(tenant, "tarpit")
        assert shares.choose({tenant: ["tarpit"]}) == []
        got.append(share.most)
    assert got == [64, 48, 36, 27, 20, 15, 11, 8, 6, 5, 4, 3]
    for _ in range(64):
        shares.end(0, "tarpit")
    assert [share.most for share in shares.choose({0: ["tarpit", "other"]})] == [9, 9]


def test_the_first_of_those_who_wait_is_another_in_each_turn(store, clock):
    """Spec: X12"""
    for tenant in range(5):
        online(store, tenant_id=tenant, http=Endpoint("http://127.0.0.1:1/"))
    tick(store, clock)
    after = 2
    assert list(store.schedules.waiting_calls(after, tenants=4, hosts=1)) == [3, 4, 0, 1]
    assert list(store.schedules.waiting_calls(after, tenants=1, hosts=1)) == [3]
    assert list(store.schedules.waiting_calls(4, tenants=9, hosts=1)) == [0, 1, 2, 3, 4]


def test_hosts_with_a_backlog_leave_another_host_of_their_tenant_its_turn(store, clock):
    """Spec: X12"""
    hosts = ["a.example", "b.example", "c.example", "healthy.example"]
    for host in hosts * 4:
        online(store, tenant_id=MINE, http=Endpoint(f"http://{host}/"))
    tick(store, clock)
    shares, caller, called = CallShares(4, per_host=10), new_ids(1)[0], []  # of which a tenant gets one
    for _ in hosts:
        waiting = store.schedules.waiting_calls(tenants=1, hosts=2, last_hosts=shares.last_hosts)
        [call] = store.schedules.take_calls(caller, shares.choose(waiting))
        called.append(call.http.host)
    assert called == hosts


def test_hosts_that_are_full_hide_no_other_behind_them():
    """Spec: X12"""
    shares = CallShares(32, per_host=1)
    for host in "ab":
        shares.begin(MINE, host)
    assert shares.choose({MINE: ["a", "b"]}) == []
    assert shares.last_hosts == {MINE: "b"}


def test_the_hosts_of_a_tenant_are_a_ring(store, clock):
    """Spec: X12"""
    for letter in "abc":
        online(store, tenant_id=MINE, http=Endpoint(f"http://{letter}/"))
    tick(store, clock)

    def behind(last, hosts):
        return "".join(store.schedules.waiting_calls(tenants=1, hosts=hosts, last_hosts={MINE: last})[MINE])

    assert [behind(last, 9) for last in "abcd"] == ["bca", "cab", "abc", "abc"]
    assert [behind(last, 2) for last in "abc"] == ["bc", "ca", "ab"]


@pytest.mark.parametrize(("by_tenant", "tenants_list", "called"), [(False, "", 1), (True, "", 0), (True, HERE, 1)])
def test_what_a_tenants_key_set_up_reaches_privately_what_the_tenants_list_says(
    store, clock, by_tenant, tenants_list, called
):
    """Spec: X12, B9"""

    async def scene():
        prompt = Prompt()
        async with listening(prompt.serve) as port:
            schedule = online(store, tenant_id=MINE, http=Endpoint(url(port), by_tenant=by_tenant))
            tick(store, clock)
            calls = Calls(store, Settings(callback_allow=HERE, tenant_callback_allow=tenants_list), inline)
            calls.start()
            await until(lambda: logged(store, schedule)[0][0] != "executing")
            await calls.stop()
            return prompt.received, str(logged(store, schedule)[0][1])

    received, error = asyncio.run(scene())
    assert received == called
    assert called or "HEADGATE_TENANT_CALLBACK_ALLOW" in error


def test_an_endpoint_stays_whose_it_was_until_somebody_changes_it(store):
    """Spec: X12"""
    private = Endpoint("http://10.0.0.1/")
    schedule = online(store, tenant_id=MINE, http=private)

    def edited(http, **fields):
        definition = store.schedules.get(schedule.id).definition
        new = NewTask(definition.task.type, tenant_id=MINE, **fields)
        after = store.schedules.put(schedule.id, definition.__class__(new, "0 0 * * *", http=http))
        return after.definition.http

    assert edited(private._replace(by_tenant=True), ext='{"a": 1}') == private
    others = Endpoint("http://10.0.0.2/", by_tenant=True)
    assert edited(others) == others
    assert edited(others._replace(by_tenant=False)) == others
    assert edited(private) == private


def test_a_call_that_waits_moves_with_its_endpoint(store, clock):
    """Spec: B9"""
    schedule = online(store, tenant_id=MINE, http=Endpoint("http://a.example/"))
    tick(store, clock)
    definition = schedule.definition
    store.schedules.put(schedule.id, type(definition)(definition.task, "* * * * *", http=Endpoint("http://B.example/")))
    assert store.schedules.waiting_calls(tenants=1, hosts=9) == {MINE: ["b.example"]}
