"""What the checker lets pass and what it catches: I4, limits by the audit, and I5, by what handlers really did."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.core.limits import Rate
from headgate.simulation.checker import check
from headgate.simulation.evidence import Evidence
from tests.simulation.runs import Run


def broken(evidence: Evidence) -> set[str]:
    return {violation.invariant for violation in check(evidence)}


def submitted(*task_ids: int, **fields: Any) -> Run:
    run = Run()
    for task_id in task_ids:
        run.submit(task_id, **fields)
    return run


def begin(run: Run, *task_ids: int) -> None:
    """By the audit alone."""
    for task_id in task_ids:
        run.step(task_id, "started", "running", f"x{task_id}")


def edit(run: Run, kind: str, **detail: Any) -> None:
    run.note(None, kind, detail=json.dumps(detail))


# I4: lanes and resources


def test_a_start_in_a_full_lane_is_caught():
    """Spec: X5, C13"""
    run = submitted(1, 2, 3, lane="narrow")
    begin(run, 1, 2)
    assert check(run.evidence(at_rest=False, capacities={"lane narrow": 2})) == []
    begin(run, 3)
    evidence = run.evidence(at_rest=False, capacities={"lane narrow": 2})
    assert [violation.text for violation in check(evidence)] == [
        "row 6 starts task 3 in lane narrow, of which 2 may run and 1, 2 did"
    ]
    assert broken(evidence) == {"I4"}


def test_a_place_in_a_lane_is_free_when_its_holder_has_let_go():
    """Spec: X5, C13"""
    run = submitted(1, 2, lane="narrow")
    begin(run, 1)
    run.step(1, "lease_lost", "queued", "x1")
    begin(run, 2)
    assert check(run.evidence(at_rest=False, capacities={"lane narrow": 1})) == []


def test_a_capacity_counts_from_its_edit_on_and_for_starts_alone():
    """Spec: X5, C13"""
    run = submitted(1, 2, 3, 4, lane="narrow")
    begin(run, 1, 2)
    edit(run, "capacity_changed", lane="narrow", capacity=1)
    assert check(run.evidence(at_rest=False)) == []
    run.step(1, "completed", "succeeded", "x1")
    begin(run, 3)
    assert broken(run.evidence(at_rest=False)) == {"I4"}
    run.rows[-1:-1] = [run.rows[-1]._replace(task_id=None, seq=0, kind="capacity_changed", after=None, before=None,
                                             detail='{"lane": "narrow", "capacity": null}')]  # fmt: skip
    assert check(run.evidence(at_rest=False)) == []


def test_a_resource_is_shared_by_all_who_use_it_and_holds_one_unless_it_is_told():
    """Spec: X5, C13"""
    run = submitted(1, type="cut")
    run.submit(2, type="paste", lane="other")
    begin(run, 1, 2)
    uses = {"cut": ("disk",), "paste": ("disk", "net")}
    assert broken(run.evidence(at_rest=False, uses=uses)) == {"I4"}
    assert check(run.evidence(at_rest=False, uses=uses, capacities={"resource disk": 2})) == []


paused = pytest.mark.parametrize(
    "what", [{"everything": True}, {"lane": "default"}, {"type": "plain"}, {"tenant": "0"}, {"key": "api"}], ids=str
)


@paused
def test_a_start_in_what_is_paused_is_caught(what: dict[str, Any]):
    """Spec: X5, A9"""
    run = submitted(1, rate_key="api")
    edit(run, "paused", **what)
    for scope in ("lane", "type", "tenant", "key"):
        edit(run, "paused", **{scope: "other"})
    edit(run, "resumed", **what)
    begin(run, 1)
    assert check(run.evidence(at_rest=False)) == []
    run.submit(2, rate_key="api")
    edit(run, "paused", **what)
    begin(run, 2)
    assert broken(run.evidence(at_rest=False)) == {"I4"}


@paused
@pytest.mark.parametrize("early", [0.5, 0.0])
def test_a_start_before_the_end_of_a_pause_is_caught_and_one_behind_it_is_not(what: dict[str, Any], early: float):
    """Spec: X5, A9"""
    run = submitted(1, rate_key="api")
    # Each row takes a second: the start is written six seconds from now.
    edit(run, "paused", **what, until=datetime.fromtimestamp(run.wall + 6.0 + early, UTC).isoformat())
    run.wait(4.0)
    begin(run, 1)
    assert broken(run.evidence(at_rest=False)) == ({"I4"} if early else set())


@paused
def test_a_confirmed_start_in_what_is_paused_is_caught(what: dict[str, Any]):
    """Spec: X5"""
    run = submitted(1, rate_key="api")
    run.step(1, "scheduled", "scheduling", "x1")
    edit(run, "paused", **what)
    assert check(run.evidence(at_rest=False)) == []
    run.step(1, "started", "running", "x1")
    assert broken(run.evidence(at_rest=False)) == {"I4"}


def test_what_is_removed_limits_nothing_any_more():
    """Spec: X5, A9"""
    run = submitted(1, 2, 3)
    edit(run, "capacity_changed", lane="default", capacity=1)
    edit(run, "rate_changed", name="type:plain", limit={"rate": 0.001, "burst": 1})
    edit(run, "paused", lane="default")
    edit(run, "lane_removed", lane="default")
    edit(run, "rate_limit_removed", name="type:plain")
    begin(run, 1, 2, 3)
    assert check(run.evidence(at_rest=False)) == []


# I4: mutexes


def test_a_second_holder_of_a_mutex_is_caught_and_tenants_do_not_share_one():
    """Spec: X5, A9"""
    run = submitted(1, 2, mutex="m")
    run.submit(3, mutex="m", tenant_id=1)
    begin(run, 1, 3)
    assert check(run.evidence(at_rest=False)) == []
    begin(run, 2)
    assert broken(run.evidence(at_rest=False)) == {"I4"}


def parent_that_waits(run: Run) -> None:
    """Task 1, holding `m`; its child 2 and a stranger 3 want it."""
    run.submit(1, mutex="m")
    begin(run, 1)
    run.submit(2, mutex="m", parent_id=1, root_id=1)
    run.submit(3, mutex="m")
    run.step(1, "waiting", "waiting", "x1")


def test_a_parent_that_waits_holds_its_mutex_for_its_family_alone():
    """Spec: X5, A9"""
    run = Run()
    parent_that_waits(run)
    begin(run, 2)
    assert check(run.evidence(at_rest=False)) == []
    run.step(2, "completed", "succeeded", "x2")
    begin(run, 3)
    assert broken(run.evidence(at_rest=False)) == {"I4"}
    run = Run()
    parent_that_waits(run)
    begin(run, 2)
    run.step(2, "completed", "succeeded", "x2")
    run.step(1, "completed", "succeeded")
    begin(run, 3)
    assert check(run.evidence(at_rest=False)) == []


def test_a_parent_that_waits_to_be_cancelled_and_never_ran_holds_nothing():
    """Spec: X5, A9"""
    run = submitted(1, 3, mutex="m")
    run.submit(2, parent_id=1, root_id=1)
    run.step(1, "cancel_requested", "waiting")
    begin(run, 3)
    assert check(run.evidence(at_rest=False)) == []


# I4: rates and times


@pytest.mark.parametrize("bucket", ["lane:default", "type:plain", "key:mine"])
def test_a_start_without_a_token_is_caught(bucket: str):
    """Spec: X5"""
    run = submitted(1, 2, 3, 4, rate_key="mine")
    begin(run, 1, 2)
    run.wait(8.0)
    begin(run, 3)
    limits = {bucket: Rate(0.1, 2)}
    assert check(run.evidence(at_rest=False, rates=limits)) == []
    begin(run, 4)
    assert broken(run.evidence(at_rest=False, rates=limits)) == {"I4"}


def test_a_rate_key_that_nobody_set_has_the_limit_that_keys_have():
    """Spec: X5"""
    run = submitted(*range(1, 30), rate_key="mine")
    begin(run, *range(1, 21))
    run.rows = [row._replace(wall=1000.0) for row in run.rows]
    assert check(run.evidence(at_rest=False)) == []
    begin(run, 21)
    run.rows[-1] = run.rows[-1]._replace(wall=1000.0)
    assert broken(run.evidence(at_rest=False)) == {"I4"}


def test_a_rate_key_that_nobody_set_has_a_bucket_for_each_tenant():
    """Spec: X5"""
    for tenants, found in (((0, 1), set()), ((0, 0), {"I4"})):
        run = Run()
        for number in range(1, 31):
            run.submit(number, rate_key="mine", tenant_id=tenants[number % 2])
        begin(run, *range(1, 31))
        run.rows = [row._replace(wall=1000.0) for row in run.rows]
        assert broken(run.evidence(at_rest=False)) == found


def test_a_changed_rate_begins_with_a_full_bucket():
    """Spec: X5"""
    run = submitted(1, 2, 3)
    begin(run, 1)
    edit(run, "rate_changed", name="lane:default", limit={"rate": 0.1, "burst": 1})
    begin(run, 2)
    edit(run, "rate_changed", name="lane:default", limit=None)
    begin(run, 3)
    assert check(run.evidence(at_rest=False, rates={"lane:default": Rate(0.1, 1)})) == []


def test_a_bucket_fills_by_what_the_clock_advances_wherever_it_was_stepped_to():
    """Spec: X5"""
    run = submitted(1, 2, 3)
    begin(run, 1)
    run.wall -= 3600.0
    edit(run, "type_changed")
    run.wait(10.0)
    begin(run, 2)
    limits = {"lane:default": Rate(0.1, 1)}
    assert check(run.evidence(at_rest=False, rates=limits)) == [], "ten seconds are ten seconds"
    run.wall -= 3600.0
    begin(run, 3)
    assert broken(run.evidence(at_rest=False, rates=limits)) == {"I4"}, "and none is none"


def test_a_start_before_its_time_is_caught():
    """Spec: X5"""
    run = submitted(1, state="pending")
    run.step(1, "due", "queued")
    begin(run, 1)
    run.change(1, start_time=run.wall)
    assert check(run.evidence(at_rest=False)) == []
    run.change(1, start_time=run.wall + 1.0)
    assert broken(run.evidence(at_rest=False)) == {"I4"}
    run.step(1, "retrying", "retrying", "x1")
    assert check(run.evidence(at_rest=False)) == [], "what its time was by then is not known any more"


def test_a_clock_that_is_stepped_back_does_not_make_a_start_early():
    """Spec: X5"""
    run = submitted(1, state="pending")
    run.step(1, "due", "queued")
    run.change(1, start_time=run.wall)
    run.wall -= 100.0
    begin(run, 1)
    assert check(run.evidence(at_rest=False)) == []


# I4: start queues


def hand_over(run: Run, task_id: int, exec_id: str) -> None:
    run.step(task_id, "scheduled", "scheduling", exec_id)


def test_two_starts_of_an_agent_within_its_interval_are_caught():
    """Spec: X5, E3"""
    run = submitted(1, 2, 3, agent_id="rig")
    run.submit(4, agent_id="mill")
    run.submit(5, agent_id="rig", tenant_id=1)
    hand_over(run, 1, "x1")
    hand_over(run, 4, "x4")
    hand_over(run, 5, "x5")
    run.wait(3.0)
    hand_over(run, 2, "x2")
    assert check(run.evidence(at_rest=False, start_seconds=5.0)) == []
    hand_over(run, 3, "x3")
    [caught] = check(run.evidence(at_rest=False, start_seconds=5.0))
    assert caught.invariant == "I4"
    assert caught.text.endswith("starts task 3 1.000 s after the last start of agent rig, 5 s are to pass")


def test_a_start_that_was_lost_counts_for_the_interval_too():
    """Spec: X5, E2, E3"""
    run = submitted(1, agent_id="rig")
    hand_over(run, 1, "x1")
    run.step(1, "compensated", "queued", "x1")
    hand_over(run, 1, "x2")
    assert broken(run.evidence(at_rest=False, start_seconds=5.0)) == {"I4"}


def test_a_store_whose_clock_was_set_back_may_start_the_next_at_once():
    """Spec: X5, E3"""
    run = submitted(1, 2, agent_id="rig")
    hand_over(run, 1, "x1")
    run.wall -= 3600
    hand_over(run, 2, "x2")
    assert check(run.evidence(at_rest=False, start_seconds=5.0)) == []


def test_an_assigned_task_that_runs_without_its_agents_word_is_caught():
    """Spec: X5, E1"""
    run = submitted(1, agent_id="rig")
    begin(run, 1)
    assert broken(run.evidence(at_rest=False, start_seconds=5.0)) == {"I4"}


# I5


def robbed(run: Run) -> None:
    """Task 1, lost by x and run by y, while x goes on."""
    run.submit(1, mutex="m")
    run.start(1, "x")
    run.step(1, "lease_lost", "blocked", "x")
    run.step(1, "came_forward", "queued")
    run.start(1, "y")


def test_a_handler_that_goes_on_when_its_task_is_lost_is_let_be():
    """Spec: X5, B3"""
    run = Run()
    robbed(run)
    run.record("effect", 1, "x", attempt=1, accepted=False)
    run.record("end", 1, "x", attempt=1)
    run.end(1)
    assert check(run.evidence()) == []


def test_an_effect_of_an_attempt_that_was_followed_by_another_is_caught_when_it_was_accepted():
    """Spec: X5, B3"""
    run = Run()
    robbed(run)
    run.record("effect", 1, "x", attempt=1)
    assert broken(run.evidence(at_rest=False)) == {"I5"}


def overlapping(**fields: Any) -> Run:
    """Two handlers that run at the same time, though by the audit one came after the other."""
    run = submitted(1, 2, **fields)
    run.step(1, "started", "running", "a")
    run.step(2, "started", "running", "b", at=run.now)
    run.ledger.clear()
    run.record("start", 1, "a")
    run.record("start", 2, "b")
    return run


def test_two_handlers_at_once_behind_one_mutex_are_caught_unless_one_had_lost_its_task():
    """Spec: X5, A9"""
    run = overlapping(mutex="m")
    assert broken(run.evidence(at_rest=False)) == {"I4", "I5"}
    run = submitted(1, 2, mutex="m")
    run.start(1, "a")
    run.step(1, "completed", "succeeded", "a")
    run.start(2, "b")
    assert check(run.evidence(at_rest=False)) == [], "the end of one that died is the end of its tenure"
    late = run.rows[-2]._replace(at=run.now + 5.0)
    run.rows[-2] = late
    assert broken(run.evidence(at_rest=False)) == {"I5"}
    assert check(run.evidence(at_rest=False, skew=6.0)) == []


def test_more_handlers_at_once_than_a_lane_or_a_resource_has_room_for_are_caught():
    """Spec: X5, C13"""
    for place in ("lane default", "resource tool"):
        run = submitted(1, 2)
        run.start(1, "a")
        run.step(1, "completed", "succeeded", "a")
        run.start(2, "b")
        evidence = run.evidence(at_rest=False, capacities={place: 1}, uses={"plain": ("tool",)})
        assert check(evidence) == []
        run.rows[-2] = run.rows[-2]._replace(at=run.now + 5.0)
        assert broken(evidence) == {"I5"}


def test_a_handler_that_began_late_is_measured_by_the_room_there_was_meanwhile():
    """Spec: X5, C13"""
    run = submitted(1, 2)
    edit(run, "capacity_changed", lane="default", capacity=1)
    run.step(1, "started", "running", "a")
    edit(run, "capacity_changed", lane="default", capacity=2)
    run.start(2, "b")
    run.record("start", 1, "a")
    assert check(run.evidence(at_rest=False)) == []


def test_handlers_that_follow_each_other_within_one_moment_do_not_meet():
    """Spec: X5, A9"""
    run = submitted(1, 2, mutex="m")
    run.start(1, "a")
    run.end(1)
    run.start(2, "b")
    moment = run.ledger[-1].at
    run.ledger = [entry if entry.what != "end" else entry._replace(at=moment) for entry in run.ledger]
    assert check(run.evidence(at_rest=False)) == []
