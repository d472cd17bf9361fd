"""Every attempt is a record: who, when, how it ended, what it used, and the error of one that failed."""

import json

import pytest

from headgate.core.end_reasons import EndReason
from headgate.core.errors import NotFound
from headgate.core.machine import CancelReached, GivenBack, Raised, Returned, Snoozed
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.core.usage import Usage
from headgate.store.claim.contract import ClaimRequest, Outcome
from tests.factories import (
    START,
    end_overdue,
    kinds,
    lose,
    running,
    settle,
    sql,
    start,
    submit,
    worker,
)

USED = Usage(1.5, 2_000_000, 3, None)


def last_detail(store, task_id):
    return json.loads(store.events.of(task_id)[-1].detail)


def test_every_attempt_of_a_task_is_told_with_its_error_its_usage_and_its_log(store, clock):
    """Spec: X8, A12"""
    first = running(store)
    store.executions.add_log(first.id, first.exec_id, [("info", "one"), ("info", "two")])
    clock.advance(2)
    store.executions.settle([Outcome(first, Raised("OSError: gone\n\nthe stack", 3.0, EndReason.ERROR), USED)])
    clock.advance(3)
    store.due.bring()
    worker_id = worker(store)
    [second] = store.claims.take(ClaimRequest(worker_id, 1)).executions
    store.executions.add_log(second.id, second.exec_id, [("info", "three")])
    [one, two] = store.attempts.of(first.id)
    lines = [line.id for line in store.executions.log(first.id)]
    assert (one.number, one.exec_id, one.outcome) == (1, first.exec_id, "retrying")
    assert (one.started_at, (one.ended_at - START).total_seconds()) == (START, 2)
    assert (one.error, one.reason, one.delay) == ("OSError: gone\n\nthe stack", EndReason.ERROR, 3.0)
    assert (one.usage, one.log) == (USED, (lines[0], lines[1]))
    assert (two.number, two.exec_id, two.executor) == (2, second.exec_id, f"worker:{worker_id}")
    assert (two.outcome, two.ended_at, two.error, two.reason, two.usage) == ("running", None, None, None, None)
    assert two.log == (lines[2], lines[2])
    store.executions.settle([Outcome(second, Returned(), USED)])
    [_, two] = store.attempts.of(first.id)
    assert (two.outcome, two.ended_at, two.usage) == ("completed", clock.now, USED)


def test_a_task_that_has_not_started_has_no_attempts_and_another_tenant_s_none_to_see(store):
    """Spec: X8, B11"""
    assert store.attempts.of(submit(store, tenant_id=1).id) == []
    with pytest.raises(NotFound):
        store.attempts.of(submit(store, tenant_id=1).id, 2)


def test_an_attempt_that_did_not_fail_leaves_no_row(store, url):
    """Spec: X8"""
    for event in (Returned(), Snoozed(5.0), GivenBack()):
        execution = running(store)
        settle(store, execution, event)
        [attempt] = store.attempts.of(execution.id)
        assert attempt.error is None
        if not isinstance(event, Returned):
            store.tasks.cancel(execution.id)
    assert sql(url, "SELECT count(*) FROM headgate_task_attempt") == [(0,)]


def test_an_agent_s_attempts_are_told_under_its_name(store):
    """Spec: X8"""
    submit(store)
    agent = store.workers.register("crawler", agent_id="crawler-1")
    [execution] = store.claims.take(ClaimRequest(agent, 1, agent_id="crawler-1")).executions
    assert [each.executor for each in store.attempts.of(execution.id)] == ["agent:crawler-1"]
    store.executions.settle([Outcome(execution, Raised("no"))], actor="agent:crawler-1")
    assert [each.executor for each in store.attempts.of(execution.id)] == ["agent:crawler-1"]


def test_a_start_that_was_confirmed_later_is_one_attempt_from_then_on(store, clock):
    """Spec: X8, E1"""
    submit(store)
    [handed] = start(store, confirm=True)
    [attempt] = store.attempts.of(handed.id)
    assert (attempt.outcome, attempt.number) == ("scheduling", 1)
    clock.advance(4)
    store.executions.start(handed.id, handed.exec_id)
    [attempt] = store.attempts.of(handed.id)
    assert (attempt.outcome, attempt.started_at) == ("running", clock.now)


def test_a_lost_lease_and_a_missed_deadline_are_attempts_with_their_reasons(store, clock):
    """Spec: X8, B3"""
    store.types.put(TaskType("plain", timeout_seconds=10))
    worker_id = worker(store)
    task = submit(store, max_error_count=1)
    assert store.claims.take(ClaimRequest(worker_id, 1)).executions
    lose(store, worker_id)
    store.executions.rescue(worker_id)
    for _ in range(2):
        assert start(store)
        clock.advance(11)
        end_overdue(store)
    assert [(each.number, each.outcome, each.reason, each.delay) for each in store.attempts.of(task.id)] == [
        (1, "lease_lost", EndReason.LOST, 0.0),
        (2, "overdue", EndReason.OVERDUE, 0.0),
        (3, "failed", EndReason.OVERDUE, None),
    ]
    assert [each.error for each in store.attempts.of(task.id)] == [
        "its executor was lost", "the deadline has passed", "the deadline has passed",
    ]  # fmt: skip
    assert kinds(store, task.id)[-1] == "failed"


def test_the_last_fifty_attempts_are_kept(store, url):
    """Spec: X8"""
    task = submit(store, max_error_count=1000)
    for number in range(1, 54):
        [execution] = start(store)
        assert execution.attempt == number
        settle(store, execution, Raised(f"error {number}", 0.0))
        store.due.bring()
    attempts = store.attempts.of(task.id)
    assert [(each.number, each.error) for each in attempts] == [(n, f"error {n}") for n in range(4, 54)]
    assert sql(url, "SELECT min(attempt), count(*) FROM headgate_task_attempt") == [(4, 50)]


def test_attempts_are_kept_through_history_and_go_with_their_task(store, clock, url):
    """Spec: X8, B4, A7"""
    execution = running(store)
    settle(store, execution, Raised("no"))
    before = store.attempts.of(execution.id)
    assert store.history.archive() == 1
    assert store.attempts.of(execution.id) == before
    clock.advance(10)
    assert store.history.purge([State.FAILED], seconds=5) == 1
    assert sql(url, "SELECT count(*) FROM headgate_task_attempt") == [(0,)]


@pytest.mark.parametrize(
    ("type_code", "event", "end", "told"),
    [
        ("plain", Raised("E: a\nb"), State.FAILED, {"reason": "exhausted", "error": "E: a"}),
        ("plain", Raised("E: a", None, EndReason.FATAL), State.FAILED, {"reason": "fatal", "error": "E: a"}),
        ("manual", Raised("E: a", None, EndReason.MEMORY), State.DEAD, {"reason": "memory", "error": "E: a"}),
        ("plain", Raised("E: a", None, EndReason.ARGUMENTS), State.DEAD, {"reason": "arguments", "error": "E: a"}),
        ("plain", Raised("E: a", 7.5), State.RETRYING, {"reason": "error", "error": "E: a", "delay": 7.5}),
        ("plain", Raised("Traceback (x):\n  …\nE: a\n"), State.FAILED, {"reason": "exhausted", "error": "E: a"}),
        ("plain", Raised("x" * 500, 1.0), State.RETRYING, {"reason": "error", "error": "x" * 199 + "…", "delay": 1.0}),
    ],
)
def test_the_event_of_a_failure_says_why_with_the_head_of_the_error_and_the_delay(store, type_code, event, end, told):
    """Spec: A5, D6"""
    execution = running(store, type_code)
    assert settle(store, execution, event) is end
    assert last_detail(store, execution.id) == told


def test_what_a_person_ended_says_so(store):
    """Spec: A12, D6"""
    execution = running(store)
    store.tasks.cancel(execution.id)
    settle(store, execution, CancelReached())
    assert last_detail(store, execution.id) == {"reason": "cancelled"}
    cancelled_anyway = running(store)
    store.tasks.cancel(cancelled_anyway.id)
    settle(store, cancelled_anyway, Raised("E: a", 5.0))
    assert last_detail(store, cancelled_anyway.id) == {"reason": "cancelled", "error": "E: a"}
    assert [each.error for each in store.attempts.of(cancelled_anyway.id)] == ["E: a"]
    dead = running(store, "manual")
    settle(store, dead, Raised("E: a"))
    store.tasks.discard(dead.id)
    assert last_detail(store, dead.id) == {"reason": "discarded"}


def test_a_parent_that_gave_up_ends_with_the_reason_it_gave_up_for(store):
    """Spec: D7, D6"""
    parent = running(store)
    store.tasks.submit(NewTask("plain", parent_id=parent.id))
    settle(store, parent, Raised("E: a", None, EndReason.ARGUMENTS))
    task = store.tasks.get(parent.id)
    assert (task.status, kinds(store, parent.id)[-1]) == (State.DEAD, "dead_lettered")
    told = {"children": {"cancelled": 1}, "error": "E: a", "reason": "arguments"}
    assert last_detail(store, parent.id) == told


def test_a_parent_all_of_whose_children_failed_says_so(store):
    """Spec: D7, D6"""
    parent = running(store)
    store.tasks.submit(NewTask("plain", parent_id=parent.id))
    [child] = start(store)
    settle(store, child, Raised("no"))
    settle(store, parent, Returned())
    assert last_detail(store, parent.id) == {"children": {"failed": 1}, "reason": "children"}
