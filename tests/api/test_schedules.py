"""Schedules over HTTP: B's names, made, edited, put on and taken off line, triggered, previewed; and their log."""

from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.keys import Role
from headgate.core.machine import Raised
from headgate.core.schedule import ScheduleStatus
from headgate.core.task import TaskType
from headgate.settings import Settings
from headgate.store.store import open_store
from tests.api.conftest import HERE
from tests.factories import PLAIN, Clock, settle, sql, start
from tests.schedules import new

WHOLE = {
    "type": "plain",
    "cron_expressions": "30 2 * * MON-FRI",
    "timezone": "Asia/Shanghai",
    "tenant_id": 7,
    "creator": 5,
    "status": "online",
    "log": "trigger_log",
    "category": "night",
    "ext": {"a": [1, None]},
    "missed": "once",
    "overlap": "queue",
    "http": None,
    "task": {"name": "n", "lane": "slow", "priority": 2, "mutex": "m", "timeout_seconds": 9.0},
}
SHORT = {"type": "plain", "cron_expressions": "*/5 * * * *"}
AT = "/api/periodic-tasks"


def make(client, **said):
    answer = client.post(AT, json=SHORT | said)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_schedule_is_made_shown_listed_replaced_and_removed(client):
    """Spec: B9"""
    made = client.post(AT, json=WHOLE)
    assert made.status_code == 201
    given = made.json()
    assert {name: given[name] for name in WHOLE} == WHOLE
    assert given.keys() == WHOLE.keys() | {"id", "code", "next_tick", "create_date", "update_date"}
    assert (given["code"], given["next_tick"][-9:]) == (None, "18:30:00Z")
    where = f"{AT}/{given['id']}"
    assert client.get(where).json() == given
    assert client.get(AT).json() == {"items": [given], "next_cursor": None}
    replaced = client.put(where, json=SHORT).json()
    assert replaced["cron_expressions"] == "*/5 * * * *"
    assert (replaced["tenant_id"], replaced["status"]) == (7, "online")
    assert (replaced["ext"], replaced["missed"], replaced["task"], replaced["creator"]) == ({}, "skip", {}, 0)
    assert client.delete(where).status_code == 204
    for method in ("GET", "DELETE"):
        assert client.request(method, where).status_code == 404


def test_what_is_left_out_has_its_default(client):
    """Spec: B9, B10"""
    made = make(client)
    default = {
        "timezone": "UTC", "status": "new", "log": "trans_log", "missed": "skip", "overlap": "allow", "creator": 0,
        "tenant_id": 0,
    }  # fmt: skip
    assert {name: made[name] for name in default} == default
    assert (made["next_tick"], made["http"], made["category"]) == (None, None, None)


def test_one_that_calls_an_endpoint_needs_no_known_type(client):
    """Spec: B9"""
    made = make(client, type="report", http={"url": "https://example.org/a"})
    assert made["http"] == {"url": "https://example.org/a", "method": "POST"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron_expressions": "* * *"}, {"cron_expressions": 5}, {"cron_expressions": ""}, {"timezone": "Mars/Olympus"},
        {"type": "plane"}, {"type": ""}, {"status": "running"}, {"log": "all"}, {"missed": "never"},
        {"overlap": "maybe"}, {"http": {"url": "ftp://x"}},
        {"http": {"url": "http://127.0.0.1/"}}, {"http": {"url": "https://a@b/"}}, {"http": {}},
        {"http": {"url": "https://example.org", "method": "BREW"}}, {"task": {"start_time": "2026-01-01T00:00:00Z"}},
        {"task": {"priority": 2**70}}, {"task": {"mutex": ""}}, {"id": 1}, {"next_tick": None}, {"code": "x"},
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_refused_and_nothing_is_made(client, wrong):
    """Spec: B9"""
    assert client.post(AT, json=SHORT | wrong).status_code == 422
    assert client.get(AT).json()["items"] == []


def test_an_unknown_type_is_refused_with_the_near_names(client):
    """Spec: B9"""
    assert "did you mean plain" in client.post(AT, json=SHORT | {"type": "plane"}).json()["detail"]


def test_on_and_off_line(client):
    """Spec: B9"""
    where = f"{AT}/{make(client)['id']}"
    for _ in range(2):
        online = client.post(f"{where}/online")
        assert (online.status_code, online.json()["status"]) == (200, "online")
        assert online.json()["next_tick"] is not None
    offline = client.post(f"{where}/offline", json={}).json()
    assert (offline["status"], offline["next_tick"]) == ("offline", None)
    assert client.put(where, json=SHORT | {"status": "online"}).json()["status"] == "online"


def test_a_trigger_fires_now_is_logged_and_ends_with_its_task(client, store):
    """Spec: B9, B10"""
    made = make(client)
    fired = client.post(f"{AT}/{made['id']}/trigger")
    assert fired.status_code == 200
    task_id, log_id = fired.json()["task_id"], fired.json()["log_id"]
    assert client.get(f"/api/tasks/{task_id}").json()["type"] == "plain"
    [execution] = start(store)
    settle(store, execution, Raised("no luck"))
    store.schedules.end_runs()
    [line] = client.get(f"{AT}/{made['id']}/logs").json()["items"]
    assert line.pop("create_date") <= line.pop("update_date")
    assert line == {
        "id": log_id, "periodic_task_id": made["id"], "tenant_id": 0, "result": "failure",
        "error_info": f"task {task_id} is failed: no luck", "tick": None, "task_id": task_id,
    }  # fmt: skip


def test_a_trigger_that_would_overlap_is_refused(client):
    """Spec: B9"""
    where = f"{AT}/{make(client, overlap='skip')['id']}/trigger"
    assert client.post(where).status_code == 200
    again = client.post(where)
    assert (again.status_code, "has not ended" in again.json()["detail"]) == (409, True)


def test_with_a_key_nothing_is_made_or_fired_twice(client):
    """Spec: B9"""
    key = {"Idempotency-Key": "k"}
    first, second = (client.post(AT, json=SHORT, headers=key).json() for _ in range(2))
    assert first == second
    assert client.post(AT, json=SHORT | {"creator": 1}, headers=key).status_code == 422
    where = f"{AT}/{first['id']}/trigger"
    assert client.post(where, headers=key).status_code == 422
    other = {"Idempotency-Key": "l"}
    assert client.post(where, headers=other).json() == client.post(where, headers=other).json()
    assert len(client.get("/api/tasks").json()["items"]) == 1


def test_the_log_and_the_list_are_paged(client):
    """Spec: B10"""
    made = [make(client, creator=number) for number in range(3)]
    page = client.get(AT, params={"limit": 2}).json()
    assert [each["id"] for each in page["items"]] == [made[2]["id"], made[1]["id"]]
    rest = client.get(AT, params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert ([each["id"] for each in rest["items"]], rest["next_cursor"]) == ([made[0]["id"]], None)
    where = f"{AT}/{made[0]['id']}"
    ids = [client.post(f"{where}/trigger").json()["log_id"] for _ in range(3)]
    page = client.get(f"{where}/logs", params={"limit": 2}).json()
    assert [line["id"] for line in page["items"]] == ids[:0:-1]
    rest = client.get(f"{where}/logs", params={"cursor": page["next_cursor"]}).json()
    assert [line["id"] for line in rest["items"]] == ids[:1]


def test_the_list_is_filtered(client, store):
    """Spec: B9"""
    store.types.put(TaskType("other"))
    first, second = make(client, status="online"), make(client, type="other")
    for query, wanted in (("status=online", first), ("status=new", second), ("type=other", second)):
        assert [each["id"] for each in client.get(f"{AT}?{query}").json()["items"]] == [wanted["id"]]
    for wrong in ("status=odd", "status=null", "type=%00", "limit=0", "cursor=x"):
        assert client.get(f"{AT}?{wrong}").status_code == 422


def test_the_preview_shows_ticks_by_both_clocks_over_a_change_of_the_clock(client):
    """Spec: B9"""
    made = make(client, cron_expressions="30 2 * * *", timezone="Europe/Berlin")
    found = client.get(f"{AT}/{made['id']}/preview", params={"count": 2, "after": "2026-03-28T12:00:00Z"}).json()
    assert found["items"] == [
        {"at": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00+02:00"},
        {"at": "2026-03-30T00:30:00Z", "local": "2026-03-30T02:30:00+02:00"},
    ]
    for end_of_days in ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"):
        assert client.get(f"{AT}/{made['id']}/preview", params={"after": end_of_days}).status_code == 200
    default = client.get(f"{AT}/{made['id']}/preview").json()["items"]
    assert len(default) == 10
    assert all(datetime.fromisoformat(tick["at"]) > datetime.now(UTC) for tick in default)
    for wrong in ({"count": 0}, {"count": 101}, {"after": "2026-03-28T12:00:00"}, {"after": "soon"}):
        assert client.get(f"{AT}/{made['id']}/preview", params=wrong).status_code == 422


def test_ticks_are_foretold_by_the_clock_that_they_are_fired_by(url):
    """Spec: B9"""
    clock = Clock()
    clock.advance(4000 * 86_400)
    with open_store(url, clock) as store, TestClient(create_app(store, Settings(url=url)), base_url=HERE) as client:
        store.types.put(PLAIN)
        made = make(client, status="online")
        for path, asked in ((f"{made['id']}/preview", {}), ("preview", {"cron_expressions": "*/5 * * * *"})):
            assert client.get(f"{AT}/{path}", params=asked).json()["items"][0]["at"] == made["next_tick"]


def test_ticks_are_foretold_before_there_is_a_schedule_as_they_are_for_one(client):
    """Spec: B9"""
    for expression, zone in (("30 2 * * *", "Europe/Berlin"), ("*/20 * * * * *", "UTC"), ("@daily", "Asia/Shanghai")):
        asked = {"count": 3, "after": "2026-03-28T12:00:00Z"}
        said = {"cron_expressions": expression, "timezone": zone}
        foretold = client.get(f"{AT}/preview", params=said | asked)
        made = make(client, **said)
        assert foretold.json() == client.get(f"{AT}/{made['id']}/preview", params=asked).json()
        assert len(foretold.json()["items"]) == 3
    default = client.get(f"{AT}/preview", params={"cron_expressions": "0 * * * *"}).json()["items"]
    assert [tick["at"] for tick in default] == [tick["local"] for tick in default]
    assert len(default) == 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron_expressions": "30 2 * * MOON"}, {"cron_expressions": "* * *"}, {"cron_expressions": "0 0 31 2 *"},
        {"cron_expressions": ""}, {"cron_expressions": "\0"}, {"cron_expressions": "*" * 256},
        {"cron_expressions": None}, {"timezone": "Mars/Olympus"}, {"timezone": ""}, {"count": 0}, {"count": 101},
        {"after": "2026-03-28T12:00:00"},
    ],
)  # fmt: skip
def test_a_schedule_that_could_not_be_made_has_no_preview(client, wrong):
    """Spec: B9"""
    asked = {"cron_expressions": "0 * * * *"} | wrong
    answer = client.get(f"{AT}/preview", params={name: value for name, value in asked.items() if value is not None})
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"]


def test_a_programs_schedule_is_shown_with_its_code_and_edited_by_a_person(client, store):
    """Spec: B9"""
    store.schedules.register([new("0 0 * * *", code="nightly")])
    [shown] = client.get(AT).json()["items"]
    assert (shown["code"], shown["status"]) == ("nightly", "online")
    client.put(f"{AT}/{shown['id']}", json=SHORT)
    store.schedules.register([new("0 1 * * *", code="nightly")])
    assert client.get(f"{AT}/{shown['id']}").json()["cron_expressions"] == "*/5 * * * *"


def test_a_schedule_stays_its_tenants(client):
    """Spec: B11"""
    made = make(client, tenant_id=7)
    assert client.put(f"{AT}/{made['id']}", json=SHORT | {"tenant_id": 8}).status_code == 422
    assert client.put(f"{AT}/{made['id']}", json=SHORT | {"tenant_id": 7}).status_code == 200


def test_a_tenants_key_sets_up_no_call_to_a_private_address_that_only_operators_may_reach(store, url):
    """Spec: X12, B9"""
    private, other = {"url": "http://10.0.0.1/"}, {"url": "http://10.0.0.2/"}
    settings = Settings(url=url, callback_allow="10.0.0.0/8", tenant_callback_allow="10.0.0.2")
    with TestClient(create_app(store, settings), base_url=HERE) as client:
        keys = {tenant: store.keys.add("k", Role.ADMIN, tenant_id=tenant)[1] for tenant in (None, 7)}

        def ask(method, tenant, http, number=""):
            headers = {"Authorization": f"Bearer {keys[tenant]}"}
            return client.request(method, f"{AT}{number}", json=SHORT | {"tenant_id": 7, "http": http}, headers=headers)

        refused = ask("POST", 7, private)
        assert refused.status_code == 422
        assert "HEADGATE_TENANT_CALLBACK_ALLOW" in refused.json()["detail"]
        assert ask("POST", 7, other).status_code == 201
        made = f"/{ask('POST', None, private).json()['id']}"
        assert ask("PUT", 7, private, made).status_code == 200  # it stays the operator's
        assert ask("PUT", 7, private | {"method": "PUT"}, made).status_code == 422
    whose = [schedule.definition.http.by_tenant for schedule in store.schedules.find()]
    assert whose == [False, True]  # the newest first


def test_who_did_what_is_in_the_audit(client, store, url):
    """Spec: A12"""
    made = make(client)
    client.post(f"{AT}/{made['id']}/online")
    acts = sql(url, "SELECT kind, actor FROM headgate_task_event WHERE kind LIKE 'periodic%' ORDER BY id")
    assert acts == [("periodic_added", "person"), ("periodic_online", "person")]
    assert store.schedules.get(made["id"]).status is ScheduleStatus.ONLINE
