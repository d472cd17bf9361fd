"""What a type says of uniqueness and debounce holds whichever way a task of it comes in."""

import json

import pytest

from headgate.core.errors import Invalid
from headgate.core.machine import Returned
from headgate.core.schedule import NewSchedule, ScheduleStatus
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.core.task_types import edited
from headgate.store.tasks.submit_in import prepare
from headgate.store.tasks.unique import run
from tests.factories import settle, start

ONCE = TaskType("once", unique="arguments", unique_seconds=60)
SAVE = TaskType("save", unique_key="d:{document}", debounce_seconds=5, debounce_longest_seconds=20)


@pytest.fixture
def store(store):
    """A store that knows types with a period."""
    store.types.put(ONCE)
    store.types.put(SAVE)
    return store


def submit(store, code, text="", **said):
    return store.tasks.submit(NewTask(code, json.dumps({"document": 7, "text": text}), **said))


def by_schedule(store, code):
    """What a tick of a schedule would begin now."""
    new = NewSchedule(NewTask(code, '{"document": 7, "text": ""}'), "0 3 * * *")
    schedule = store.schedules.add(new, status=ScheduleStatus.ONLINE)
    return store.schedules.trigger(schedule.id)


def in_a_transaction_of_the_callers(store, code):
    new = NewTask(code, '{"text": "", "document": 7}')
    joining = prepare(store.database, store.catalog, new, store.types.recent(code))
    return store.database.write(lambda db: run(db, joining.steps()))


def test_a_period_of_the_type_holds_for_every_way_in(store):
    """Spec: X2, B5"""
    first = submit(store, "once")
    [execution] = start(store)
    settle(store, execution, Returned())
    parent = store.tasks.submit(NewTask("plain"))
    assert first.created
    assert (submit(store, "once").id, submit(store, "once").created) == (first.id, False)
    batch = store.tasks.submit_many([NewTask("once", '{"text":"","document":7.0}'), NewTask("once", '{"document":8}')])
    assert [(made.created, made.id == first.id) for made in batch] == [(False, True), (True, False)]
    assert submit(store, "once", parent_id=parent.id).id == first.id
    assert in_a_transaction_of_the_callers(store, "once").id == first.id
    assert by_schedule(store, "once").task_id == first.id


def test_a_debounce_of_the_type_holds_for_every_way_in(store):
    """Spec: X2, B5"""
    first = submit(store, "save", "H")
    assert store.tasks.get(first.id).status is State.PENDING
    assert submit(store, "save", "Hello").id == first.id
    assert store.tasks.get(first.id).ext == '{"document": 7, "text": "Hello"}'
    batch = store.tasks.submit_many([NewTask("save", '{"document": 7}'), NewTask("save", '{"document": 8}')])
    assert [made.created for made in batch] == [False, True]
    assert in_a_transaction_of_the_callers(store, "save").id == first.id
    assert by_schedule(store, "save").task_id == first.id


def test_a_type_may_keep_the_first_arguments(store):
    """Spec: X2"""
    store.types.edit("save", lambda before: edited(before, {"debounce_replace": False}))
    first = submit(store, "save", "H")
    submit(store, "save", "Hello")
    assert store.tasks.get(first.id).ext == '{"document": 7, "text": "H"}'
    submit(store, "save", "Hi", debounce_replace=True)
    assert store.tasks.get(first.id).ext == '{"document": 7, "text": "Hi"}'


def test_a_child_and_a_task_with_a_start_of_its_own_are_made_beside_a_debounced_one(store):
    """Spec: X2"""
    parent = store.tasks.submit(NewTask("plain"))
    submit(store, "save")
    for said in ({"parent_id": parent.id}, {"delay_seconds": 600.0}):
        assert [submit(store, "save", **said).created for _ in range(2)] == [True, True]


def test_a_retry_by_hand_runs_though_the_type_would_give_the_ended_one(store):
    """Spec: X2"""
    first = submit(store, "once")
    [execution] = start(store)
    settle(store, execution, Returned())
    copy = store.tasks.retry(first.id)
    assert (copy.retry_of, copy.status) == (first.id, State.QUEUED)


def test_an_edit_of_a_period_holds_at_once(store):
    """Spec: X2, B5"""
    store.types.edit("plain", lambda before: edited(before, {"unique": "arguments"}))
    assert [submit(store, "plain").created for _ in range(2)] == [True, False]
    store.types.edit("plain", lambda before: edited(before, {"unique": None}))
    assert submit(store, "plain").created


def test_a_submit_that_does_not_fit_its_type_is_refused_and_nothing_is_made(store):
    """Spec: X2"""
    with pytest.raises(Invalid, match="debounce_longest_seconds must be at least debounce_seconds"):
        submit(store, "save", debounce_seconds=30)
    assert store.tasks.find().items == []


def test_keys_that_a_type_makes_of_all_arguments_are_known_before_the_submit(store):
    """Spec: X2"""
    store.catalog.reload()
    one, same, other = (
        store.tasks.keys_of([NewTask("once", ext)]) for ext in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 2}')
    )
    assert one == same != other
    assert [key[0] for key in one] == ["unique"]


def test_a_type_s_periods_are_stored_with_it(store):
    """Spec: B5, X2"""
    assert (store.types.get("once").kind, store.types.get("save").kind) == (ONCE, SAVE)


def test_a_type_keeps_its_id_while_it_is_edited(store):
    """Spec: B5"""
    before = store.types.get("save").id
    store.types.put(TaskType("save", lane="slow"))
    assert store.types.edit("save", lambda kind: kind, expected_id=before).id == before
    with pytest.raises(Invalid, match=f"type save has the id {before}, not {before + 1}"):
        store.types.edit("save", lambda kind: edited(kind, {"lane": "fast"}), expected_id=before + 1)
    with pytest.raises(Invalid, match="there is no type fresh yet"):
        store.types.edit("fresh", lambda _: TaskType("fresh"), expected_id=1)
    assert (store.types.get("save").kind.lane, store.types.find("fresh")) == ("slow", None)
