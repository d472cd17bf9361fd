"""Live events: each once, in time, to those who may see them; whoever comes back goes on where it was."""

import asyncio
import json
import socket
from contextlib import closing
from functools import partial

import httpx
import psycopg
import pytest

import headgate.events.live as live
from headgate.api.app import create_app
from headgate.api.door.principal import LOCAL_PERSON
from headgate.api.live.stream import ADVICE, LiveEvent, event_stream, live_event
from headgate.core.keys import Role
from headgate.core.machine import Returned
from headgate.core.task import NewTask
from headgate.settings import Settings
from headgate.store.store import open_store
from tests.api.serving import serving
from tests.api.test_metrics import samples
from tests.events.inside import serving_here
from tests.events.listening import Listener
from tests.factories import TYPES, running, settle, submit

LATE = """
INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor) VALUES (NULL, 0, 0, now(), %s, 'rival')
RETURNING id
"""


@pytest.fixture
def store(url):
    with open_store(url) as opened:
        for kind in TYPES:
            opened.types.put(kind)
        yield opened


@pytest.fixture
def server(url, store):
    with serving_here(url) as served:
        yield served


@pytest.fixture
def media_server(url, store):
    with serving_here(url, packs="media") as served:
        yield served


def test_a_task_is_followed_from_its_submit_to_its_end_by_what_another_process_does(server, store):
    """Spec: D6"""
    with Listener(server.address) as listener:
        execution = running(store, correlation_id="c-1")
        settle(store, execution, Returned())
        heard = listener.next(3)
    assert [(event["kind"], event["from"], event["to"]) for event in heard] == [
        ("submitted", None, "queued"),
        ("started", "queued", "running"),
        ("completed", "running", "succeeded"),
    ]
    assert {(event["task_id"], event["type"], event["lane"]) for event in heard} == {(execution.id, "plain", "default")}
    assert heard[1]["exec_id"] == execution.exec_id
    assert heard[1]["correlation_id"] == "c-1"
    assert [event["id"] for event in heard] == [event.id for event in store.events.of(execution.id)]
    assert heard[0].keys() == set(LiveEvent.__struct_encode_fields__)


def test_events_that_a_client_gets_are_counted_by_their_kind(server, store):
    """Spec: D11"""
    with Listener(server.address) as listener:
        settle(store, running(store), Returned())
        listener.next(3)
        found = samples(httpx.get(f"{server.address}/metrics", trust_env=False))
    counted = {key[1:]: value for key, value in found.items() if key[0] == "tasks_events_processed_total"}
    assert counted == {
        (("eventType", kind), ("listenerName", "sse"), ("outcome", "handled")): 1
        for kind in ("submitted", "started", "completed")
    }


def test_what_this_server_commits_is_heard_at_once(url, store, monkeypatch):
    """Spec: D6"""
    monkeypatch.setattr(live, "Bus", partial(live.Bus, pause=3600.0))  # it would look by itself an hour later
    with serving_here(url) as server, Listener(server.address) as listener:
        listener.next(0)
        task_id = server.submit("plain")
        [event] = listener.next()
        assert event["task_id"] == task_id


def test_the_stream_is_made_for_browsers_and_proxies(server):
    """Spec: D6"""
    with Listener(server.address) as listener:
        assert listener.response.headers["content-type"].startswith("text/event-stream")
        assert listener.response.headers["cache-control"] == "no-store"
        assert listener.response.headers["x-accel-buffering"] == "no"
        assert listener.retry == 1000
        assert listener.last_id is not None


def test_who_goes_before_the_first_event_misses_nothing_when_it_comes_back(server, store):
    """Spec: D6"""
    with Listener(server.address) as listener:
        last_id = listener.last_id
    task = submit(store)
    with Listener(server.address, last_id=last_id) as listener:
        assert [event["task_id"] for event in listener.next()] == [task.id]


@pytest.mark.parametrize("where", ["header", "query"])
def test_a_cursor_of_nought_begins_with_the_first_event(server, store, where):
    """Spec: D6"""
    tasks = [submit(store) for _ in range(3)]
    about = {"last_id": "0"} if where == "header" else {"path": "/api/events?cursor=0"}
    with Listener(server.address, **about) as listener:
        heard = listener.until(lambda event: event["task_id"] == tasks[-1].id)
    assert [event["task_id"] for event in heard if event["kind"] == "submitted"] == [task.id for task in tasks]


def test_coming_back_after_each_event_repeats_none_and_skips_none(server, store):
    """Spec: D6"""
    wanted = [submit(store).id for _ in range(12)]
    heard: list[int] = []
    last_id: str | None = "0"
    for _ in wanted:
        with Listener(server.address, "/api/events?kind=submitted", last_id) as listener:
            heard += [event["task_id"] for event in listener.next()]
            last_id = listener.last_id
    assert heard == wanted


def test_a_restart_of_the_server_repeats_none_and_skips_none(url, store):
    """Spec: D6"""
    wanted, heard, last_id = list[int](), list[int](), None
    for _ in range(3):
        with serving(url) as served, Listener(served.address, "/api/events?kind=submitted", last_id) as listener:
            wanted += [made.id for made in store.tasks.submit_many([NewTask("plain")] * 700)]
            heard += [event["task_id"] for event in listener.next(len(wanted) - len(heard) - 5)]
            last_id = listener.last_id
    with serving(url) as served, Listener(served.address, "/api/events?kind=submitted", last_id) as listener:
        wanted.append(submit(store).id)
        heard += [event["task_id"] for event in listener.next(len(wanted) - len(heard))]
    assert heard == wanted


def test_an_event_that_commits_late_is_heard_once_also_across_a_restart(postgres):
    """Spec: D6"""
    path = "/api/events?kind=early&kind=late&kind=now"
    with open_store(postgres) as store, closing(psycopg.connect(postgres)) as rival:
        for kind in TYPES:
            store.types.put(kind)
        rival.execute("SELECT pg_current_xact_id()")
        [late] = rival.execute(LATE, ["late"]).fetchone() or ()  # it has its id, and is not committed
        with serving_here(postgres) as served, Listener(served.address, path, "0") as listener:
            store.events.record("now", "1")
            [first] = listener.next()
            assert first["id"] > late
            last_id = listener.last_id
        assert f"{late}-{late}@" in str(last_id)
        with serving_here(postgres) as served, Listener(served.address, path, last_id) as listener:
            store.events.record("now", "2")
            assert [event["kind"] for event in listener.next()] == ["now"]
            rival.commit()
            assert [event["id"] for event in listener.next()] == [late]
            store.events.record("now", "3")
            assert [event["detail"] for event in listener.next()] == ["3"]
            last_id = listener.last_id
        with serving_here(postgres) as served, Listener(served.address, path, last_id) as listener:
            store.events.record("now", "4")
            assert [event["detail"] for event in listener.next()] == ["4"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("type=manual", {"submitted manual", "started manual", "completed manual"}),
        ("kind=submitted", {"submitted plain", "submitted manual", "submitted called-back"}),
        ("kind=submitted&kind=completed&type=plain", {"submitted plain", "completed plain"}),
        ("lane=elsewhere", {"submitted called-back"}),
        ("lane=nowhere&lane=elsewhere", {"submitted called-back"}),
    ],
)
def test_only_what_was_asked_for_is_heard(server, store, query, expected):
    """Spec: D6"""
    with Listener(server.address, f"/api/events?{query}") as listener:
        for kind in ("plain", "manual"):
            settle(store, running(store, kind), Returned())
        submit(store, "called-back", lane="elsewhere")
        heard = {f"{event['kind']} {event['type']}" for event in listener.next(len(expected))}
    assert heard == expected


def test_one_task_alone_can_be_followed(server, store):
    """Spec: D6"""
    first, second = submit(store), submit(store)
    with Listener(server.address, f"/api/events?task_id={second.id}") as listener:
        store.tasks.cancel(first.id)
        store.tasks.cancel(second.id)
        assert [(event["task_id"], event["kind"]) for event in listener.next()] == [(second.id, "cancelled")]


@pytest.mark.parametrize(
    "query",
    ["cursor=x", "cursor=-1", "cursor=9223372036854775808", "cursor=5;9-3@1", "cursor=5;1-99999999@1", "task_id=0",
     "colour=red", "cursor=4000000000"],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused(server, query):
    """Spec: D6"""
    answer = httpx.get(f"{server.address}/api/events?{query}", verify=False)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def key_of(store, tenant_id):
    key, text = store.keys.add("listener", Role.READ, tenant_id=tenant_id)
    return f"Bearer {text}", key


def test_a_tenants_key_hears_of_its_own_tenants_tasks_and_of_nothing_else(url, store):
    """Spec: B11"""
    authorization, _ = key_of(store, 1)
    with serving_here(url) as served, Listener(served.address, last_id="0", Authorization=authorization) as listener:
        for tenant_id in (2, 1, 0, 2, 1):
            store.tasks.submit(NewTask("plain", tenant_id=tenant_id))
        store.lanes.set_capacity("theirs", 3)
        last = store.tasks.submit(NewTask("plain", tenant_id=1))
        heard = listener.until(lambda event: event["task_id"] == last.id)
    assert {event["tenant_id"] for event in heard} == {1}
    assert len(heard) == 3
    assert None not in {event["task_id"] for event in heard}


def test_a_stream_ends_soon_after_its_key_is_revoked(url, store):
    """Spec: B11"""
    authorization, key = key_of(store, None)
    with serving_here(url) as served, Listener(served.address, Authorization=authorization) as listener:
        store.keys.revoke(key.id)
        *_, last = listener.rest()
    assert last.event == "end"
    assert last.data["reason"] == "unauthorized"


def test_requests_are_followed_in_the_request_queues_own_words(media_server, store):
    """Spec: C4"""
    server = media_server
    with Listener(server.address, "/api/requests/events") as listener:
        store.tasks.submit(NewTask("plain"))
        status, made = server.ask("POST", "/api/requests/enqueue", {"type": "parse", "subscription_id": 7})
        assert status == 201
        server.ask("POST", f"/api/requests/{made['id']}/cancel")
        heard = listener.until(lambda event: event["to"] == "canceled")
    assert {event["request_id"] for event in heard} == {made["id"]}
    assert {(event["type"], event["lane"], event["subscription_id"]) for event in heard} == {("parse", "no_cookie", 7)}
    assert [heard[0]["from"], heard[0]["to"], heard[-1]["from"]] == [None, "queued", "queued"]


def test_requests_of_one_subscription_can_be_followed_alone(media_server):
    """Spec: C4"""
    server = media_server
    with Listener(server.address, "/api/requests/events?subscription_id=2&type=parse") as listener:
        for subscription_id in (1, 2):
            for kind in ("parse", "download"):
                body = {"type": kind, "subscription_id": subscription_id}
                assert server.ask("POST", "/api/requests/enqueue", body)[0] == 201
        assert server.ask("POST", "/api/requests/enqueue", {"type": "parse", "subscription_id": 2})[0] == 201
        heard = listener.next(3)
    assert {(event["type"], event["subscription_id"]) for event in heard} == {("parse", 2)}


def test_two_shapes_of_one_name_have_texts_of_their_own(url, store):
    """Spec: D6"""

    def shape_with(lane):
        def event_out(entry):
            found = live_event(entry)
            found.lane = lane
            return found

        return event_out

    async def first_lane(stream):
        lanes: asyncio.Queue[str] = asyncio.Queue()

        async def send(message):
            for line in message.get("body", b"").decode().splitlines():
                if line.startswith("data: "):
                    lanes.put_nowait(json.loads(line.removeprefix("data: "))["lane"])

        answering = asyncio.create_task(stream({}, asyncio.Event().wait, send))
        try:
            async with asyncio.timeout(120):
                return await lanes.get()
        finally:
            answering.cancel()
            await asyncio.wait([answering])

    async def story():
        server = create_app(store, Settings(url=url)).server
        shapes = [shape_with("a"), shape_with("b"), partial(shape_with("c"))]
        streams = [await event_stream(server, LOCAL_PERSON, None, lambda entry: True, shape) for shape in shapes]
        await server.in_thread(submit, store)
        try:
            assert await asyncio.gather(*map(first_lane, streams)) == ["a", "b", "c"]
        finally:
            await server.close()

    asyncio.run(story())


def test_a_client_that_does_not_read_is_cut_off_and_loses_nothing(server, store):
    """Spec: D6"""
    small = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)])
    address = f"{server.address}/api/events"
    with httpx.Client(timeout=60, transport=small) as client, client.stream("GET", address) as response:
        wanted = list[int]()
        while (
            "headgate_event_listeners 0.0" not in httpx.get(f"{server.address}/metrics", timeout=60, verify=False).text
        ):
            assert len(wanted) < 200_000, "nobody was cut off"
            wanted += [made.id for made in store.tasks.submit_many([NewTask("plain")] * 4000)]
        last_id, heard, end = None, list[int](), None
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                last_id = value
            elif name == "data" and "reason" in value:
                end = json.loads(value)
            elif name == "data":
                heard.append(json.loads(value)["task_id"])
    assert end == {"reason": "behind", "detail": ADVICE["behind"]}
    with Listener(server.address, last_id=last_id) as listener:
        heard += [event["task_id"] for event in listener.next(len(wanted) - len(heard))]
    assert heard == wanted
