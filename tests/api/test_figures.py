"""What the console shows: charts, counts, and everything that happens, in messages of bounded size."""

from datetime import timedelta

import pytest

from headgate.api.live.stream import MOST_IN_DIGEST, MOST_NAMED
from headgate.core.keys import Role
from headgate.core.machine import Raised, Returned
from headgate.core.task import NewTask
from headgate.environment import utc_now
from headgate.store.reading.series import COARSE, FINE, LAG_SECONDS
from headgate.store.store import open_store
from tests.events.inside import serving_here
from tests.events.listening import Listener
from tests.factories import Clock, running, settle, submit

DIGESTS = "/api/events?gather=0.1"


@pytest.fixture
def server(url, store):
    with serving_here(url) as served:
        yield served


def test_charts_show_what_happened_stretch_by_stretch(client, url):
    """Spec: X7"""
    clock = Clock()
    clock.now = utc_now() - timedelta(minutes=5)
    with open_store(url, clock) as store:
        store.series.take()
        settle(store, running(store), Returned())
        clock.advance(FINE + LAG_SECONDS)
        store.series.take()
    answer = client.get("/api/series").json()
    assert answer["step"] == FINE
    assert sum(point["succeeded"] for point in answer["items"]) == 1
    assert client.get("/api/series", params={"seconds": 86400}).json()["step"] == COARSE
    assert client.get("/api/series", params={"seconds": 0}).status_code == 422


def test_counts_are_by_lane_and_state(client, store):
    """Spec: X7"""
    settle(store, running(store, "manual"), Raised("no"))
    submit(store, lane="other")
    store.statistics.take_sample()
    counts = {(each["lane"], each["status"]): each["count"] for each in client.get("/api/counts").json()["items"]}
    assert counts == {("default", "dead"): 1, ("other", "queued"): 1}


def test_a_tenants_key_does_not_learn_what_happens_at_all_of_them(client, store):
    """Spec: B11"""
    key = store.keys.add("k", Role.ADMIN, tenant_id=1)[1]
    assert client.get("/api/series", headers={"Authorization": f"Bearer {key}"}).status_code == 403


def test_a_worker_says_how_much_it_carries(client, store):
    """Spec: X7, A8"""
    held = [running(store) for _ in range(2)]
    workers = client.get("/api/workers").json()["items"]
    assert [worker["running"] for worker in workers] == [1, 1]
    settle(store, held[0], Returned())
    assert [worker["running"] for worker in client.get("/api/workers").json()["items"]] == [0, 1]


def test_a_digest_has_what_happened_in_its_time_and_says_where_to_go_on(server, store):
    """Spec: X7, D6"""
    with Listener(server.address, DIGESTS) as listener:
        task = submit(store)
        [digest] = listener.next(event="digest")
        assert [(event["task_id"], event["kind"]) for event in digest["events"]] == [(task.id, "submitted")]
        assert (digest["left_out"], digest["task_ids"]) == (0, [])
        last_id = listener.last_id
    missed = submit(store)
    with Listener(server.address, DIGESTS, last_id) as listener:
        [digest] = listener.next(event="digest")
    assert [event["task_id"] for event in digest["events"]] == [missed.id]


def test_a_digest_is_bounded_whatever_happens_and_names_whom_it_left_out(server, store):
    """Spec: X7"""
    count = MOST_IN_DIGEST + MOST_NAMED // 2
    with Listener(server.address, "/api/events?gather=2") as listener:
        store.tasks.submit_many([NewTask("plain") for _ in range(count)])
        events, left_out, named = 0, 0, 0
        while events + left_out < count:
            [digest] = listener.next(event="digest")
            assert len(digest["events"]) <= MOST_IN_DIGEST
            assert len(digest["task_ids"]) <= MOST_NAMED
            events += len(digest["events"])
            left_out += digest["left_out"]
            named += len(digest["task_ids"])
    assert left_out == named > 0


def test_a_tenant_hears_its_own_events_in_a_digest_and_no_figures(server, store):
    """Spec: B11"""
    key = store.keys.add("k", Role.READ, tenant_id=1)[1]
    with Listener(server.address, DIGESTS, None, Authorization=f"Bearer {key}") as listener:
        submit(store, tenant_id=2)
        mine = submit(store, tenant_id=1)
        [digest] = listener.next(event="digest")
    assert [event["task_id"] for event in digest["events"]] == [mine.id]


def test_a_new_point_of_the_charts_is_told_to_who_listens(server, store):
    """Spec: X7"""
    with Listener(server.address, DIGESTS) as listener:
        store.series.take()
        [figure] = listener.next(event="figure")
    assert figure["at"] == store.series.newest().at.isoformat().replace("+00:00", "Z")
    assert figure["succeeded"] == 0


def test_what_happened_last_is_shown_newest_first(client, store):
    """Spec: X7, B11"""
    tasks = [submit(store, tenant_id=number) for number in (1, 2, 1)]
    store.lanes.pause("default")
    items = client.get("/api/events/latest", params={"limit": 3}).json()["items"]
    assert [(item["kind"], item["task_id"]) for item in items] == [
        ("paused", None), ("submitted", tasks[2].id), ("submitted", tasks[1].id),
    ]  # fmt: skip
    assert (items[1]["type"], items[1]["lane"]) == ("plain", "default")


def test_a_tenants_latest_events_are_its_own(client, store):
    """Spec: B11"""
    key = store.keys.add("k", Role.READ, tenant_id=1)[1]
    mine, _ = submit(store, tenant_id=1), submit(store, tenant_id=2)
    items = client.get("/api/events/latest", headers={"Authorization": f"Bearer {key}"}).json()["items"]
    assert [item["task_id"] for item in items] == [mine.id]
