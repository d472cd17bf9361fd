"""The audit: every transition once, in order, with who did it; acts upon the system too."""

import pytest

from headgate.core.limits import Rate
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from tests.factories import START, drain, kinds, put, robbed, running, settle, start, submit


def test_a_long_life_is_told_without_a_gap(store, clock):
    """Spec: A12"""
    old, _ = robbed(store, clock, mutex="m")
    settle(store, old, Returned())
    store.executions.progress(old.id, store.tasks.get(old.id).exec_id, "1")
    store.tasks.pause(old.id), store.tasks.resume(old.id), store.tasks.prioritize(old.id, 2)
    store.executions.give_back(old.id, store.tasks.get(old.id).exec_id)
    store.tasks.pause(old.id), store.tasks.resume(old.id)
    [execution] = start(store)
    settle(store, execution, Raised("again", 5.0))
    store.tasks.retry(old.id)
    assert drain(store) == [old.id]
    path = [event for event in store.events.of(old.id) if event.seq]
    assert [event.seq for event in path] == list(range(1, store.tasks.get(old.id).seq + 1))
    assert [event.before for event in path] == [None, *(event.after for event in path[:-1])]
    assert [event.id for event in path] == sorted(event.id for event in path)
    assert [event.kind for event in path if event.kind not in ("came_forward", "sent_back")] == [
        "submitted", "started", "overdue", "started", "pause_requested", "resumed", "prioritized", "given_back",
        "paused", "resumed", "started", "retrying", "retried", "started", "completed",
    ]  # fmt: skip


def test_a_tasks_events_come_in_pages_oldest_first(store):
    """Spec: A12"""
    task = put(store, State.SUCCEEDED)
    events = store.events.of(task.id)
    assert [event.kind for event in events] == ["submitted", "started", "completed"]
    assert store.events.of(task.id, limit=2) == events[:2]
    assert store.events.of(task.id, after=events[1].id) == events[2:]
    assert store.events.of(4711) == []


def test_each_event_carries_the_correlation_id_of_its_task_also_from_history(store):
    """Spec: D6, D10"""
    settle(store, running(store, correlation_id="c"), Returned())
    task = store.tasks.find().items[0]
    store.history.archive()
    assert {event.correlation_id for event in store.events.of(task.id)} == {"c"}


@pytest.mark.parametrize(
    ("act", "kind", "told"),
    [
        (lambda s: s.lanes.set_capacity("fast", 3, actor="user:1"), "capacity_changed", "fast"),
        (lambda s: s.resources.set("net", 3, actor="user:1"), "capacity_changed", "net"),
        (lambda s: s.rate_limits.set("key:a", Rate(5, 10), actor="user:1"), "rate_changed", "key:a"),
        (lambda s: s.lanes.pause("fast", actor="user:1"), "paused", "fast"),
        (lambda s: s.lanes.pause(actor="user:1"), "paused", "everything"),
        (lambda s: s.types.put(TaskType("fresh"), actor="user:1"), "type_changed", '{"type": "fresh", "changes": {}}'),
        (lambda s: s.types.remove("plain", actor="user:1"), "type_removed", "plain"),
    ],
)
def test_an_act_upon_the_system_is_on_record_with_who_did_it(store, act, kind, told):
    """Spec: A12, A9"""
    before = store.events.last()
    act(store)
    [event], _ = store.events.after(before)
    assert (event.kind, event.actor, event.task_id, event.at) == (kind, "user:1", None, START)
    assert told in event.detail


@pytest.mark.parametrize(
    "act",
    [lambda s: s.lanes.resume("default"), lambda s: s.lanes.resume(), lambda s: s.types.put(TaskType("plain"))],
    ids=["resume", "resume all", "same type"],
)
def test_an_act_that_changes_nothing_leaves_no_row(store, act):
    """Spec: A12"""
    before = store.events.last()
    act(store)
    assert store.events.last() == before


def test_what_people_and_what_the_system_did_can_be_told_apart(store, clock):
    """Spec: A12"""
    task = store.tasks.submit(NewTask("plain", delay_seconds=1), actor="user:7")
    clock.advance(1)
    store.due.bring()
    [execution] = start(store)
    settle(store, execution, Returned())
    worker_id = store.workers.all()[0].id
    actors = [event.actor for event in store.events.of(task.id)]
    assert actors == ["user:7", "system:due", f"worker:{worker_id}", "system"]


def test_the_default_actor_of_a_wish_is_a_person(store):
    """Spec: A12"""
    task = submit(store)
    store.tasks.cancel(task.id)
    assert [event.actor for event in store.events.of(task.id)] == ["person", "person"]
    assert kinds(store, task.id) == ["submitted", "cancelled"]
