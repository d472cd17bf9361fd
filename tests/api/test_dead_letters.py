"""Dead letters over HTTP: listed, replayed as they are or edited, resolved, discarded; one or many."""

import json

import pytest

from headgate.core.keys import Role
from headgate.core.machine import Raised
from headgate.core.states import State
from tests.factories import put, record, running, settle, sql, submit

S = State


def dead(store, error="no", **fields):
    execution = running(store, "manual", **fields)
    settle(store, execution, Raised(error))
    return store.tasks.get(execution.id)


def found(client, query=""):
    answer = client.get(f"/api/dead-letters{query}")
    assert answer.status_code == 200, answer.text
    return [task["id"] for task in answer.json()["items"]]


def ask(client, what, status=200, **body):
    answer = client.post(f"/api/dead-letters/{what}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_dead_letters_are_counted_by_what_they_died_of(client, store):
    """Spec: D12"""
    for number in range(3):
        dead(store, f"invoice {number} has no address")
    dead(store, "refused")
    assert client.get("/api/dead-letters/groups?limit=1").json() == {
        "total": 4,
        "exact": True,
        "items": [
            {"type": "manual", "error": "invoice … has no address", "contains": "has no address", "count": 3},
        ],
    }
    assert client.get("/api/dead-letters/groups?error=refused").json()["total"] == 1


def test_dead_letters_are_listed_newest_first_in_pages(client, store):
    """Spec: D12"""
    submit(store)
    letters = [dead(store).id for _ in range(3)]
    assert found(client) == letters[::-1]
    page = client.get("/api/dead-letters?limit=2").json()
    assert page["next_cursor"] == letters[1]
    assert found(client, f"?cursor={page['next_cursor']}") == letters[:1]
    assert client.get("/api/dead-letters").json()["items"][0]["error_info"] == "no"


def test_a_page_that_found_nothing_says_where_to_go_on(client, store, monkeypatch):
    """Spec: D12, X4"""
    monkeypatch.setattr("headgate.store.tasks.dead_letters.MOST_READ", 2)
    first = dead(store, "mine").id
    for _ in range(2):
        dead(store)
    page = client.get("/api/dead-letters?error=mine").json()
    assert (page["items"], page["next_cursor"]) == ([], first + 1)
    assert found(client, f"?error=mine&cursor={page['next_cursor']}") == [first]
    done = ask(client, "discard", filter={"error": "mine"})
    assert done == {"items": [], "next_cursor": first + 1}
    done = ask(client, "discard", filter={"error": "mine"}, cursor=done["next_cursor"])
    assert ([each["id"] for each in done["items"]], done["next_cursor"]) == ([first], None)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?type=manual", "abc"), ("?type=plain", ""), ("?lane=slow", "b"), ("?creator=7", "c"), ("?tenant_id=1", "c"),
        ("?error=TIMEOUT", "ab"), ("?error=timeout&lane=slow", "b"), ("?category=x", "b"), ("?older_than=3600", "a"),
        ("?younger_than=3600", "bc"),
    ],
)  # fmt: skip
def test_dead_letters_are_filtered(client, store, url, query, names):
    """Spec: D12, B11"""
    letters = {
        "a": dead(store, "Timeout").id,
        "b": dead(store, "read timeout", lane="slow", category="x").id,
        "c": dead(store, "full", creator=7, tenant_id=1).id,
    }
    long_ago = 1 if url.startswith("sqlite") else "'2000-01-01T00:00:00Z'"
    sql(url, f"UPDATE headgate_task SET update_date = {long_ago} WHERE id = {letters['a']}")
    assert found(client, query) == [letters[name] for name in reversed(names)]


@pytest.mark.parametrize("query", ["?limit=0", "?limit=201", "?older_than=-1", "?status=dead", "?cursor=0"])
def test_a_list_that_breaks_a_rule_is_refused(client, query):
    """Spec: D12"""
    assert client.get(f"/api/dead-letters{query}").status_code == 422


def test_one_letter_is_edited_and_replayed_and_the_audit_tells_by_whom(client, store):
    """Spec: D12, B7, A12"""
    letter = dead(store, ext='{"url": "htp://x", "page": 3}')
    edit = {"ext": {"url": "http://x"}, "priority": 1, "lane": "fast", "timeout_seconds": 9.5, "max_error_count": 2}
    assert ask(client, "replay", ids=[letter.id], edit=edit) == {
        "items": [{"id": letter.id, "status": "queued", "problem": None}], "next_cursor": None,
    }  # fmt: skip
    task = client.get(f"/api/tasks/{letter.id}").json()
    assert {name: task[name] for name in edit} == edit
    [*_, event] = client.get(f"/api/tasks/{letter.id}/events").json()["items"]
    assert (event["kind"], event["from"], event["to"], event["actor"]) == ("retried", "dead", "queued", "person")
    told = event["params"]["edit"]
    assert told["ext.url"] == {"old": "htp://x", "new": "http://x"}
    assert told["ext.page"] == {"old": 3}
    assert told["priority"] == {"old": 5, "new": 1}


def test_a_replay_is_heard_in_the_lane_it_goes_to(client, store):
    """Spec: D12"""
    letter = dead(store)
    assert client.get("/api/events/latest?limit=1").json()["items"][0]["lane"] == "default"
    ask(client, "replay", ids=[letter.id], edit={"lane": "fast"})
    assert client.get("/api/events/latest?limit=1").json()["items"][0]["lane"] == "fast"


def test_a_replay_without_an_edit_changes_nothing_else(client, store):
    """Spec: D12"""
    letter = dead(store, ext='{"a": 1}')
    ask(client, "replay", ids=[letter.id])
    task = store.tasks.get(letter.id)
    assert (task.status, task.ext, task.priority, task.lane) == (S.QUEUED, letter.ext, letter.priority, letter.lane)


def test_many_letters_are_replayed_with_some_arguments_set(client, store):
    """Spec: D12"""
    letters = [dead(store, ext=json.dumps({"page": page, "token": "old"})).id for page in range(3)]
    other = dead(store, lane="slow").id
    done = ask(client, "replay", filter={"lane": "default"}, edit={"merge": {"token": "new"}})
    assert [(each["id"], each["status"]) for each in done["items"]] == [(i, "queued") for i in reversed(letters)]
    told = [json.loads(store.tasks.get(letter).ext) for letter in letters]
    assert told == [{"page": page, "token": "new"} for page in range(3)]
    assert store.tasks.get(other).status is S.DEAD


ONLY = "only dead or failed tasks can be replayed"


def test_a_dry_run_tells_what_an_edit_would_change_and_changes_nothing(client, store):
    """Spec: D12"""
    letter, queued = dead(store, ext='{"a": 1}'), submit(store)
    before = record(store, letter.id), record(store, queued.id)
    done = ask(client, "replay", ids=[letter.id, queued.id, 4711], dry_run=True, edit={"merge": {"a": 2}})
    assert done["items"] == [
        {"id": letter.id, "status": "dead", "problem": None, "changes": {"ext.a": {"old": 1, "new": 2}}},
        {
            "id": queued.id,
            "status": "queued",
            "problem": f"task {queued.id} is queued; {ONLY}",
            "code": "wrong-state",
            "params": {"task_id": queued.id, "status": "queued", "action": "replay", "allowed": "dead,failed"},
        },
        {"id": 4711, "status": None, "problem": "no task 4711", "code": "no-task", "params": {"task_id": 4711}},
    ]
    assert (record(store, letter.id), record(store, queued.id)) == before


@pytest.mark.parametrize("what", ["replay", "resolve", "discard"])
@pytest.mark.parametrize("state", State)
def test_a_dry_run_foretells_what_becomes_of_a_task(client, store, what, state):
    """Spec: D12"""
    body = {"remark": "by hand"} if what == "resolve" else {}
    task = put(store, state)
    before = record(store, task.id)
    [foretold] = ask(client, what, ids=[task.id], dry_run=True, **body)["items"]
    assert record(store, task.id) == before
    [done] = ask(client, what, ids=[task.id], **body)["items"]
    assert (foretold["status"], foretold["problem"]) == (state, done["problem"])
    assert (done["status"] is not None) == (state is S.DEAD or (what == "replay" and state is S.FAILED))


def test_a_failed_task_is_replayed_as_an_edited_copy(client, store):
    """Spec: D12"""
    task = put(store, S.FAILED)
    [done] = ask(client, "replay", ids=[task.id], edit={"merge": {"a": 2}})["items"]
    copy = store.tasks.get(done["copy_id"])
    assert (copy.retry_of, copy.ext, done["status"]) == (task.id, '{"a": 2}', "queued")
    assert store.tasks.get(task.id) == task


def test_letters_are_resolved_and_discarded_with_a_remark(client, store):
    """Spec: D12, B7"""
    resolved, discarded, plainly = (dead(store).id for _ in range(3))
    ask(client, "resolve", ids=[resolved], remark="paid by hand")
    ask(client, "discard", ids=[discarded], remark="not worth it")
    ask(client, "discard", ids=[plainly])
    told = [(store.tasks.get(i).status, store.tasks.get(i).remark) for i in (resolved, discarded, plainly)]
    assert told == [(S.RESOLVED, "paid by hand"), (S.FAILED, "not worth it"), (S.FAILED, None)]


def test_a_cursor_leads_past_what_was_refused(client, store, monkeypatch):
    """Spec: D12"""
    monkeypatch.setattr("headgate.api.dead_letters.MOST_IN_ACTION", 2)
    stuck = dead(store, unique_key="u").id
    submit(store, "manual", unique_key="u")
    store.tasks.pause(stuck + 1)
    letters = [dead(store).id for _ in range(3)]
    seen, cursor = [], None
    while True:
        done = ask(client, "replay", filter={}, cursor=cursor)
        seen += [(each["id"], each["problem"] is None) for each in done["items"]]
        store.lanes.pause("default")
        cursor = done["next_cursor"]
        if cursor is None:
            break
    assert seen == [(letters[2], True), (letters[1], True), (letters[0], True), (stuck, False)]


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("replay", {}),
        ("replay", {"ids": []}),
        ("replay", {"ids": [1], "filter": {}}),
        ("replay", {"ids": list(range(1, 202))}),
        ("replay", {"ids": [1], "cursor": 5}),
        ("replay", {"ids": [1, 2], "edit": {"ext": {}}}),
        ("replay", {"filter": {}, "edit": {"ext": {}}}),
        ("replay", {"ids": [1], "edit": {"ext": {}, "merge": {}}}),
        ("replay", {"ids": [1], "edit": {"status": "queued"}}),
        ("replay", {"ids": [1], "edit": {"tenant_id": 2}}),
        ("replay", {"ids": [1], "edit": {"exec_id": "x"}}),
        ("replay", {"ids": [1], "edit": {"timeout_seconds": 0}}),
        ("replay", {"ids": [1], "edit": {"max_error_count": -1}}),
        ("replay", {"ids": [1], "edit": {"lane": ""}}),
        ("replay", {"filter": {"colour": "red"}}),
        ("resolve", {"ids": [1]}),
        ("resolve", {"ids": [1], "remark": ""}),
        ("discard", {"ids": [1], "remark": "x" * 4001}),
    ],
)
def test_what_breaks_a_rule_touches_none(client, store, what, body):
    """Spec: D12, B11"""
    letter = dead(store)
    ask(client, what, status=422, **body)
    assert store.tasks.get(letter.id) == letter


def test_an_edit_that_only_one_task_cannot_take_holds_up_no_other(client, store):
    """Spec: D12"""
    odd, good = dead(store, ext="[1]"), dead(store, ext="{}")
    done = ask(client, "replay", ids=[odd.id, good.id], edit={"merge": {"a": 1}})["items"]
    assert [each["status"] for each in done] == [None, "queued"]
    assert "not an object" in done[0]["problem"]
    assert store.tasks.get(odd.id) == odd


def test_a_key_of_one_tenant_reaches_its_own_letters_alone(client, store):
    """Spec: B11, D12"""
    mine, theirs = dead(store, tenant_id=1), dead(store, tenant_id=2)
    _, key = store.keys.add("ops", Role.OPERATOR, tenant_id=1)
    headers = {"Authorization": f"Bearer {key}"}
    listed = client.get("/api/dead-letters", headers=headers).json()["items"]
    assert [task["id"] for task in listed] == [mine.id]
    assert client.get("/api/dead-letters?tenant_id=2", headers=headers).status_code == 403

    def discard(**body):
        return client.post("/api/dead-letters/discard", json=body, headers=headers)

    foreign, absent = discard(ids=[theirs.id, 4711]).json()["items"]
    assert foreign["problem"].replace(str(theirs.id), "4711") == absent["problem"]
    assert [each["id"] for each in discard(filter={}).json()["items"]] == [mine.id]
    assert discard(filter={"tenant_id": 2}).status_code == 403
    assert (store.tasks.get(mine.id).status, store.tasks.get(theirs.id)) == (S.FAILED, theirs)
