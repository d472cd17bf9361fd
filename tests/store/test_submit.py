"""What is submitted is on disk, as it was asked for, with its first audit row."""

from datetime import timedelta
from typing import Any

import pytest

from headgate.core.errors import Invalid, NotFound, Refused
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, TaskType
from headgate.store.store import open_store
from tests.factories import START, put, record, sql, submit, together

GIVEN: dict[str, Any] = {
    "ext": '{"a": [1, "\\u0000 中文 \\ud83d\\ude00"]}',
    "tenant_id": 7,
    "creator": -3,
    "name": "a \"name\" \\ with, {braces} and 'quotes'",
    "lane": "wide",
    "category": "cat",
    "priority": -12,
    "mutex": "m,{}\\",
    "rate_key": "openai",
    "agent_id": "agent-1",
    "unique_key": "u",
    "max_error_count": 0,
    "timeout_seconds": 0.5,
    "retry_of": 99,
    "correlation_id": "corr",
}


@pytest.mark.parametrize("name", GIVEN)
def test_each_field_is_kept_as_it_was_given(store, name):
    """Spec: B1"""
    assert getattr(submit(store, **{name: GIVEN[name]}), name) == GIVEN[name]


def test_what_is_not_given_comes_from_the_type(store):
    """Spec: B1, B5"""
    store.types.put(TaskType("scan", lane="disk", category="media"))
    task = submit(store, "scan")
    assert (task.lane, task.category, task.priority, task.tenant_id, task.creator) == ("disk", "media", 5, 0, 0)
    assert (task.status, task.error_count, task.attempt, task.seq) == (State.QUEUED, 0, 0, 1)
    assert (task.start_time, task.create_date, task.update_date) == (START, START, START)
    assert (task.exec_id, task.executing_deadline, task.result, task.finished_at, task.exec_time) == (None,) * 5


def test_a_task_is_on_disk_when_submit_returns(store, url, clock):
    """Spec: D1, C12"""
    task = submit(store, **GIVEN)
    with open_store(url, clock) as other:
        assert other.tasks.get(task.id) == task


@pytest.mark.parametrize(
    ("fields", "status", "start"),
    [
        ({"delay_seconds": 0}, State.QUEUED, 0),
        ({"delay_seconds": 1.5}, State.PENDING, 1.5),
        ({"start_time": START}, State.QUEUED, 0),
        ({"start_time": START - timedelta(days=900)}, State.QUEUED, -900 * 86400),
        ({"start_time": START + timedelta(microseconds=1)}, State.PENDING, 1e-6),
        ({"delay_seconds": 1, "mutex": "m"}, State.PENDING, 1),
        ({"mutex": "m"}, State.QUEUED, 0),
    ],
)
def test_a_task_waits_for_its_time_and_a_due_one_goes_on_to_the_line_at_once(store, fields, status, start):
    """Spec: A2"""
    task = submit(store, **fields)
    assert (task.status, task.start_time) == (status, START + timedelta(seconds=start))


def test_creation_is_audited_with_who_did_it(store):
    """Spec: A12"""
    task_id = store.tasks.submit(NewTask("plain", correlation_id="c"), actor="user:7").id
    [event] = store.events.of(task_id)
    assert (event.kind, event.seq, event.before, event.after) == ("submitted", 1, None, State.QUEUED)
    assert (event.actor, event.at, event.correlation_id, event.task_id) == ("user:7", START, "c", task_id)


def test_many_are_made_in_the_order_given(store):
    made = store.tasks.submit_many([NewTask("plain", name=str(number), mutex="m" if number % 3 else None)
                              for number in range(600)])  # fmt: skip
    assert all(task.created for task in made)
    assert [task.id for task in made] == sorted({task.id for task in made})
    assert [store.tasks.get(made[number].id).name for number in (0, 1, 599)] == ["0", "1", "599"]


def test_none_of_many_is_made_if_one_cannot_be(store):
    """Spec: A2"""
    with pytest.raises(NotFound):
        store.tasks.submit_many([NewTask("plain"), NewTask("plain", parent_id=4711), NewTask("plain", unique_key="u")])
    assert store.tasks.find().items == []
    assert [
        event for event in store.events.after(store.events.last().__class__())[0] if event.task_id is not None
    ] == []


def test_nothing_asked_for_is_nothing_made(store):
    assert store.tasks.submit_many([]) == []


def test_one_call_makes_5000_at_most(store):
    with pytest.raises(Invalid, match="5000"):
        store.tasks.submit_many([NewTask("plain")] * 5001)
    assert len(store.tasks.submit_many([NewTask("plain")] * 5000)) == 5000


@pytest.mark.parametrize("state", [*sorted(FINAL), State.DEAD, State.NOTIFYING])
def test_an_ended_task_gets_no_child(store, state):
    """Spec: D7"""
    parent = put(store, state)
    before, there = record(store, parent.id), store.tasks.find().items
    with pytest.raises(Refused):
        store.tasks.submit(NewTask("plain", parent_id=parent.id))
    assert (record(store, parent.id), store.tasks.find().items) == (before, there)


def test_concurrent_submits_are_each_made_once_and_a_bad_one_fails_alone(store):
    """Spec: D1"""

    def five(number):
        return lambda: store.tasks.submit_many([NewTask("plain", name=f"{number}.{n}") for n in range(5)], actor="same")

    *made, refused = together(*(five(number) for number in range(8)), lambda: store.tasks.submit(NewTask("absent")))
    ids = [task.id for batch in made for task in batch]
    assert isinstance(refused, Invalid)
    assert len(set(ids)) == 40
    named = [[store.tasks.get(task.id).name for task in batch] for batch in made]
    assert named == [[f"{number}.{n}" for n in range(5)] for number in range(8)]


def test_a_submit_wakes_listeners_when_it_made_something_claimable(store):
    heard: list[Any] = []
    store.wakeups.on_work(heard.append)
    submit(store, delay_seconds=5)
    assert heard == []
    submit(store)
    assert len(heard) == 1


def test_types_in_use_by_another_process_are_known_without_a_restart(store, url, clock):
    """Spec: B5"""
    with open_store(url, clock) as other:
        other.types.by_code()
        store.types.put(TaskType("fresh"))
        assert other.tasks.submit(NewTask("fresh")).created


def test_names_of_the_greatest_length_are_taken_in_every_field_at_once(store):
    """Spec: B1"""
    long = ["".join(chr(0x20000 + (31 * n + 7919 * m * m + n * n * m) % 40000) for n in range(255)) for m in range(9)]
    store.types.put(TaskType(long[0]))
    labels = ("name", "lane", "category", "mutex", "rate_key", "agent_id", "unique_key", "correlation_id")
    task = submit(store, long[0], **dict(zip(labels, long[1:], strict=True)))
    assert [getattr(task, label) for label in ("type", *labels)] == long


def test_an_id_is_never_given_twice_even_after_a_purge(store, url):
    """Spec: B1"""
    first = put(store, State.SUCCEEDED).id
    store.history.archive()
    store.history.purge([State.SUCCEEDED], seconds=0)
    assert sql(url, "SELECT count(*) FROM headgate_task_his") == [(0,)]
    assert submit(store).id > first
