"""Every gate, open or shut and why."""

from datetime import UTC, datetime, timedelta

import pytest

from headgate.core.family import Children
from headgate.core.gates import Bucket, CapacityLimit, Facts, Gate, PendingCallback, Server, evaluate
from headgate.core.limits import Rate, take
from headgate.core.pause import Pause, PauseScope
from headgate.core.starts import LastStart
from headgate.core.states import FINAL, State
from tests.core.factories import NOW, a_task

IN_A_MINUTE = NOW + timedelta(minutes=1)
IN_AN_HOUR = NOW + timedelta(hours=1)
WIDE = CapacityLimit("default")
ONE = Server("w")
OPEN = Facts(lane=WIDE, servers=(ONE,))


def pause(scope: str, name: str, until: datetime | None = None) -> Pause:
    return Pause(PauseScope(scope), name, "moving house", "ann", NOW, until)


def gate(name: str, facts: Facts = OPEN, **fields) -> Gate:
    """The gate `name` of a task that is `queued` but for `fields`."""
    [found] = [gate for gate in evaluate(a_task(**fields), facts, NOW) if gate.name == name]
    return found


def test_every_gate_is_named_in_the_order_a_person_would_ask():
    """Spec: X3"""
    facts = Facts(
        lane=CapacityLimit("no_cookie", 2), resources=(CapacityLimit("yt-dlp", 1), CapacityLimit("disk-writer", 1)),
        buckets=(Bucket("openai", Rate(5, 10)),), servers=(ONE,),
    )  # fmt: skip
    gates = evaluate(a_task(mutex="film"), facts, NOW)
    assert [gate.name for gate in gates] == [
        "state", "time", "pause", "lane", "resource", "resource", "mutex", "rate", "worker",
    ]  # fmt: skip
    assert all(gate.open for gate in gates)
    assert all(gate.reason for gate in gates)


def test_a_task_without_a_mutex_has_no_mutex_gate():
    """Spec: X3"""
    assert "mutex" not in [gate.name for gate in evaluate(a_task(), OPEN, NOW)]


BEFORE_THE_START = {State.PENDING, State.BLOCKED, State.QUEUED, State.PAUSED, State.RETRYING}


@pytest.mark.parametrize("state", State)
def test_the_state_gate_is_open_exactly_before_the_start(state):
    """Spec: X3"""
    found = gate("state", status=state)
    assert found.open == (state in BEFORE_THE_START)
    assert state.value in found.reason
    assert ("has ended" in found.reason) == (state in FINAL)


@pytest.mark.parametrize(
    ("state", "why"), [(State.PENDING, "not come yet"), (State.RETRYING, "failed"), (State.PAUSED, "not come yet")]
)
def test_the_time_gate_says_when_a_task_s_time_comes(state, why):
    """Spec: X3"""
    shut = gate("time", status=state, start_time=IN_A_MINUTE)
    assert (shut.open, shut.until) == (False, IN_A_MINUTE)
    assert why in shut.reason
    come = gate("time", status=state, start_time=NOW)
    assert (come.open, come.until) == (True, None)


@pytest.mark.parametrize(
    ("facts", "fields", "why"),
    [
        (OPEN, {"status": State.PAUSED}, "task"),
        (Facts(lane=WIDE, pauses=(Pause(PauseScope.ALL, "", "", "person", NOW),)), {}, "everything is paused"),
        (Facts(lane=WIDE, pauses=(pause("lane", "mail"),)), {}, "lane mail is paused by ann: moving house"),
        (Facts(lane=WIDE, pauses=(pause("type", "scan"),)), {}, "type scan is paused by ann: moving house"),
        (Facts(lane=WIDE, pauses=(pause("tenant", "3"),)), {}, "tenant 3 is paused by ann: moving house"),
        (Facts(lane=WIDE, pauses=(pause("key", "openai"),)), {}, "rate key openai is paused by ann: moving house"),
    ],
)
def test_the_pause_gate_says_what_is_paused_by_whom_and_why(facts, fields, why):
    """Spec: A9, X3"""
    shut = gate("pause", facts, **fields)
    assert not shut.open
    assert why in shut.reason


@pytest.mark.parametrize(
    ("pauses", "name", "until"),
    [
        ([pause("lane", "mail", IN_A_MINUTE)], "mail", IN_A_MINUTE),
        ([pause("lane", "mail", IN_A_MINUTE), pause("type", "scan", IN_AN_HOUR)], "scan", IN_AN_HOUR),
        ([pause("lane", "mail", IN_AN_HOUR), pause("type", "scan", IN_A_MINUTE)], "mail", IN_AN_HOUR),
        ([pause("lane", "mail"), pause("type", "scan", IN_A_MINUTE)], "mail", None),
    ],
)
def test_of_several_pauses_the_one_that_ends_last_is_told(pauses, name, until):
    """Spec: A9, X3"""
    shut = gate("pause", Facts(lane=WIDE, pauses=tuple(pauses)))
    assert (shut.params["name"], shut.until) == (name, until)


@pytest.mark.parametrize(
    ("limit", "is_open", "reason"),
    [
        (CapacityLimit("no_cookie", 2, holders=(7, 9)), False, "no_cookie: 2 of 2 running"),
        (CapacityLimit("no_cookie", 2, holders=(7,)), True, "no_cookie: 1 of 2 running"),
        (CapacityLimit("no_cookie", 2, holders=(7,), others=1), False, "2 of 2 running, 1 of other tenants"),
        (CapacityLimit("no_cookie", 1, holders=(7, 9)), False, "2 of 1 running"),
        (CapacityLimit("no_cookie", 0), False, "0 of 0 running"),
    ],
)
def test_a_room_names_its_holders_and_counts_those_of_other_tenants(limit, is_open, reason):
    """Spec: A9, B11, C3, X3"""
    for found in (gate("lane", Facts(lane=limit)), gate("resource", Facts(lane=WIDE, resources=(limit,)))):
        assert (found.open, found.holders) == (is_open, limit.holders)
        assert reason in found.reason


def test_a_room_without_a_limit_is_open_and_says_so():
    """Spec: X3"""
    found = gate("lane", Facts(lane=CapacityLimit("default", holders=(1, 2, 3))))
    assert found.open
    assert "no limit" in found.reason


@pytest.mark.parametrize(
    ("holder", "ahead", "is_open", "holders"),
    [(None, None, True, ()), (7, None, False, (7,)), (None, 8, False, (8,)), (7, 8, False, (7,))],
)
def test_the_mutex_gate_names_who_holds_it_or_else_who_goes_first(holder, ahead, is_open, holders):
    """Spec: A10, X3"""
    facts = Facts(lane=WIDE, mutex_holder=holder, mutex_ahead=ahead)
    found = gate("mutex", facts, mutex="film", status=State.BLOCKED)
    assert (found.open, found.holders) == (is_open, holders)
    assert "film" in found.reason
    assert all(str(task) in found.reason for task in holders)


def test_the_rate_gate_says_when_the_next_token_comes():
    """Spec: D8, X3"""
    limit, soon = Rate(0.5, 2), NOW + timedelta(seconds=2)
    facts = Facts(lane=WIDE, buckets=(Bucket("openai", limit, take(limit, 0.0, NOW.timestamp(), 2)),))
    shut = gate("rate", facts)
    assert (shut.open, shut.until) == (False, soon)
    assert "openai: 0 of 2 tokens" in shut.reason
    assert [gate.open for gate in evaluate(a_task(), facts, soon) if gate.name == "rate"] == [True]


def test_a_bucket_never_used_is_open():
    """Spec: D8"""
    found = gate("rate", Facts(lane=WIDE, buckets=(Bucket("openai", Rate(5, 10)),)))
    assert (found.open, found.until) == (True, None)
    assert "10 of 10" in found.reason


@pytest.mark.parametrize(("agent_id", "why"), [(None, "no worker or agent for scan"), ("rig-1", "agent rig-1 is not")])
def test_the_worker_gate_says_who_is_missing(agent_id, why):
    """Spec: E1, X3"""
    shut = gate("worker", Facts(lane=WIDE), agent_id=agent_id)
    assert not shut.open
    assert why in shut.reason
    assert gate("worker", Facts(lane=WIDE, servers=(ONE, ONE)), agent_id=agent_id).open


@pytest.mark.parametrize(
    ("servers", "is_open", "reason"),
    [
        ([Server("x", 1, 1)], False, "1 of 1 slots busy on worker x"),
        ([Server("x", 2, 1)], True, "1 worker or agent for scan"),
        ([Server("x", 4, 4), Server("y", 2, 2)], False, "6 of 6 slots busy on 2 workers"),
        ([Server("x", 4, 4), Server("y", 2, 1)], True, "2 workers or agents for scan"),
        ([Server("x", 4, 4), Server("rig", None, 1)], True, "2 workers or agents for scan"),
        ([Server("rig", None, 3, asked_seconds=30.0)], True, "1 worker or agent for scan"),
        (
            [Server("rig", None, 3, asked_seconds=40.0)],
            False,
            "agent rig holds 3 tasks and last asked for work 40 s ago",
        ),
        (
            [Server("rig", None, 1, asked_seconds=1.0, handed_since=True), Server("rag", None, 2, asked_seconds=90.0)],
            False,
            "2 agents hold 3 tasks; the latest request for work was 1 s ago",
        ),
        (
            [Server("x", 1, 1), Server("rig", None, 0, asked_seconds=90.0)],
            False,
            "1 of 1 slots busy on worker x, 1 agent is not asking for work",
        ),
        ([Server("x", 4, 1, stuck=True)], False, "4 of 4 slots busy on worker x"),
    ],
)
def test_the_worker_gate_is_shut_while_every_slot_is_busy(servers, is_open, reason):
    """Spec: X3"""
    found = gate("worker", Facts(lane=WIDE, servers=tuple(servers), in_slots=(3, 4)))
    assert (found.open, found.reason) == (is_open, reason)
    assert found.holders == (() if is_open else (3, 4))


@pytest.mark.parametrize("offset", [1, 3600])
def test_a_moment_is_told_in_utc_whatever_the_clock_that_asks(offset):
    """Spec: X3"""
    limit = Rate(1 / offset, 1)
    bucket = Bucket("openai", limit, take(limit, 0.0, NOW.timestamp(), 1))
    until = gate("rate", Facts(lane=WIDE, buckets=(bucket,))).until
    assert isinstance(until, datetime)
    assert (until.tzinfo, until - NOW) == (UTC, timedelta(seconds=offset))


def test_the_start_gate_of_an_assigned_task_says_when_its_agent_may_start_the_next():
    """Spec: E3, X3"""
    facts = Facts(lane=WIDE, servers=(ONE,), last_start=LastStart(NOW - timedelta(seconds=2), 5.0))
    shut = gate("start", facts, agent_id="rig-1")
    assert (shut.open, shut.until) == (False, NOW + timedelta(seconds=3))
    assert shut.reason == "agent rig-1: one start every 5 s"
    assert gate("start", agent_id="rig-1").open
    later = evaluate(a_task(agent_id="rig-1"), facts, NOW + timedelta(seconds=3))
    assert [gate.open for gate in later if gate.name == "start"] == [True]


def test_a_task_that_is_assigned_to_nobody_has_no_start_gate():
    """Spec: E3"""
    facts = Facts(lane=WIDE, servers=(ONE,), last_start=LastStart(NOW, 5.0))
    assert "start" not in [gate.name for gate in evaluate(a_task(), facts, NOW)]


def test_a_parent_waits_for_its_children_and_nothing_else():
    """Spec: X3, D7"""
    facts = Facts(WIDE, children=Children(succeeded=6, failed=1, open=3), open_child=42)
    [state, children] = evaluate(a_task(status=State.WAITING), facts, NOW)
    assert (state.name, state.open) == ("state", False)
    assert (children.open, children.code, children.holders) == (False, "children-open", (42,))
    assert children.params == {"ended": 7, "total": 10, "task_id": 42}
    assert children.reason == "7 of 10 have ended, task 42 has not"
    ended = Facts(WIDE, children=Children(succeeded=10))
    assert evaluate(a_task(status=State.WAITING), ended, NOW)[1].open


@pytest.mark.parametrize(
    ("pending", "reason"),
    [
        (PendingCallback(0, None, "", NOW), "it is about to be sent"),
        (PendingCallback(1, "good.example", "503", IN_A_MINUTE), "good.example: 1 attempt, last result: 503"),
        (
            PendingCallback(8, "good.example", "no answer", None),
            "8 attempts, last result: no answer; given up until",
        ),
        (
            PendingCallback(3, "good.example", "503", NOW, rests_until=IN_A_MINUTE),
            "good.example keeps failing, so callbacks to it are on hold",
        ),
        (
            PendingCallback(0, "10.0.0.5:9000", "", NOW, blocked=True),
            "HEADGATE_CALLBACK_ALLOW does not allow 10.0.0.5:9000",
        ),
        (PendingCallback(0, None, "", NOW, has_sender=False), "no process sends callbacks"),
    ],
)
def test_a_task_that_is_notifying_waits_for_its_callback_and_nothing_else(pending, reason):
    """Spec: X3, B6"""
    [state, callback] = evaluate(a_task(status=State.NOTIFYING), Facts(WIDE, callback=pending), NOW)
    assert (state.open, callback.open) == (False, False)
    assert reason in callback.reason
    assert callback.until == (pending.rests_until or pending.due_at if pending.attempts else None)
