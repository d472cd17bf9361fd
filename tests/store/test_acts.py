"""Acts: what people did and what the system did by itself, searched by actor, kind, object and time."""

import pytest

import headgate.store.events.acts as acts
from headgate.core.edit import Edit
from headgate.core.events import ACT_KINDS
from headgate.core.keys import Role
from headgate.core.limits import Rate
from headgate.core.machine import CancelReached, Raised, Returned
from headgate.core.pause import PauseScope
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.store.claim.contract import Outcome
from headgate.store.db.indexes import ACTS
from headgate.store.db.migrate import migrations
from headgate.store.events.acts import ActFilter
from headgate.store.events.audit import Actor
from tests.factories import put, robbed, running, submit
from tests.schedules import new as new_schedule

ALICE = Actor("key:3 ci", "10.0.0.7")


@pytest.fixture
def found(store):
    """Searches acts; those that were recorded while the store was set up are left out."""
    old = {act.id for act in store.acts.find(limit=200).items}

    def find(**wanted):
        return [act for act in store.acts.find(ActFilter(**wanted), limit=200).items if act.id not in old]

    return find


def test_what_a_person_does_to_a_task_is_an_act_with_its_values_reason_and_address(store, found, clock):
    """Spec: A12"""
    task = submit(store, priority=5)
    store.tasks.prioritize(task.id, 2, actor=ALICE)
    clock.advance(1)
    store.tasks.reschedule(task.id, delay_seconds=60.0, actor=ALICE)
    store.tasks.cancel(task.id, "no longer wanted", actor=ALICE)
    cancelled, rescheduled, prioritized = found()
    assert (prioritized.kind, prioritized.actor, prioritized.address) == ("prioritized", "key:3 ci", "10.0.0.7")
    assert (prioritized.object, prioritized.changes) == (f"task:{task.id}", {"priority": {"old": 5, "new": 2}})
    assert rescheduled.changes == {"start_time": {"old": "2026-03-01T12:00:00Z", "new": "2026-03-01T12:01:01Z"}}
    assert (rescheduled.before, rescheduled.after) == ("queued", "pending")
    assert (cancelled.kind, cancelled.reason, cancelled.after) == ("cancelled", "no longer wanted", "cancelled")


@pytest.mark.parametrize(
    ("act", "kind", "subject", "changes"),
    [
        (
            lambda s: s.lanes.set_capacity("fast", 3, actor=ALICE), "capacity_changed", "lane:fast",
            (("capacity", None, 3),),
        ),
        (
            lambda s: s.resources.set("disk-writer", 4, actor=ALICE), "capacity_changed", "resource:disk-writer",
            (("capacity", 1, 4),),
        ),
        (
            lambda s: s.rate_limits.set("key:a", Rate(5, 10), actor=ALICE), "rate_changed", "rate_limit:key:a",
            (("limit", None, {"rate": 5, "burst": 10}),),
        ),
        (
            lambda s: s.tenants.set_weight(7, 3, actor=ALICE), "weight_changed", "tenant:7", (("weight", 1.0, 3.0),),
        ),
        (lambda s: s.types.remove("plain", actor=ALICE), "type_removed", "type:plain", ()),
        (lambda s: s.keys.add("ops", Role.ADMIN, actor=ALICE), "key_created", "key:1", ()),
        (lambda s: s.events.record("purged", "{}", actor=ALICE), "purged", "system", ()),
    ],
)  # fmt: skip
def test_an_edit_is_an_act_with_the_old_value_and_the_new(store, found, act, kind, subject, changes):
    """Spec: A12"""
    act(store)
    [seen] = found(actor="key:3")
    assert (seen.kind, seen.object, seen.address) == (kind, subject, "10.0.0.7")
    for name, old, new in changes:
        assert seen.changes[name] == {"old": old, "new": new}


def test_edits_in_a_row_tell_each_old_value(store, found):
    """Spec: A12"""
    for capacity in (3, 5, None):
        store.lanes.set_capacity("fast", capacity)
    for rate in (Rate(1, 1), Rate(2, 1)):
        store.rate_limits.set("key:a", rate)
    assert [act.changes["capacity"]["old"] for act in found(object="lane:fast")] == [5, 3, None]
    assert [act.changes["limit"]["old"] for act in found(object="rate_limit")] == [{"rate": 1, "burst": 1}, None]


def test_a_schedule_that_is_edited_tells_what_changed(store, found):
    """Spec: A12"""
    schedule = store.schedules.add(new_schedule(), actor=ALICE)
    store.schedules.offline(schedule.id, actor=ALICE)
    [offline, _] = found(object=f"schedule:{schedule.id}")
    assert offline.changes["status"]["new"] == "offline"


def test_an_edit_before_a_replay_is_an_act_with_what_it_changed(store, found):
    """Spec: A12, D12"""
    task = put(store, State.DEAD)
    store.dead_letters.replay(task.id, Edit(priority=1), actor=ALICE)
    [act] = found(kind="retried")
    assert act.changes["priority"] == {"old": task.priority, "new": 1}
    assert act.address == "10.0.0.7"


def test_a_finished_task_that_is_run_again_as_a_copy_is_an_act(store, found):
    """Spec: A12"""
    task = put(store, State.SUCCEEDED)
    copy = store.tasks.retry(task.id, actor=ALICE)
    [act] = found()
    assert (act.kind, act.object, act.detail) == ("copied", f"task:{task.id}", {"task": task.id, "copy": copy.id})
    assert store.tasks.get(copy.id).retry_of == task.id


def test_what_the_system_does_by_itself_is_listed_and_what_executors_do_is_not(store, found, clock):
    """Spec: A12"""
    task, _ = robbed(store, clock)
    for event in (Returned(), Raised("no"), Raised("no", 60.0)):
        store.executions.settle([Outcome(running(store), event)], actor="worker:1")
    store.executions.settle([Outcome(running(store, "manual"), Raised("no"))], actor="agent:a")
    execution = running(store)
    store.tasks.cancel(execution.id, actor=ALICE)
    store.executions.settle([Outcome(execution, CancelReached())], actor="worker:1")
    assert [act.kind for act in found(actor="key:3")] == ["cancel_requested"]
    assert [(act.kind, act.object, act.actor) for act in found(actor="system")] == [
        ("overdue", f"task:{task.id}", "system:reaper")
    ]
    assert len(found()) == 2


def test_acts_are_found_by_actor_kind_object_and_time(store, found, clock):
    """Spec: A12"""
    start = clock()
    one, two = submit(store), submit(store)
    store.tasks.pause(one.id, actor="os:alice")
    clock.advance(10)
    store.tasks.pause(two.id, actor="os:bob")
    clock.advance(10)
    store.tasks.resume(one.id, actor="os:bob")
    kinds = {name: [act.kind for act in found(**wanted)] for name, wanted in {
        "all": {}, "actor": {"actor": "os:bob"}, "part": {"actor": "os"}, "kind": {"kind": "paused"},
        "object": {"object": f"task:{one.id}"}, "tasks": {"object": "task"}, "nobody": {"actor": "os:bo"},
    }.items()}  # fmt: skip
    assert kinds == {
        "all": ["resumed", "paused", "paused"], "actor": ["resumed", "paused"], "part": ["resumed", "paused", "paused"],
        "kind": ["paused", "paused"], "object": ["resumed", "paused"], "tasks": ["resumed", "paused", "paused"],
        "nobody": [],
    }  # fmt: skip
    later = found(since=clock())
    assert [act.kind for act in later] == ["resumed"]
    assert [act.object for act in found(until=start)] == [f"task:{one.id}"]


def test_a_tenant_sees_what_was_done_to_its_own_tasks(store, found):
    """Spec: A12, B11"""
    mine, other = submit(store, tenant_id=7), submit(store, tenant_id=8)
    store.tasks.pause(mine.id), store.tasks.pause(other.id), store.lanes.pause("default")
    assert [act.object for act in found(tenant_id=7)] == [f"task:{mine.id}"]


@pytest.mark.parametrize("limit", [1, 3, 200])
def test_pages_of_acts_go_on_where_the_last_one_ended(store, monkeypatch, limit):
    """Spec: A12"""
    monkeypatch.setattr(acts, "PAGE", 2)
    monkeypatch.setattr(acts, "MOST_READ", 4)
    task = submit(store)
    for _ in range(5):
        store.tasks.pause(task.id, actor="os:alice"), store.tasks.resume(task.id)
    seen, cursor, pages = [], None, 0
    while True:
        page = store.acts.find(ActFilter(actor="os:alice"), cursor=cursor, limit=limit)
        seen += page.items
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [act.kind for act in seen] == ["paused"] * 5
    assert [act.id for act in seen] == sorted((act.id for act in seen), reverse=True)
    assert pages > 1


def test_the_index_of_acts_holds_what_is_asked_for(store):
    """Spec: A12"""
    text = " ".join(" ".join(step.text for step in migrations(store.database.dialect)).split())
    predicate = text.partition("headgate_task_event_act")[2].partition("WHERE ")[2].partition(";")[0]
    assert predicate.replace("( ", "(") == ACTS[1:-1]
    assert all(f"'{kind}'" in predicate for kind in ACT_KINDS)


def test_a_type_that_is_edited_tells_what_changed(store, found):
    """Spec: A12"""
    store.types.put(TaskType("plain", priority=3), actor=ALICE)
    [act] = found(object="type:plain")
    assert (act.kind, act.changes["priority"]["new"]) == ("type_changed", 3)


@pytest.mark.parametrize(
    ("scope", "name", "subject"),
    [
        (PauseScope.ALL, "", "everything"),
        (PauseScope.LANE, "mail", "lane:mail"),
        (PauseScope.TYPE, "plain", "type:plain"),
        (PauseScope.TENANT, "7", "tenant:7"),
        (PauseScope.KEY, "openai", "rate_key:openai"),
    ],
)
def test_a_pause_is_an_act_with_what_it_holds_and_its_reason(store, found, scope, name, subject):
    """Spec: A12"""
    store.pauses.set(scope, name, reason="moving house", actor=ALICE)
    store.pauses.end(scope, name, actor=ALICE)
    assert [(act.kind, act.object, act.reason) for act in found()] == [
        ("resumed", subject, None), ("paused", subject, "moving house"),
    ]  # fmt: skip
