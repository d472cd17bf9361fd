"""Task types over HTTP: B's words, edited by a person, without their secrets."""

import copy
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.errors import Invalid
from headgate.core.machine import Raised
from headgate.core.retry import fixed
from headgate.core.task import NewTask, TaskType
from headgate.core.task_types import REDACTED
from headgate.outward.sealing import Seals
from headgate.settings import Settings
from tests.api.conftest import HERE
from tests.factories import running, settle, sql, submit

WHOLE: dict[str, Any] = {
    "name": "Send a letter",
    "category": "mail",
    "lane": "post",
    "uses": ["stamp", "disk-writer"],
    "priority": 2,
    "mutex": "address:{address.street}",
    "rate_key": "{carrier}",
    "unique_key": "{number}",
    "unique": None,
    "unique_seconds": 60.0,
    "debounce_seconds": None,
    "debounce_longest_seconds": None,
    "debounce_replace": False,
    "defaults": {"carrier": "post"},
    "config": {
        "retry_strategy": "sequence",
        "retry_interval": 3.0,
        "retry_sequence": [1.0, 2.0, 60.0],
        "initial_delay": 5.0,
        "factor": 2.0,
        "cap": 3600.0,
        "jitter": 0.1,
        "max_error_count": 4,
        "timeout": 90.0,
        "need_manual": True,
        "unknown_errors": "fail",
        "retry_on": ["shop.api.ApiError"],
        "fatal": ["CardExpired"],
        "on_child_failure": "cancel",
        "callback": {
            "success": {"url": "https://example.org/done", "method": "PUT"},
            "error": {"url": "https://example.org/failed", "method": "POST"},
            "security": {"type": "aksk", "ak": "us"},
        },
    },
}
SECRET = "what the server keeps to itself"  # noqa: S105


@pytest.fixture
def client(store, url):
    """A server that has something to seal with."""
    with TestClient(create_app(store, Settings(url=url, secret=SECRET)), base_url=HERE) as opened:
        yield opened


def put_whole(client):
    asked = copy.deepcopy(WHOLE)
    asked["config"]["callback"]["security"]["sk"] = "s" * 24
    return client.put("/api/task-types/letter", json=asked)


def test_a_type_is_put_shown_listed_and_removed(client, store):
    """Spec: B5, B6"""
    put = put_whole(client)
    shown = {"id": store.types.get("letter").id, "code": "letter", **WHOLE, "edited": True, "declared_by": ""}
    assert (put.status_code, put.json()) == (200, shown | {"pause": None})
    assert client.get("/api/task-types/letter").json() == put.json()
    listed = client.get("/api/task-types").json()["items"]
    assert {"called-back", "letter", "manual", "plain"} <= {kind["code"] for kind in listed}
    assert put.json() in listed
    assert client.delete("/api/task-types/letter").status_code == 204
    for method in ("GET", "DELETE"):
        assert client.request(method, "/api/task-types/letter").status_code == 404


def test_what_is_left_out_has_its_default(client, store):
    """Spec: B5"""
    assert client.put("/api/task-types/bare", json={}).status_code == 200
    assert store.types.by_code()["bare"] == TaskType("bare")


def test_a_new_type_is_taken_on_at_once_and_an_edit_holds_at_once(client):
    """Spec: B5"""
    client.put("/api/task-types/letter", json={"lane": "slow"})
    assert client.post("/api/tasks", json={"type": "letter"}).json()["lane"] == "slow"
    client.put("/api/task-types/letter", json={"lane": "fast"})
    assert client.post("/api/tasks", json={"type": "letter"}).json()["lane"] == "fast"


def test_a_task_gets_the_priority_and_the_keys_of_its_type(client):
    """Spec: B5, A10, X2"""
    put_whole(client)
    asked = {"type": "letter", "ext": {"address": {"street": "Elm"}, "number": 7}}
    task = client.post("/api/tasks", json=asked).json()
    assert (task["priority"], task["mutex"], task["rate_key"], task["unique_key"]) == (2, "address:Elm", "post", "7")
    assert client.post("/api/tasks", json=asked).json()["created"] is False
    own = client.post("/api/tasks", json={**asked, "priority": 9, "mutex": "mine", "unique_key": "other"}).json()
    assert (own["priority"], own["mutex"], own["rate_key"], own["unique_key"]) == (9, "mine", "post", "other")


def test_a_task_that_lacks_what_its_type_s_keys_are_made_of_is_refused(client, store):
    """Spec: B5, A10"""
    put_whole(client)
    answer = client.post("/api/tasks", json={"type": "letter", "ext": {"number": 7}})
    assert answer.status_code == 422
    assert (
        "argument 'address' is missing: the key 'address:{address.street}' is made from it" in answer.json()["detail"]
    )
    assert store.tasks.find().items == []


@pytest.mark.parametrize(
    "wrong", [{"mutex": "{"}, {"mutex": ""}, {"rate_key": "{}"}, {"unique_key": "x" * 256}, {"defaults": []},
              {"defaults": {"a": "x" * 20_000}}, {"priority": "high"},
              {"mutex": "{0}"}, {"rate_key": "{a!r}"}, {"unique_key": "{a:>30000000}"},
              {"mutex": "{a:{b}}"}, {"unique": "all"}, {"unique": "arguments", "unique_key": "k"},
              {"unique_seconds": 5}, {"unique_key": "k", "unique_seconds": 0}, {"debounce_longest_seconds": 5},
              {"unique_key": "k", "unique_seconds": 5, "debounce_seconds": 5}],
)  # fmt: skip
def test_a_type_whose_keys_cannot_be_is_refused(client, store, wrong):
    """Spec: B5"""
    assert client.put("/api/task-types/letter", json=wrong).status_code == 422
    assert "letter" not in store.types.by_code()


def test_a_type_can_be_sent_back_as_it_was_read(client, store):
    """Spec: B5"""
    store.types.put(TaskType("scan", declared_by="shop:scan"))
    read = client.get("/api/task-types/scan").json()
    assert client.put("/api/task-types/scan", json=read).json() == read | {"edited": True}
    other = client.put("/api/task-types/plain", json=read)
    assert (other.status_code, "scan" in other.json()["detail"]) == (422, True)


def test_a_type_has_an_id_that_stays_and_cannot_be_another(client, store):
    """Spec: B5"""
    first = client.put("/api/task-types/scan", json={"lane": "slow"}).json()["id"]
    assert first == store.types.get("scan").id
    assert client.put("/api/task-types/scan", json={"id": first, "lane": "fast"}).json()["id"] == first
    for query in ("", "?dry_run=true"):
        refused = client.put(f"/api/task-types/scan{query}", json={"id": first + 1, "lane": "wrong"})
        assert (refused.status_code, f"has the id {first}" in refused.json()["detail"]) == (422, True)
    assert client.get("/api/task-types/scan").json()["lane"] == "fast"
    assert client.put("/api/task-types/fresh?dry_run=true", json={}).json()["id"] is None
    assert client.put("/api/task-types/fresh", json={"id": first}).status_code == 422


def test_what_a_type_says_of_uniqueness_holds_for_what_is_submitted(client):
    """Spec: B5, X2"""
    client.put("/api/task-types/scan", json={"unique": "arguments", "unique_seconds": 60})
    calls = [{"type": "scan", "ext": ext} for ext in ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    first, again = (client.post("/api/tasks", json=call).json() for call in calls)
    assert (first["created"], again["created"], again["id"]) == (True, False, first["id"])
    client.put("/api/task-types/save", json={"unique_key": "{document}", "debounce_seconds": 60})
    calls = [{"type": "save", "ext": {"document": 7, "text": text}} for text in ("H", "Hello")]
    first, again = (client.post("/api/tasks", json=call).json() for call in calls)
    assert (first["status"], again["created"], again["ext"]["text"]) == ("pending", False, "Hello")


def test_no_program_overwrites_what_was_edited(client, store):
    """Spec: B5"""
    client.put("/api/task-types/plain", json={"name": "edited"})
    store.types.put(TaskType("plain", name="registered"))
    assert client.get("/api/task-types/plain").json()["name"] == "edited"


def test_who_said_what_holds_is_shown(client, store):
    """Spec: B5"""
    store.types.put(TaskType("scan", declared_by="shop:scan"))
    shown = client.get("/api/task-types/scan").json()
    assert (shown["edited"], shown["declared_by"]) == (False, "shop:scan")
    edit = client.put("/api/task-types/scan", json={"name": "Scan"}).json()
    assert (edit["edited"], edit["declared_by"]) == (True, "shop:scan")


# A dry run


def dry_run(client, code, **said):
    return client.put(f"/api/task-types/{code}?dry_run=true", json=said)


def test_a_dry_run_says_what_would_change_and_changes_nothing(client, store):
    """Spec: B5"""
    store.types.put(TaskType("scan", retry=fixed(5, retries=3), declared_by="shop:scan"))
    failed = running(store, "scan")
    settle(store, failed, Raised("again", 60.0))
    own = submit(store, "scan", max_error_count=9, timeout_seconds=7, lane="own")
    before, last = store.types.by_code(), store.events.last()
    answer = dry_run(client, "scan", lane="fast", config={"timeout": 1})
    foreseen = answer.json().pop("foreseen")
    assert (answer.status_code, answer.json()["lane"], answer.json()["declared_by"]) == (200, "fast", "shop:scan")
    assert foreseen.pop("as_of").endswith("Z")
    assert foreseen.pop("changes") == {
        "lane": {"old": "default", "new": "fast"},
        "retry_strategy": {"old": "fixed_period", "new": "none"},
        "retry_interval": {"old": 5.0, "new": 0.0},
        "max_error_count": {"old": 3, "new": 0},
        "timeout": {"old": 30.0, "new": 1.0},
    }
    assert foreseen == {
        "states": {"queued": 1, "retrying": 1}, "given_up": 1, "given_up_ids": [failed.id], "spared": 0,
        "spared_ids": [], "retimed": 1, "stay": 1, "exact": True,
    }  # fmt: skip
    assert own.id not in foreseen["given_up_ids"]
    assert (store.types.by_code(), store.events.last()) == (before, last)


def test_a_dry_run_names_twenty_and_counts_all(client, store):
    """Spec: B5"""
    many = [made.id for made in store.tasks.submit_many([NewTask("plain", delay_seconds=60)] * 21)]
    config = {"retry_strategy": "fixed_period", "retry_interval": 5, "max_error_count": 2}
    foreseen = dry_run(client, "plain", config=config).json()["foreseen"]
    assert (foreseen["spared"], foreseen["spared_ids"], foreseen["given_up"]) == (21, many[:20], 0)


def test_a_dry_run_of_a_new_type_adds_none(client, store):
    """Spec: B5"""
    foreseen = dry_run(client, "fresh", lane="fast").json()["foreseen"]
    assert (foreseen["changes"], foreseen["states"]) == ({"lane": {"new": "fast"}}, {})
    assert client.get("/api/task-types/fresh").status_code == 404
    assert "fast" not in {room.name for room in store.lanes.all()}


def test_what_an_edit_does_is_what_its_dry_run_said(client, store):
    """Spec: B5, A12"""
    foreseen = dry_run(client, "plain", name="Plain", config={"need_manual": True}).json()["foreseen"]
    last = store.events.last()
    done = client.put("/api/task-types/plain", json={"name": "Plain", "config": {"need_manual": True}}).json()
    assert "foreseen" not in done
    [event], _ = store.events.after(last)
    detail = json.loads(event.detail)
    assert (event.kind, detail["type"], detail["changes"]) == ("type_changed", "plain", foreseen["changes"])


def test_a_dry_run_refuses_what_an_edit_would(client, store):
    """Spec: B5"""
    for wrong in (
        {"config": {"max_error_count": 1}},
        {"lane": "*"},
        {"mutex": "{"},
        {"mutex": "{a!r}"},
        {"colour": "red"},
    ):
        answers = [client.put(f"/api/task-types/plain{query}", json=wrong) for query in ("", "?dry_run=true")]
        assert [answer.status_code for answer in answers] == [422, 422]
        assert answers[0].json()["detail"] == answers[1].json()["detail"]
    assert client.put("/api/task-types/plain?dry_run=perhaps", json={}).status_code == 422


def test_a_dry_run_is_for_those_who_may_edit(client):
    """Spec: B5, B11"""
    answers = {}
    headers: dict[str, str] = {}  # the first key is made without one
    for name, said in {"admin": {}, "operator": {}, "of a tenant": {"role": "admin", "tenant_id": 1}}.items():
        made = client.post("/api/keys", json={"name": name, "role": name, **said}, headers=headers).json()
        own = {"authorization": f"Bearer {made['key']}"}
        headers = own if name == "admin" else headers
        answers[name] = client.put("/api/task-types/plain?dry_run=true", json={}, headers=own).status_code
    assert answers == {"admin": 200, "operator": 403, "of a tenant": 403}
    assert client.put("/api/task-types/plain?dry_run=true", json={}).status_code == 401


def test_a_tenant_sees_whom_callbacks_go_to_and_not_the_whole_address(client):
    """Spec: B6, B11"""
    callback = {"success": {"url": "https://example.org/done?token=x"}}
    assert client.put("/api/task-types/letter", json={"config": {"callback": callback}}).status_code == 200
    headers: dict[str, str] = {}  # the first key is made without one
    seen = {}
    for tenant_id in (None, 1):
        said = {"name": "k", "role": "admin", "tenant_id": tenant_id}
        own = {"authorization": f"Bearer {client.post('/api/keys', json=said, headers=headers).json()['key']}"}
        headers = headers or own
        answer = client.get("/api/task-types/letter", headers=own).json()
        seen[tenant_id] = answer["config"]["callback"]["success"]["url"]
    assert seen == {None: "https://example.org/done?token=x", 1: "https://example.org/…"}


def test_no_dry_run_and_no_audit_row_tells_a_secret(client, store, url):
    """Spec: B6, A12"""
    secret = "-".join(["canary"] * 4)
    with_security(client, type="aksk", ak="us", sk="s" * 24)
    callback = {"security": {"type": "aksk", "ak": "us", "sk": secret}}
    told = dry_run(client, "letter", config={"callback": callback})
    assert told.json()["foreseen"]["changes"]["callback.security.sk"] == {"old": REDACTED, "new": REDACTED}
    with_security(client, type="aksk", ak="us", sk=secret)
    sealed = store.types.by_code()["letter"].callback["security"]["sk"]
    audit = repr(sql(url, "SELECT detail FROM headgate_task_event"))
    assert REDACTED in audit
    assert [text for text in (told.text, audit) if "canary" in text or sealed in text or "sealed:" in text] == []


def with_security(client, **security):
    config = {"callback": {"success": {"url": "https://example.org"}, "security": security}}
    return client.put("/api/task-types/letter", json={"config": config})


def test_a_secret_is_kept_sealed_and_never_shown(client, store, url):
    """Spec: B6"""
    secret = "-".join(["canary"] * 4)
    answers = [
        with_security(client, type="aksk", ak="us", sk=secret),
        client.get("/api/task-types/letter"),
        client.get("/api/task-types"),
        with_security(client, type="aksk", ak="us"),
    ]
    assert all(answer.status_code == 200 and "canary" not in answer.text for answer in answers)
    sealed = store.types.by_code()["letter"].callback["security"]["sk"]
    assert Seals([SECRET]).open(sealed, "type letter") == secret
    assert "canary" not in repr(
        [sql(url, f"SELECT * FROM {table}") for table in ("headgate_task_metadata", "headgate_task_event")]
    )


def test_another_key_does_not_inherit_the_secret(client, store):
    """Spec: B6"""
    assert with_security(client, type="aksk", ak="us", sk="s" * 24).status_code == 200
    answer = with_security(client, type="aksk", ak="them")
    assert (answer.status_code, "security.sk" in answer.json()["detail"]) == (422, True)
    assert store.types.by_code()["letter"].callback["security"]["ak"] == "us"


def test_without_a_secret_of_its_own_a_server_stores_none(store, url):
    """Spec: B6"""
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as bare:
        answer = with_security(bare, type="aksk", ak="us", sk="s" * 24)
        assert (answer.status_code, "HEADGATE_SECRET" in answer.json()["detail"]) == (422, True)
        assert with_security(bare, type="none").status_code == 200


def test_no_open_secret_gets_into_the_store_by_any_way(store):
    """Spec: B6"""
    open_one = {"security": {"type": "aksk", "ak": "us", "sk": "s" * 24}}
    with pytest.raises(Invalid, match="sealed"):
        store.types.put(TaskType("letter", callback=open_one))


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"retry_strategy": "none", "max_error_count": 1}, "max_error_count 0"),
        ({"retry_strategy": "fixed_period"}, "above 0"),
        ({"retry_strategy": "sequence", "max_error_count": 1}, "delay"),
        ({"retry_strategy": "sometimes"}, "retry_strategy"),
        ({"retry_sequence": [-1]}, "retry_sequence"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 1e300}, "timeout"),
        ({"jitter": 2}, "jitter"),
        ({"factor": 0.5}, "factor"),
        ({"unknown_errors": "ignore"}, "unknown_errors"),
        ({"callback": {"success": {"url": "ftp://example.org"}}}, "url"),
        ({"callback": {"success": {"url": "https://example.org", "method": "GET"}}}, "method"),
        ({"callback": {"success": {"url": "http://127.1/"}}}, "four decimal numbers"),
        ({"callback": {"success": {"url": "https://user@example.org/"}}}, "user name"),
        ({"callback": {"error": {"url": "http://169.254.169.254/latest"}}}, "HEADGATE_CALLBACK_ALLOW"),
        ({"callback": {"security": {"type": "magic"}}}, "type"),
        ({"callback": {"security": {"type": "aksk", "ak": "us"}}}, "security.sk"),
        ({"callback": {"security": {"type": "aksk", "ak": "us", "sk": "short"}}}, "sk"),
        ({"callback": {"security": {"type": "aksk", "ak": "a b", "sk": "s" * 24}}}, "ak"),
        ({"sk": "x"}, "sk"),
    ],
)
def test_a_config_that_breaks_a_rule_is_refused(client, config, word):
    """Spec: B5"""
    answer = client.put("/api/task-types/letter", json={"config": config})
    assert answer.status_code == 422
    assert word in answer.json()["detail"]
    assert client.get("/api/task-types/letter").status_code == 404


@pytest.mark.parametrize("body", [{"lane": "*"}, {"uses": ["a", "a"]}, {"uses": ["a,b"]}, {"code": "other"}])
def test_a_type_that_breaks_a_rule_is_refused(client, body):
    """Spec: B5"""
    assert client.put("/api/task-types/letter", json=body).status_code == 422
    assert client.get("/api/task-types/letter").status_code == 404
