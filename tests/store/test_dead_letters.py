"""Dead tasks: listed, edited and replayed, in one transaction that the audit tells of."""

import json

import pytest

from headgate.core.edit import Edit
from headgate.core.errors import Invalid, NotFound, Refused
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.store.tasks.dead_letters import DeadLetterFilter
from tests.factories import put, record, running, settle, start, submit, together

S = State


def dead(store, error="no", **fields):
    execution = running(store, "manual", **fields)
    settle(store, execution, Raised(error))
    return store.tasks.get(execution.id)


def ids(store, cursor=None, limit=50, **wanted):
    page = store.dead_letters.find(DeadLetterFilter(**wanted), cursor=cursor, limit=limit)
    return [task.id for task in page.items]


def test_dead_tasks_alone_are_listed_newest_first(store):
    """Spec: D12, B7"""
    for state in (S.RESOLVED, S.NOTIFYING, S.RETRYING, S.FAILED, S.CANCELLED, S.PENDING, S.PAUSED, S.WAITING):
        put(store, state)
    letters = [dead(store).id for _ in range(3)]
    assert ids(store) == letters[::-1]


def test_a_cursor_leads_through_all_pages(store):
    """Spec: D12"""
    letters = [dead(store).id for _ in range(5)]
    first = store.dead_letters.find(limit=2)
    assert ([task.id for task in first.items], first.next_cursor) == (letters[:2:-1], letters[3])
    second = store.dead_letters.find(cursor=first.next_cursor, limit=3)
    assert ([task.id for task in second.items], second.next_cursor) == (letters[2::-1], None)
    for limit in (0, 201):
        with pytest.raises(Invalid):
            store.dead_letters.find(limit=limit)


@pytest.mark.parametrize("wanted", [{"tenant_id": 1}, {"error": "mine"}, {"tenant_id": 1, "older_than": 0}])
def test_a_page_looks_at_so_many_and_says_where_to_go_on(store, monkeypatch, wanted):
    """Spec: D12, X4. An empty page with a cursor is not the end."""
    monkeypatch.setattr("headgate.store.tasks.dead_letters.MOST_READ", 2)
    mine = [dead(store, "Mine", tenant_id=1).id]
    others = [dead(store).id for _ in range(4)]
    mine.append(dead(store, "Mine", tenant_id=1).id)
    pages = [store.dead_letters.find(DeadLetterFilter(**wanted))]
    while pages[-1].next_cursor is not None:
        pages.append(store.dead_letters.find(DeadLetterFilter(**wanted), cursor=pages[-1].next_cursor))
    found = [[task.id for task in page.items] for page in pages]
    assert found == [[mine[1]], [], [mine[0]]]
    assert ids(store, limit=1, cursor=mine[1] + 1, **wanted) == [mine[1]]
    assert ids(store) == [mine[1], *others[::-1], mine[0]]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"type": "manual"}, "abcd"),
        ({"type": "other"}, ""),
        ({"lane": "slow"}, "b"),
        ({"creator": 7}, "c"),
        ({"tenant_id": 1}, "d"),
        ({"category": "x"}, "b"),
        ({"older_than": 60}, "ab"),
        ({"younger_than": 60}, "cd"),
        ({"older_than": 60, "younger_than": 150}, "b"),
        ({"error": "TIME"}, "ab"),
        ({"error": "100%"}, "c"),
        ({"error": "1_0"}, ""),
        ({"error": "timeout", "lane": "slow"}, "b"),
    ],
)
def test_a_list_holds_what_was_asked_for(store, clock, wanted, found):
    """Spec: D12, B11"""
    letters = {"a": dead(store, "Timeout").id}
    clock.advance(100)
    letters["b"] = dead(store, "read timeout", lane="slow", category="x").id
    clock.advance(100)
    letters["c"] = dead(store, "100% full", creator=7).id
    letters["d"] = dead(store, "no", tenant_id=1).id
    assert ids(store, **wanted) == [letters[name] for name in reversed(found)]


def test_what_dead_tasks_died_of_is_counted_over_all_of_them(store):
    """Spec: D12"""
    trace = "Traceback (most recent call last):\n" + '  File "shop.py", line 3\n' * 50 + "shop.Declined: card {}"
    for number in range(3):
        dead(store, f"invoice {number} has no address\nand more")
        dead(store, trace.format(number), tenant_id=number)
    store.types.put(TaskType("other", need_manual=True))
    execution = running(store, "other")
    settle(store, execution, Raised("gone"))
    put(store, S.FAILED)
    found = store.dead_letters.groups()
    assert (found.total, found.exact) == (7, True)
    assert {(group.type, group.error, group.contains, group.count) for group in found.items} == {
        ("manual", "invoice … has no address", "has no address", 3),
        ("manual", "Declined: card …", "Declined: card", 3),
        ("other", "gone", "gone", 1),
    }
    assert [group.count for group in store.dead_letters.groups(DeadLetterFilter(type="other")).items] == [1]
    assert store.dead_letters.groups(DeadLetterFilter(tenant_id=1)).total == 1


def test_of_more_dead_tasks_than_are_counted_the_newest_are(store, monkeypatch):
    """Spec: D12, X4"""
    monkeypatch.setattr("headgate.store.tasks.dead_letters.MOST_GROUPED", 2)
    for error in ("old", "new", "new"):
        dead(store, error)
    found = store.dead_letters.groups()
    assert (found.total, found.exact, [group.error for group in found.items]) == (2, False, ["new"])


def test_a_replay_sends_a_dead_task_on_its_way_with_a_clean_slate(store):
    """Spec: D12, B7"""
    letter = dead(store)
    task = store.dead_letters.replay(letter.id, actor="user:1")
    assert (task.status, task.error_count, task.lost_count, task.ext) == (S.QUEUED, 0, 0, letter.ext)
    [*_, event] = store.events.of(letter.id)
    assert (event.kind, event.actor, event.detail) == ("retried", "user:1", None)
    assert settle(store, start(store)[0], Returned()) is S.SUCCEEDED


def test_an_edit_and_its_replay_are_one_step_that_the_audit_tells_of(store):
    """Spec: D12, A12"""
    letter = dead(store, ext='{"url": "htp://x", "page": 3}')
    before = len(store.events.of(letter.id))
    edit = Edit(
        merge={"url": "http://x"}, priority=1, lane="fast", timeout_seconds=9.5, max_error_count=2,
    )  # fmt: skip
    task = store.dead_letters.replay(letter.id, edit, actor="user:1")
    assert json.loads(task.ext) == {"url": "http://x", "page": 3}
    assert (task.priority, task.lane, task.timeout_seconds, task.max_error_count) == (1, "fast", 9.5, 2)
    [event] = store.events.of(letter.id)[before:]
    assert (event.kind, event.before, event.after, event.actor) == ("retried", "dead", "queued", "user:1")
    assert json.loads(event.detail or "") == {
        "edit": {
            "ext.url": {"old": "htp://x", "new": "http://x"},
            "lane": {"old": "default", "new": "fast"},
            "max_error_count": {"old": None, "new": 2},
            "priority": {"old": 5, "new": 1},
            "timeout_seconds": {"old": None, "new": 9.5},
        }
    }


def test_a_task_moved_to_another_lane_meets_the_gates_of_that_lane(store):
    """Spec: D12, A9"""
    store.lanes.set_capacity("narrow", 1)
    store.lanes.pause("manual-lane")
    moved = store.dead_letters.replay(dead(store).id, Edit(lane="narrow"))
    assert [execution.id for execution in start(store, 9)] == [moved.id]
    second = store.dead_letters.replay(dead(store).id, Edit(lane="narrow"))
    assert start(store, 9) == []
    assert [gate.name for gate in store.tasks.why(second.id) if not gate.open] == ["lane"]


def test_a_mutex_that_its_type_made_follows_the_new_arguments(store):
    """Spec: D12, A10"""
    store.types.put(TaskType("keyed", need_manual=True, mutex="film:{film}", rate_key="r{film}", unique_key="{film}"))
    execution = running(store, "keyed", ext='{"film": 7}')
    settle(store, execution, Raised("no"))
    holder = running(store, mutex="film:8")
    task = store.dead_letters.replay(execution.id, Edit(merge={"film": 8}))
    assert (task.status, task.mutex, task.rate_key, task.unique_key) == (S.BLOCKED, "film:8", "r8", "8")
    settle(store, holder, Returned())
    [again] = start(store)
    assert (again.id, json.loads(again.ext)) == (execution.id, {"film": 8})


def test_a_unique_key_that_is_taken_by_now_refuses_the_replay(store):
    """Spec: D12, X2"""
    store.types.put(TaskType("keyed", need_manual=True, unique_key="{film}"))
    execution = running(store, "keyed", ext='{"film": 7}')
    settle(store, execution, Raised("no"))
    taken = submit(store, "keyed", ext='{"film": 8}')
    before = record(store, execution.id)
    for act in (store.dead_letters.replay, store.dead_letters.preview):
        with pytest.raises(Refused, match=f"unique key is held by task {taken.id}"):
            act(execution.id, Edit(merge={"film": 8}))
    assert record(store, execution.id) == before


@pytest.mark.parametrize("state", [state for state in State if state not in (S.DEAD, S.FAILED)])
def test_what_is_neither_dead_nor_failed_is_neither_edited_nor_replayed(store, state):
    """Spec: D12"""
    task = put(store, state)
    before = record(store, task.id)
    for act in (store.dead_letters.replay, store.dead_letters.preview):
        with pytest.raises(Refused, match=f"is {state}; only dead or failed tasks can be replayed"):
            act(task.id, Edit(priority=1))
    assert record(store, task.id) == before


@pytest.mark.parametrize("edit", [Edit(ext="{"), Edit(lane="*"), Edit(timeout_seconds=0), Edit(max_error_count=-1)])
def test_an_edit_that_breaks_a_rule_changes_nothing(store, edit):
    """Spec: D12"""
    letter = dead(store)
    before = record(store, letter.id)
    for act in (store.dead_letters.replay, store.dead_letters.preview):
        with pytest.raises(Invalid):
            act(letter.id, edit)
    assert record(store, letter.id) == before


def test_what_a_replay_would_change_can_be_foreseen(store):
    """Spec: D12"""
    letter = dead(store, ext='{"a": 1}')
    before = record(store, letter.id)
    foreseen = store.dead_letters.preview(letter.id, Edit(priority=1, lane="new"))
    assert foreseen == {"priority": (5, 1), "lane": ("default", "new")}
    assert record(store, letter.id) == before


def test_another_tenants_dead_task_is_as_absent_as_one_that_never_was(store):
    """Spec: B11, D12"""
    letter = dead(store, tenant_id=2)
    for task_id in (letter.id, 4711):
        for act in (store.dead_letters.replay, store.dead_letters.preview):
            with pytest.raises(NotFound, match=f"no task {task_id}"):
                act(task_id, tenant_id=1)
    assert ids(store, tenant_id=1) == []


def test_of_many_who_replay_a_task_at_once_one_does(store):
    """Spec: D12"""
    letter = dead(store)
    answers = together(*[lambda n=n: store.dead_letters.replay(letter.id, Edit(priority=n)) for n in range(4)])
    done = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(done) == 1
    assert all(isinstance(answer, Refused) for answer in answers if answer not in done)
    assert store.tasks.get(letter.id).priority == done[0].priority


@pytest.mark.parametrize("state", [state for state in State if state is not S.DEAD])
def test_what_is_not_dead_is_neither_resolved_nor_discarded(store, state):
    """Spec: D12"""
    task = put(store, state)
    before = record(store, task.id)
    for act in (store.dead_letters.resolve, store.dead_letters.discard):
        with pytest.raises(Refused):
            act(task.id, "by hand")
    assert record(store, task.id) == before


def test_a_dead_task_is_resolved_or_given_up_with_a_remark(store):
    """Spec: D12, B7"""
    resolved = store.dead_letters.resolve(dead(store).id, "by hand", actor="user:1")
    discarded = store.dead_letters.discard(dead(store).id, "not worth it", actor="user:1")
    assert [(task.status, task.remark) for task in (resolved, discarded)] == [
        (S.RESOLVED, "by hand"), (S.FAILED, "not worth it"),
    ]  # fmt: skip
    assert {store.events.of(task.id)[-1].actor for task in (resolved, discarded)} == {"user:1"}


def failed(store, **fields):
    execution = running(store, **fields)
    assert settle(store, execution, Raised("no")) is S.FAILED
    return execution.id


@pytest.mark.parametrize("archived", [False, True])
def test_a_failed_task_is_replayed_as_an_edited_copy(store, archived):
    """Spec: D12, A12"""
    task_id = failed(store, ext='{"city": "Berlni"}', priority=7)
    assert store.history.archive() == 1 if archived else True
    before = store.tasks.get(task_id)
    edit = Edit(merge={"city": "Berlin"}, lane="urgent")
    assert store.dead_letters.preview(task_id, edit)["lane"] == ("default", "urgent")
    copy = store.dead_letters.replay(task_id, edit, actor="ada")
    assert (copy.retry_of, copy.status, copy.lane, copy.priority) == (task_id, S.QUEUED, "urgent", 7)
    assert json.loads(copy.ext) == {"city": "Berlin"}
    assert store.tasks.get(task_id) == before
    submitted, edited = store.events.of(copy.id)
    assert (submitted.kind, edited.kind, edited.actor, edited.seq) == ("submitted", "edited", "ada", 0)
    changes = {"ext.city": {"old": "Berlni", "new": "Berlin"}, "lane": {"old": "default", "new": "urgent"}}
    assert json.loads(edited.detail) == {"edit": changes}
    assert [execution.id for execution in start(store)] == [copy.id]


def test_a_failed_task_whose_unique_key_is_another_s_by_now_is_not_replayed(store):
    """Spec: D12, X2"""
    task_id = failed(store, unique_key="k")
    submit(store, unique_key="k")
    with pytest.raises(Refused, match="unique key"):
        store.dead_letters.replay(task_id)
