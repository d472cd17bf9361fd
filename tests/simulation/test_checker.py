"""What the checker lets pass and what it catches: I1 to I3 and I6 to I8."""

from typing import Any, get_args

import pytest

from headgate.core.machine import Event
from headgate.core.states import FINAL, State
from headgate.simulation.checker import check
from headgate.simulation.checker_orphans import SLACK_SECONDS
from headgate.simulation.checker_paths import EVENTS, transitions
from headgate.simulation.evidence import Evidence, Submission
from tests.simulation.runs import Run


def broken(evidence: Evidence) -> set[str]:
    return {violation.invariant for violation in check(evidence)}


def one() -> Run:
    run = Run()
    run.do(1)
    return run


def family() -> Run:
    """A parent that waits, and its child, done."""
    run = Run()
    run.submit(1)
    run.start(1, "p")
    run.step(1, "adopted", "running", "p")
    run.submit(2, parent_id=1, root_id=1)
    run.end(1, "waiting", "waiting")
    run.start(2, "c")
    run.end(2)
    run.step(1, "completed", "succeeded")
    return run


def test_a_run_in_which_all_went_well_is_clean():
    """Spec: X5"""
    run = one()
    run.do(2, 3)
    assert check(run.evidence(feed_ids=[row.id for row in run.rows], counted={"succeeded": 3})) == []
    assert check(family().evidence()) == []
    assert check(Evidence([], [])) == []


def test_a_violation_names_the_task_and_the_row():
    """Spec: X5"""
    run = one()
    run.step(1, "started", "running", "late")
    [first, *_] = [violation for violation in check(run.evidence(at_rest=False)) if violation.invariant == "I2"]
    assert first.task_id == 1
    assert first.text == "task 1: row 4 (started) changes to running after its end, succeeded"


# I1


def test_a_task_that_was_answered_and_is_nowhere_is_caught():
    """Spec: X5"""
    evidence = one().evidence(submissions=[Submission("a", "made", (1, 2))])
    assert broken(evidence) == {"I1"}
    assert "task 2 was answered as made by the key 'a' and is nowhere" in check(evidence)[0].text


def test_what_retention_removed_is_not_missed_unless_it_was_open():
    """Spec: X5"""
    run = one()
    run.submit(2)
    ended = [row for row in run.rows if row.task_id == 1]
    assert check(Evidence(ended, [], submissions=[Submission(None, "made", (1,))], keep=10.0)) == []
    assert broken(Evidence(run.rows, [], submissions=[Submission(None, "made", (2,))], keep=10.0)) == {"I1", "I8"}


def test_a_task_that_is_open_when_nothing_more_can_happen_is_caught():
    """Spec: X5"""
    run = one()
    run.submit(2)
    assert broken(run.evidence()) == {"I1"}
    assert check(run.evidence(at_rest=False)) == []


def test_a_dead_task_has_ended():
    """Spec: X5"""
    run = Run()
    run.submit(1)
    run.start(1, "a")
    run.end(1, "dead_lettered", "dead")
    assert check(run.evidence()) == []


@pytest.mark.parametrize(
    ("submissions", "keys"),
    [
        ([Submission("k", "made", (1,)), Submission("k", "made", (2,))], {"k": (1,)}),
        ([Submission("k", "made", (1,)), Submission("l", "made", (2,))], {"k": (1, 2)}),
        ([Submission("k", "refused"), Submission("l", "made", (2,))], {"k": (1,)}),
        ([Submission("k", "unknown")], {"k": (1, 2)}),
        ([Submission("k", "unknown"), Submission("l", "made", (1, 2))], {"k": (3,)}),
        ([Submission("k", "unknown"), Submission("l", "made", (1,))], {}),
    ],
    ids=[
        "one key, two answers",
        "one key, made twice",
        "refused and made",
        "not answered, made twice",
        "not answered, made and lost",
        "asked for by nobody",
    ],
)
def test_a_key_that_made_other_tasks_than_it_should_is_caught(
    submissions: list[Submission], keys: dict[str, tuple[int, ...]]
):
    """Spec: X5, B5"""
    run = one()
    run.do(2)
    assert broken(run.evidence(submissions=submissions, keys=keys)) == {"I1"}


def test_a_wish_without_an_answer_may_have_been_made_or_not():
    """Spec: X5, B5"""
    run = one()
    run.do(2)
    made = Submission("l", "made", (2,))
    assert check(run.evidence(submissions=[Submission("k", "unknown"), made], keys={"k": (1,)})) == []
    assert check(run.evidence(submissions=[Submission("k", "unknown", size=2)], keys={"k": (1, 2)})) == []
    assert check(run.evidence(submissions=[Submission("k", "unknown"), Submission("l", "made", (1, 2))])) == []
    assert check(run.evidence(submissions=[Submission(None, "unknown"), made])) == []


def test_a_copy_of_a_task_is_asked_for_by_whoever_retried_it():
    """Spec: X5"""
    run = one()
    run.do(2, retry_of=1)
    assert check(run.evidence(submissions=[Submission(None, "made", (1,))])) == []


# I2


def test_every_event_of_the_machine_is_in_its_table():
    """Spec: X5"""
    assert {type(event) for event in EVENTS} == set(get_args(Event))
    assert {after for _, _, after in transitions()} == set(State)
    assert not {before for before, _, _ in transitions()} & FINAL


def test_a_dead_task_that_is_run_again_or_resolved_is_on_its_path():
    """Spec: X5"""
    run = Run()
    run.submit(1)
    run.start(1, "a")
    run.end(1, "dead_lettered", "dead")
    run.step(1, "retried", "queued")
    run.start(1, "b")
    run.end(1, "dead_lettered", "dead")
    run.step(1, "resolved", "resolved")
    assert check(run.evidence()) == []


@pytest.mark.parametrize(
    "wrong", [{"seq": 4}, {"seq": 2}, {"before": "retrying"}, {"kind": "retried"}, {"after": "paused"}]
)
def test_a_row_that_is_off_the_path_is_caught(wrong: dict[str, Any]):
    """Spec: X5, A12"""
    run = Run()
    run.submit(1)
    run.step(1, "paused", "paused")
    run.step(1, "resumed", "queued")
    run.rows[-1] = run.rows[-1]._replace(**wrong)
    run.change(1, seq=run.rows[-1].seq, status=run.rows[-1].after)
    assert broken(run.evidence(at_rest=False)) == {"I2"}


def test_a_second_end_is_caught():
    """Spec: X5"""
    run = one()
    run.step(1, "failed", "failed")
    assert broken(run.evidence()) == {"I2"}


def test_a_task_that_is_not_where_its_last_row_left_it_is_caught():
    """Spec: X5"""
    for wrong in ({"status": "failed"}, {"seq": 9}):
        run = one()
        run.change(1, **wrong)
        assert broken(run.evidence()) == {"I2"}


def test_a_task_without_a_row_is_caught():
    """Spec: X5"""
    run = one()
    run.change(1, attempt=0)
    assert broken(run.evidence(rows=[], ledger=[])) == {"I2"}


# I3


def test_an_end_by_another_than_the_holder_is_caught():
    """Spec: X5, B3"""
    for reporter in ("stranger", None):
        run = Run()
        run.submit(1)
        run.start(1, "a")
        run.step(1, "completed", "succeeded", reporter)
        assert broken(run.evidence()) == {"I3"}


def test_what_happens_to_a_held_task_is_under_its_holder_and_to_one_nobody_holds_under_nobody():
    """Spec: X5, B3"""
    run = Run()
    run.submit(1)
    run.step(1, "prioritized", "queued", "a")
    run.start(1, "a")
    run.step(1, "cancel_requested", "running", "a")
    run.step(1, "pause_requested", "running", "b")
    run.end(1)
    wrong = [violation.text for violation in check(run.evidence())]
    assert wrong == [
        "task 1: row 2 (prioritized) is by a, although no worker holds the task",
        "task 1: row 5 (pause_requested) is by b, the task is held by a",
    ]


def test_a_report_is_refused_only_to_who_does_not_hold_the_task():
    """Spec: X5, B3"""
    run = Run()
    run.submit(1)
    run.start(1, "a")
    run.step(1, "lease_lost", "queued", "a")
    run.start(1, "b")
    run.note(1, "refused", "a")
    run.note(1, "refused", None)
    run.note(1, "progress", "b")
    assert check(run.evidence(at_rest=False)) == []
    run.note(1, "refused", "b")
    assert broken(run.evidence(at_rest=False)) == {"I3"}
    run.rows[-1] = run.rows[-1]._replace(kind="progress", exec_id="a")
    assert broken(run.evidence(at_rest=False)) == {"I3"}


def test_an_exec_id_that_is_given_out_twice_is_caught():
    """Spec: X5, B3"""
    run = Run()
    for task_id in (1, 2):
        run.submit(task_id)
        run.step(task_id, "started", "running", "same")
        run.step(task_id, "completed", "succeeded", "same")
    assert broken(run.evidence()) == {"I3"}


def test_a_start_that_is_confirmed_is_one_start():
    """Spec: X5, B3"""
    run = Run()
    run.submit(1)
    run.step(1, "scheduled", "scheduling", "a")
    run.step(1, "started", "running", "a")
    run.record("start", 1, "a")
    run.end(1)
    assert check(run.evidence()) == []


@pytest.mark.parametrize(
    ("task_id", "exec_id", "attempt"),
    [(1, "x1", 1), (1, "unheard-of", 2), (2, "x1", 1), (2, "handed over", 1), (2, "x2", 7)],
    ids=["twice", "never started", "another's", "not confirmed", "the wrong attempt"],
)
def test_a_handler_that_runs_without_a_start_of_its_own_is_caught(task_id: int, exec_id: str, attempt: int):
    """Spec: X5, B3"""
    run = one()
    run.submit(2)
    run.step(2, "scheduled", "scheduling", "handed over")
    run.step(2, "given_back", "queued", "handed over")
    run.step(2, "started", "running", "x2")
    assert check(run.evidence(at_rest=False)) == []
    run.record("start", task_id, exec_id, attempt)
    assert broken(run.evidence(at_rest=False)) == {"I3"}


def test_a_task_that_is_held_by_another_than_its_rows_say_is_caught():
    """Spec: X5, B3"""
    for wrong in ({"exec_id": "b"}, {"attempt": 2}):
        run = Run()
        run.submit(1)
        run.start(1, "a")
        run.change(1, **wrong)
        assert broken(run.evidence(at_rest=False)) == {"I3"}


# I6


def test_rows_are_heard_once_each_and_a_tasks_own_in_their_order():
    """Spec: X5"""
    run = one()
    run.do(2)
    assert check(run.evidence(feed_ids=[4, 1, 5, 2, 6, 3])) == []
    for feed_ids in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 6], [1, 3, 2, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]):
        assert broken(run.evidence(feed_ids=feed_ids)) == {"I6"}
    assert check(run.evidence(feed_ids=[1, 2], at_rest=False)) == []
    assert check(run.evidence(feed_ids=range(1, 8), keep=1000.0)) == []


# I7


def test_a_task_that_is_kept_for_too_long_is_caught():
    """Spec: X5, A7"""
    run = one()
    young = run.wall + 100.0 + SLACK_SECONDS
    assert check(run.evidence(keep=100.0, ended_at=young)) == []
    assert broken(run.evidence(keep=100.0, ended_at=young + 1.0)) == {"I7"}
    assert check(run.evidence(ended_at=10.0**9)) == []


def test_a_child_is_kept_until_its_parent_has_ended():
    """Spec: X5, A7"""
    run = family()
    run.change(2, finished=0.0)
    assert check(run.evidence(keep=100.0)) == []


# I8


def test_rows_of_a_task_that_is_nowhere_are_caught():
    """Spec: X5"""
    run = one()
    run.submissions.clear()
    assert broken(run.evidence(tasks=[])) == {"I8"}
    assert check(run.evidence(tasks=[], keep=1000.0)) == []


@pytest.mark.parametrize("wrong", [{"exec_id": "a"}, {"worker_id": 1}])
def test_a_holder_of_what_is_not_held_is_caught(wrong: dict[str, Any]):
    """Spec: X5"""
    run = one()
    run.change(1, **wrong)
    assert broken(run.evidence()) == {"I8"}


@pytest.mark.parametrize("wrong", [{"exec_id": None}, {"worker_id": None}])
def test_a_held_task_without_a_holder_is_caught(wrong: dict[str, Any]):
    """Spec: X5"""
    run = Run()
    run.submit(1)
    run.start(1, "a")
    assert check(run.evidence(at_rest=False)) == []
    run.change(1, **wrong)
    assert broken(run.evidence(at_rest=False)) == {"I8"}


def test_a_task_that_is_held_at_the_end_is_caught():
    """Spec: X5"""
    run = Run()
    run.submit(1)
    run.start(1, "a")
    assert broken(run.evidence()) == {"I1", "I8"}


def test_a_child_without_a_parent_is_caught():
    """Spec: X5"""
    run = Run()
    run.do(2, parent_id=1, root_id=1)
    assert broken(run.evidence()) == {"I8"}


def parent(*children: int) -> Run:
    """A parent that runs, and its children, queued."""
    run = Run()
    run.submit(1)
    run.start(1, "p")
    run.step(1, "adopted", "running", "p")
    for child in children:
        run.submit(child, parent_id=1, root_id=1)
    return run


def end_children(run: Run, ends: dict[int, tuple[str, str]]) -> None:
    for child, (kind, after) in ends.items():
        run.start(child, f"c{child}")
        run.end(child, kind, after)


GOOD, BAD, DEAD = ("completed", "succeeded"), ("failed", "failed"), ("dead_lettered", "dead")


def test_a_parent_that_ends_before_its_child_is_caught():
    """Spec: X5, D7"""
    for how, kind, after in (
        ("waiting", *GOOD), ("waiting", "cancelled", "cancelled"), ("waiting", *BAD), ("giving_up", *BAD),
        ("giving_up", *DEAD),
    ):  # fmt: skip
        run = parent(2)
        run.end(1, how, "waiting")
        run.step(1, kind, after)
        end_children(run, {2: GOOD})
        assert broken(run.evidence()) == {"I8"}


def test_a_parent_that_does_not_wait_for_its_children_is_caught():
    """Spec: X5, D7"""
    for kind, after in (GOOD, BAD, DEAD):
        for children_first in (True, False):
            run = parent(2)
            if children_first:
                end_children(run, {2: GOOD})
            run.end(1, kind, after)
            if not children_first:
                end_children(run, {2: GOOD})
            assert broken(run.evidence()) == {"I8"}


@pytest.mark.parametrize(
    ("ends", "how", "right"),
    [
        ((GOOD, GOOD), "waiting", {"succeeded", "notifying"}),
        ((GOOD, BAD), "waiting", {"partial"}),
        ((BAD, DEAD), "waiting", {"failed"}),
        ((GOOD, GOOD), "giving_up", {"failed", "dead"}),
        ((BAD, BAD), "cancel_requested", {"cancelled"}),
    ],
)
@pytest.mark.parametrize("after", ["succeeded", "notifying", "partial", "failed", "dead", "cancelled"])
def test_a_parent_that_ends_otherwise_than_its_children_did_is_caught(ends, how, right, after):
    """Spec: X5, D7"""
    run = parent(2, 3)
    run.end(1, how, "waiting")
    end_children(run, dict(zip((2, 3), ends, strict=True)))
    kinds = {"succeeded": "completed", "notifying": "completed", "partial": "completed_with_errors",
             "failed": "failed", "dead": "dead_lettered", "cancelled": "cancelled"}  # fmt: skip
    run.step(1, kinds[after], after)
    if after == "notifying":
        run.step(1, "notified", "succeeded")
    assert broken(run.evidence()) == (set() if after in right else {"I8"})


def test_a_dead_parent_that_is_retried_is_judged_by_the_children_of_its_new_life():
    """Spec: X5, D7"""
    run = parent(2)
    run.end(1, "giving_up", "waiting")
    run.step(2, "cancelled", "cancelled")
    run.step(1, "dead_lettered", "dead")
    run.step(1, "retried", "queued")
    run.start(1, "again")
    run.submit(3, parent_id=1, root_id=1)
    run.end(1, "waiting", "waiting")
    end_children(run, {3: GOOD})
    run.step(1, *GOOD)
    assert check(run.evidence()) == []


def test_a_child_of_a_family_that_is_being_cancelled_is_caught():
    """Spec: X5, D7"""
    for how in ("giving_up", "cancel_requested"):
        run = parent(2)
        run.end(1, how, "waiting")
        run.submit(3, parent_id=1, root_id=1)
        for child in (2, 3):
            run.step(child, "cancelled", "cancelled")
        run.step(1, *(BAD if how == "giving_up" else ("cancelled", "cancelled")))
        assert broken(run.evidence()) == {"I8"}


def test_a_child_of_a_parent_that_has_ended_is_caught():
    """Spec: X5"""
    run = one()
    run.do(2, parent_id=1, root_id=1)
    assert broken(run.evidence()) == {"I8"}


def test_a_count_that_is_not_the_number_of_tasks_is_caught():
    """Spec: X5"""
    run = one()
    for counted in ({"succeeded": 2}, {}, {"succeeded": 1, "queued": 1}):
        assert broken(run.evidence(counted=counted)) == {"I8"}


# I5: who frees what a handler holds; I10: what a task is charged with


def lost(kind: str = "lease_lost", after: str = "queued", actor: str = "system:reaper") -> Run:
    """A worker's handler that died with its process, whatever the store made of it."""
    run = Run()
    run.submit(1)
    run.step(1, "started", "running", "a", actor="worker:1")
    run.record("start", 1, "a")
    run.record("died", 1, "a")
    run.wait(60)
    run.step(1, kind, after, "a", actor=actor)
    return run


def charged(run: Run, **task: Any) -> set[str]:
    run.change(1, **task)
    return broken(run.evidence(at_rest=False, timeouts={"plain": 20.0}, workers=[1]))


def test_an_error_is_a_handlers_own_or_a_deadline_it_lived_to_miss():
    """Spec: X5"""
    assert charged(lost()) == set()
    assert charged(lost(), error_count=1) == {"I10"}
    assert charged(lost("overdue")) == {"I10"}
    for entry in ("error", "end"):
        run = lost("overdue")
        last = run.ledger[-1]
        late = last._replace(what=entry, at=last.at + (0.0 if entry == "error" else 30.0))
        run.ledger = [run.ledger[0], late, *([last] if entry == "error" else [])]
        assert charged(run, error_count=1) == set(), entry


def test_a_clock_set_forward_brings_the_deadline_nearer():
    """Spec: X5"""
    run = lost("overdue")
    run.rows[-1] = run.rows[-1]._replace(wall=run.rows[-1].wall + 3600)
    run.ledger[-1] = run.ledger[-1]._replace(at=run.rows[-1].at - 1)
    assert charged(run, error_count=1) == set()


def test_a_loss_is_counted_for_who_was_alone_with_its_worker():
    """Spec: X5"""
    assert charged(lost(), lost_count=1) == set()
    assert charged(lost(actor="system"), lost_count=1) == {"I10"}
    assert charged(lost(actor="worker:1"), lost_count=1) == set(), "it was in a process of its own"
    run = Run()
    for task_id in (1, 2):
        run.submit(task_id)
        run.step(task_id, "started", "running", f"x{task_id}", actor="worker:1")
    at = run.now + 60
    for task_id in (1, 2):
        run.step(task_id, "lease_lost", "queued", f"x{task_id}", actor="system:reaper", at=at)
    assert charged(run, lost_count=1) == {"I10"}


def worked(seconds: float, *entries: str) -> Run:
    """A handler that returned after so many seconds, and what else it wrote to the ledger."""
    run = Run()
    run.submit(1)
    run.step(1, "started", "running", "a", actor="worker:1")
    run.record("start", 1, "a")
    for entry in entries:
        run.record(entry, 1, "a")
    run.wait(seconds)
    run.record("end", 1, "a")
    run.step(1, "completed", "succeeded", "a", actor="worker:1")
    return run


def test_a_result_that_came_after_its_deadline_is_not_accepted():
    """Spec: X5, B3"""
    assert charged(worked(19.0)) == set()
    assert charged(worked(21.0)) == {"I11"}


def test_a_result_is_not_accepted_before_what_its_handler_began_is_done():
    """Spec: X5, D7"""
    assert charged(worked(1.0, "child")) == {"I11"}
    run = worked(1.0, "child")
    run.submit(2)
    run.change(2, parent_id=1, root_id=1)
    assert "I11" not in charged(run)


@pytest.mark.parametrize(("kind", "allowed"), [("lease_lost", True), ("overdue", False)])
def test_only_a_lost_lease_ends_an_execution_whose_handler_still_runs(kind, allowed):
    """Spec: X5, A6"""
    run = lost(kind)
    run.ledger[-1] = run.ledger[-1]._replace(what="end", at=run.now + 5)
    assert charged(run) == (set() if allowed else {"I5"})
