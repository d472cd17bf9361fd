"""How an execution ends: once, by its owner, whoever else reports."""

import re
from datetime import timedelta

import pytest

from headgate.core.errors import Invalid, StaleExecution
from headgate.core.machine import (
    CancelReached,
    CancelRequested,
    Event,
    GivenBack,
    PauseReached,
    Raised,
    Returned,
    Snoozed,
    Started,
)
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import Outcome
from tests.factories import START, kinds, lose, put, record, robbed, running, settle, start, submit, worker

S = State
ENDS: dict[str, Event] = {
    "success": Returned('"late"'),
    "success without callback": Returned('"late"', completed=False),
    "failure": Raised("late", 9.0),
    "last failure": Raised("late"),
    "snooze": Snoozed(5.0),
    "pause": PauseReached(),
    "cancel": CancelReached(),
    "give back": GivenBack(),
}


@pytest.mark.parametrize(
    ("type_code", "end", "status", "kind"),
    [
        ("plain", Returned('{"n": 1}'), S.SUCCEEDED, "completed"),
        ("called-back", Returned('{"n": 1}'), S.NOTIFYING, "completed"),
        ("called-back", Returned('{"n": 1}', completed=False), S.SUCCEEDED, "completed"),
        ("plain", Raised("broken", 30.0), S.RETRYING, "retrying"),
        ("plain", Raised("broken"), S.FAILED, "failed"),
        ("manual", Raised("broken"), S.DEAD, "dead_lettered"),
        ("plain", Snoozed(30.0), S.PENDING, "snoozed"),
        ("plain", PauseReached(), S.PAUSED, "paused"),
        ("plain", CancelReached(), S.CANCELLED, "cancelled"),
        ("plain", GivenBack(), S.QUEUED, "given_back"),
    ],
)
def test_an_execution_ends_as_the_machine_says(store, clock, type_code, end, status, kind):
    """Spec: A2, B5, B6, D5"""
    execution = running(store, type_code)
    clock.advance(2.5)
    assert settle(store, execution, end) is status
    task = store.tasks.get(execution.id)
    assert (task.status, task.exec_id, task.executing_deadline, task.worker_id) == (status, None, None, None)
    assert task.exec_time == pytest.approx(2.5)
    assert task.finished_at == (START + timedelta(seconds=2.5) if status in FINAL else None)
    assert task.result == ('{"n": 1}' if isinstance(end, Returned) else None)
    assert (task.error_count, task.error_info) == ((1, "broken") if isinstance(end, Raised) else (0, None))
    if status in (S.RETRYING, S.PENDING):
        assert task.start_time == START + timedelta(seconds=32.5)
    event = store.events.of(task.id)[-1]
    assert (event.kind, event.before, event.after, event.exec_id) == (kind, S.RUNNING, status, execution.exec_id)


def _rescued(store, clock):
    task, worker_id = submit(store), worker(store)
    [old] = start(store)
    lose(store, store.tasks.get(task.id).worker_id or worker_id)
    store.executions.rescue(store.tasks.get(task.id).worker_id or worker_id)
    return old


def _ended_by(event):
    def end(store, clock):
        execution = running(store)
        settle(store, execution, event)
        return execution

    return end


def _taken_back(store, clock):
    execution = running(store)
    store.executions.give_back(execution.id, execution.exec_id)
    start(store, confirm=True)
    return execution


ROBBERIES = {
    "overdue, run again": lambda store, clock: robbed(store, clock)[0],
    "rescued, in line": _rescued,
    "given back, handed over": _taken_back,
    "succeeded": _ended_by(Returned('"first"')),
    "failed": _ended_by(Raised("first")),
    "retrying": _ended_by(Raised("first", 60.0)),
    "paused": _ended_by(PauseReached()),
}


@pytest.mark.parametrize("robbery", ROBBERIES)
@pytest.mark.parametrize("end", ENDS)
def test_a_report_under_an_old_exec_id_changes_nothing(store, clock, end, robbery):
    """Spec: B3"""
    old = ROBBERIES[robbery](store, clock)
    before = record(store, old.id)
    assert settle(store, old, ENDS[end]) is None
    assert record(store, old.id) == before
    refused = store.events.of(old.id)[-1]
    assert (refused.kind, refused.seq, refused.exec_id) == ("refused", 0, old.exec_id)


@pytest.mark.parametrize("robbery", ROBBERIES)
@pytest.mark.parametrize(
    "write",
    [
        lambda store, old: store.executions.progress(old.id, old.exec_id, "50"),
        lambda store, old: store.executions.add_log(old.id, old.exec_id, [("info", "late")]),
        lambda store, old: store.executions.save_checkpoint(old.id, old.exec_id, "page", "7"),
        lambda store, old: store.executions.give_back(old.id, old.exec_id),
    ],
    ids=["progress", "log", "checkpoint", "give back"],
)
def test_a_write_under_an_old_exec_id_is_refused_and_changes_nothing(store, clock, write, robbery):
    """Spec: B3"""
    old = ROBBERIES[robbery](store, clock)
    before = record(store, old.id)
    with pytest.raises(StaleExecution) as refused:
        write(store, old)
    assert refused.value.status == 409
    assert record(store, old.id) == before


@pytest.mark.parametrize("robbery", ROBBERIES)
def test_a_start_under_an_old_exec_id_is_refused_and_changes_nothing(store, clock, robbery):
    """Spec: B3, D2"""
    old = ROBBERIES[robbery](store, clock)
    before = record(store, old.id)
    assert store.executions.start(old.id, old.exec_id) is None
    assert record(store, old.id) == before


@pytest.mark.parametrize("first", [Returned('"1"'), Raised("1"), Raised("1", 60.0)])
@pytest.mark.parametrize("second", [Returned('"2"'), Raised("2"), Raised("2", 60.0)])
def test_of_two_reports_of_one_execution_the_first_counts_once(store, first, second):
    """Spec: B3"""
    execution = running(store)
    settle(store, execution, first)
    before = record(store, execution.id)
    assert settle(store, execution, second) is None
    assert record(store, execution.id) == before


@pytest.mark.parametrize("end", [Returned('"1"'), Raised("1"), Raised("1", 60.0)])
def test_a_report_that_comes_twice_in_one_batch_counts_once(store, end):
    """Spec: B3, A12"""
    execution = running(store)
    store.executions.settle([Outcome(execution, end)] * 2)
    assert [event.seq for event in store.events.of(execution.id) if event.seq] == [1, 2, 3]
    assert store.tasks.get(execution.id).error_count == isinstance(end, Raised)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("late", ["success", "failure", "give back"])
@pytest.mark.parametrize("end", [Returned('"mine"'), Raised("mine", 60.0)])
def test_an_old_report_in_the_batch_of_the_owners_is_told_that_it_is_old(store, clock, end, late, order):
    """Spec: B3"""
    old, new = robbed(store, clock)
    outcomes = [Outcome(old, ENDS[late]), Outcome(new, end)][::order]
    assert store.executions.settle(outcomes)[::order] == [
        None,
        S.SUCCEEDED if isinstance(end, Returned) else S.RETRYING,
    ]
    task = store.tasks.get(new.id)
    assert (task.result, task.error_info) in (('"mine"', "the deadline has passed"), (None, "mine"))
    assert [event.exec_id for event in store.events.of(new.id) if event.kind == "refused"] == [old.exec_id]


def test_a_batch_settles_each_execution_in_its_own_way(store, clock):
    """Spec: A2"""
    old, _ = robbed(store, clock)
    for type_code in ("plain", "plain", "manual", "called-back", "plain"):
        submit(store, type_code)
    good, bad, dead, notified, mutexed = start(store, 9)
    store.tasks.cancel(bad.id)
    events: list[Event] = [Returned(), Raised("no", 5.0), Raised("no"), Returned(), Snoozed(1.0), Returned()]
    done = store.executions.settle(
        [Outcome(e, v) for e, v in zip((good, bad, dead, notified, mutexed, old), events, strict=True)]
    )
    assert done == [S.SUCCEEDED, S.CANCELLED, S.DEAD, S.NOTIFYING, S.PENDING, None]


@pytest.mark.parametrize(
    ("ask", "event", "status"),
    [
        ("cancel", Raised("no", 5.0), S.CANCELLED),
        ("cancel", Raised("no"), S.CANCELLED),
        ("cancel", Snoozed(5.0), S.CANCELLED),
        ("cancel", GivenBack(), S.CANCELLED),
        ("cancel", Returned(), S.SUCCEEDED),
        ("pause", Raised("no", 5.0), S.PAUSED),
        ("pause", Snoozed(5.0), S.PAUSED),
        ("pause", GivenBack(), S.PAUSED),
        ("pause", Returned(), S.SUCCEEDED),
    ],
)
def test_what_was_asked_of_an_execution_comes_before_running_it_again(store, ask, event, status):
    """Spec: A2, B8"""
    execution = running(store)
    getattr(store.tasks, ask)(execution.id)
    assert settle(store, execution, event) is status


@pytest.mark.parametrize("event", [Started(), CancelRequested()])
def test_what_does_not_end_an_execution_is_refused_and_nothing_of_the_batch_is_written(store, event):
    """Spec: A2"""
    submit(store), submit(store)
    one, two = start(store, 2)
    before = record(store, one.id), record(store, two.id)
    with pytest.raises(Invalid):
        store.executions.settle([Outcome(one, Returned()), Outcome(two, event)])
    assert (record(store, one.id), record(store, two.id)) == before


def test_a_type_edited_while_a_task_runs_decides_how_it_ends(store):
    """Spec: B5"""
    execution = running(store)
    store.types.put(TaskType("plain", need_manual=True), edited=True)
    assert settle(store, execution, Raised("no")) is S.DEAD


def test_a_task_whose_type_was_removed_ends_by_the_defaults(store):
    """Spec: B5"""
    execution = running(store, "called-back")
    store.types.remove("called-back")
    assert settle(store, execution, Returned()) is S.SUCCEEDED


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_task_has_exactly_one_terminal_row(store, state):
    """Spec: A12"""
    task = put(store, state)
    ends = [event for event in store.events.of(task.id) if event.after in FINAL]
    assert [event.after for event in ends] == [state]
    assert ends[0].seq == task.seq


def test_an_error_is_kept_as_far_as_16_kib_go_and_without_what_no_database_takes(store):
    """Spec: A12, B1"""
    execution = running(store)
    settle(store, execution, Raised("a\0b\ud800" + "字" * 9000 + "raised here"))
    info = store.tasks.get(execution.id).error_info
    assert info.startswith("a\N{REPLACEMENT CHARACTER}b?")
    assert info.endswith("raised here")
    assert re.search(r"字\n… \d+ bytes left out …\n字", info)
    assert 16 * 1024 - 9 <= len(info.encode()) <= 16 * 1024


def test_a_success_wakes_listeners_where_it_let_another_go_on(store):
    execution = running(store, mutex="m")
    store.tasks.submit(NewTask("plain", mutex="m"))
    heard: list[object] = []
    store.wakeups.on_work(heard.append)
    settle(store, execution, Returned())
    assert len(heard) == 1
    assert kinds(store, execution.id)[-1] == "completed"
