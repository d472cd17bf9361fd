"""Lanes, resources, rate limits and pauses: never exceeded, changed at once."""

from collections import Counter
from typing import Any

import psycopg
import pytest

from headgate.core.errors import Invalid, NotFound
from headgate.core.limits import DeclaredLimits, LimitSource, Rate
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.catalog.rate_limits import RateLimit
from headgate.store.catalog.resources import Resource
from headgate.store.claim.contract import Claimed, ClaimRequest
from headgate.store.events.acts import ActFilter
from headgate.store.store import open_store
from tests.factories import running, settle, start, submit, together, worker


def ids_of(executions):
    return [execution.id for execution in executions]


def test_a_lane_runs_as_many_as_it_has_room_for_and_goes_on_when_room_is_freed(store):
    """Spec: A9, C2"""
    store.lanes.set_capacity("default", 2)
    ids = [submit(store).id for _ in range(4)]
    first = start(store, 9)
    assert ids_of(first) == ids[:2]
    settle(store, first[0], Raised("no"))
    assert ids_of(start(store, 9)) == ids[2:3]


def test_a_lane_without_a_capacity_is_unlimited_and_lanes_do_not_share_room(store):
    """Spec: A9"""
    store.lanes.set_capacity("narrow", 1)
    for lane in ("narrow", "wide", "narrow", "wide"):
        submit(store, lane=lane)
    assert [execution.lane for execution in start(store, 9)] == ["narrow", "wide", "wide"]


def test_scheduling_counts_as_running(store):
    """Spec: E1"""
    store.lanes.set_capacity("default", 1)
    submit(store), submit(store)
    assert len(start(store, 9, confirm=True)) == 1
    assert start(store, 9) == []


def test_a_capacity_lowered_while_more_run_lets_them_end_and_nothing_new_start(store):
    """Spec: A9"""
    store.lanes.set_capacity("default", 3)
    for _ in range(5):
        submit(store)
    held = start(store, 9)
    store.lanes.set_capacity("default", 1)
    for execution in held[:2]:
        settle(store, execution, Returned())
        assert start(store, 9) == []
    settle(store, held[2], Returned())
    assert len(start(store, 9)) == 1


@pytest.mark.parametrize("capacity", [0, 1, None])
def test_a_capacity_changed_by_one_process_holds_in_another_at_once(store, url, clock, capacity):
    """Spec: A9"""
    store.lanes.set_capacity("default", 2)
    for _ in range(4):
        submit(store)
    with open_store(url, clock) as other:
        start(other)
        store.lanes.set_capacity("default", capacity)
        assert len(start(other, 9)) == (3 if capacity is None else 0)


@pytest.mark.parametrize("lane", ["default", None])
def test_a_pause_of_a_lane_or_of_everything_starts_nothing_and_ends_nothing(store, url, clock, lane):
    """Spec: A9, C4"""
    execution = running(store)
    waiting, elsewhere = submit(store), submit(store, lane="other")
    with open_store(url, clock) as other:
        assert store.lanes.pause(lane, actor="user:1")
        assert not store.lanes.pause(lane)
        assert [pause.scope for pause in store.pauses.active()] == ["lane" if lane else "all"]
        assert ids_of(start(other, 9)) == ([elsewhere.id] if lane else [])
        assert settle(store, execution, Returned()) is State.SUCCEEDED
        assert store.lanes.resume(lane)
        assert not store.lanes.resume(lane)
        assert set(ids_of(start(other, 9))) == ({waiting.id} if lane else {waiting.id, elsewhere.id})


def test_a_lane_paused_before_it_has_tasks_stays_paused(store):
    """Spec: A9"""
    store.lanes.pause("later")
    submit(store, lane="later")
    assert start(store) == []
    assert "later" in {room.name for room in store.lanes.all()}


def test_lanes_and_resources_are_listed_with_their_capacity(store):
    """Spec: C4, A11"""
    store.lanes.set_capacity("narrow", 2)
    store.resources.set("yt-dlp", 3)
    assert {room.name: room.capacity for room in store.lanes.all()} == {"default": None, "narrow": 2}
    assert {room.name: room.capacity for room in store.resources.all()} == {"disk-writer": 1, "yt-dlp": 3}


@pytest.mark.parametrize("capacity", [-1, 1_000_001, 1.5, True, "3"])
def test_a_capacity_that_is_no_number_of_tasks_is_refused(store, capacity):
    """Spec: A9"""
    before = store.lanes.all(), store.resources.all(), store.events.last()
    for put in (store.lanes.set_capacity, store.resources.set):
        with pytest.raises(Invalid, match="capacity"):
            put("disk-writer", capacity)
    assert (store.lanes.all(), store.resources.all(), store.events.last()) == before


def test_a_resource_is_shared_by_every_type_that_uses_it(store):
    """Spec: A11, C3"""
    store.types.put(TaskType("fetch", lane="a", uses=("net", "disk-writer")))
    store.types.put(TaskType("copy", lane="b", uses=("disk-writer",)))
    fetch, copy, plain = submit(store, "fetch"), submit(store, "copy"), submit(store)
    first = start(store, 9)
    assert ids_of(first) == [fetch.id, plain.id]
    settle(store, first[0], Returned())
    assert ids_of(start(store, 9)) == [copy.id]


def test_a_resource_takes_effect_at_once_when_its_capacity_changes(store):
    """Spec: A9, A11"""
    store.types.put(TaskType("copy", uses=("disk-writer",)))
    for _ in range(4):
        submit(store, "copy")
    assert len(start(store, 9)) == 1
    store.resources.set("disk-writer", 3)
    assert len(start(store, 9)) == 2
    store.resources.set("disk-writer", 1)
    assert start(store, 9) == []


def test_a_type_that_begins_to_use_a_resource_is_held_by_it_at_once(store):
    """Spec: B5, A11"""
    store.types.put(TaskType("copy"))
    for _ in range(3):
        submit(store, "copy")
    start(store)
    store.types.put(TaskType("copy", uses=("disk-writer",)))
    assert len(start(store, 9)) == 1


LIMITED: dict[str, Any] = {
    "lane:slow": {"lane": "slow"},
    "type:manual": {"type": "manual"},
    "key:openai": {"rate_key": "openai"},
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_rate_limit_lets_a_burst_through_and_then_one_per_token(store, clock, name):
    """Spec: D8"""
    fields = LIMITED[name]
    store.rate_limits.set(name, Rate(0.5, 3))
    store.tasks.submit_many([NewTask(**{"type": "plain", **fields})] * 10)
    counts = [len(start(store, 9))]
    for seconds in (0, 1.999, 0.001, 2, 5, 1000):
        clock.advance(seconds)
        counts.append(len(start(store, 9)))
    assert counts == [3, 0, 0, 1, 1, 2, 3]


def test_a_claim_says_when_a_token_comes_for_what_waits(store, clock):
    """Spec: D8"""
    store.rate_limits.set("key:a", Rate(0.5, 1))
    store.rate_limits.set("key:b", Rate(0.25, 1))
    request = ClaimRequest(worker(store), 9)
    assert store.claims.take(request).token_in is None
    for key in "aabb":
        submit(store, rate_key=key)
    assert store.claims.take(request).token_in == pytest.approx(2.0, abs=0.1)
    clock.advance(2)
    assert len(store.claims.take(request).executions) == 1


def test_a_claim_says_nothing_of_tokens_that_nobody_waits_for(store, clock):
    """Spec: D8"""
    store.rate_limits.set("key:a", Rate(0.5, 1))
    submit(store, rate_key="a")
    submit(store)
    request = ClaimRequest(worker(store), 9)
    assert len(store.claims.take(request).executions) == 2
    clock.advance(2)
    for _ in range(2):
        assert store.claims.take(request) == Claimed([])


@pytest.mark.parametrize("corrected", [False, True])
def test_a_clock_set_back_shuts_a_rate_limit_for_no_longer_than_it_takes_to_fill(store, url, clock, corrected):
    """Spec: D8. Each process remembers until when a bucket is empty: another one looks at it afresh."""
    store.rate_limits.set("type:plain", Rate(0.5, 2))
    store.tasks.submit_many([NewTask("plain")] * 10)
    assert len(start(store, 9)) == 2
    clock.advance(-3600)
    with open_store(url, clock) as other:
        claimed = other.claims.take(ClaimRequest(worker(other), 9))
        assert claimed.executions == []
        assert claimed.token_in == pytest.approx(2.0, abs=0.1)
        if corrected:
            clock.advance(3600)
        clock.advance(2)
        assert len(start(other, 9)) == (2 if corrected else 1)


def test_a_rate_limit_is_shared_by_all_processes(store, url, clock):
    """Spec: D8"""
    store.rate_limits.set("type:plain", Rate(1, 4))
    store.tasks.submit_many([NewTask("plain")] * 10)
    with open_store(url, clock) as other:
        assert [len(start(at, 2)) for at in (store, other, store, other)] == [2, 2, 0, 0]
        clock.advance(1)
        assert len(start(other, 9)) + len(start(store, 9)) == 1


def test_an_unknown_rate_key_has_10_a_second_and_20_at_once(store, clock):
    """Spec: D8"""
    store.tasks.submit_many([NewTask("plain", rate_key="fresh")] * 40)
    assert [(each.name, each.limit) for each in store.rate_limits.all()] == [("key:*", Rate(10, 20))]
    assert len(start(store, 99)) == 20
    clock.advance(1)
    assert len(start(store, 99)) == 10


def test_a_key_that_nobody_set_has_a_bucket_for_each_tenant_and_one_that_was_set_is_shared(store):
    """Spec: D8"""
    store.rate_limits.set("key:shared", Rate(0.5, 3))
    for key in ("fresh", "shared"):
        store.tasks.submit_many([NewTask("plain", tenant_id=n % 2, rate_key=key) for n in range(60)])
    started = Counter((execution.tenant_id, store.tasks.get(execution.id).rate_key) for execution in start(store, 99))
    assert [started[tenant_id, "fresh"] for tenant_id in (0, 1)] == [20, 20]
    assert started[0, "shared"] + started[1, "shared"] == 3


def test_what_holds_for_keys_that_nobody_set_can_be_edited_and_lifted(store, url, clock):
    """Spec: D8, A9"""
    store.tasks.submit_many([NewTask("plain", tenant_id=n % 2, rate_key="fresh") for n in range(30)])
    with open_store(url, clock) as other:
        store.rate_limits.set("key:*", Rate(0.001, 2))
        assert (len(start(other, 99)), len(start(other, 99))) == (4, 0)
        store.tasks.submit(NewTask("plain", tenant_id=7, rate_key="fresh"))
        assert len(start(other, 99)) == 1, "one that came later"
        store.rate_limits.set("key:*", None)
        assert len(start(other, 99)) == 26
    assert [(each.name, each.limit, each.source) for each in store.rate_limits.all()] == [("key:*", None, "person")]


def test_a_key_whose_limit_was_lifted_has_none_not_that_of_other_keys(store):
    """Spec: D8"""
    store.tasks.submit_many([NewTask("plain", rate_key="openai")] * 40)
    store.rate_limits.set("key:openai", None)
    assert len(start(store, 99)) == 40


def test_a_declared_limit_holds_until_a_person_sets_another(store):
    """Spec: D8, X10"""
    declared = DeclaredLimits()
    declared.lane("mail", 5)
    declared.resource("gpu", 2)
    declared.rate_limit("key:openai", Rate(5, 10))
    assert store.limits.declare(declared, LimitSource.PROGRAM) == {}
    assert {lane.name: lane.capacity for lane in store.lanes.all()}["mail"] == 5
    assert Resource("gpu", 2, "program") in store.resources.all()
    assert RateLimit("key:openai", Rate(5, 10), "program") in store.rate_limits.all()
    store.catalog.reload()
    version = store.catalog.version
    assert store.limits.declare(declared, LimitSource.PROGRAM) == {}
    store.catalog.reload()
    assert store.catalog.version == version, "nothing was written"

    store.lanes.set_capacity("mail", None)
    store.resources.set("gpu", 2)
    store.rate_limits.set("key:openai", None)
    declared.lane("mail", 6)
    declared.resource("gpu", 2)
    stays = store.limits.declare(declared, LimitSource.SETTINGS)
    assert stays == {"lane mail": "person", "rate limit key:openai": "person"}
    assert {lane.name: lane.capacity for lane in store.lanes.all()}["mail"] is None
    assert Resource("gpu", 2, "person") in store.resources.all()
    assert RateLimit("key:openai", None, "person") in store.rate_limits.all()


def declare(store, source, number):
    declared = DeclaredLimits()
    declared.lane("mail", number)
    declared.resource("gpu", number)
    declared.rate_limit("key:openai", Rate(1, number))
    return store.limits.declare(declared, source)


def numbers(store):
    lanes = [(lane.capacity, lane.source) for lane in store.lanes.all() if lane.name == "mail"]
    resources = [(each.capacity, each.source) for each in store.resources.all() if each.name == "gpu"]
    rates = [(each.limit.burst, each.source) for each in store.rate_limits.all() if each.name == "key:openai"]
    assert lanes == resources == rates
    return lanes[0]


LIMITS_DECLARED = ("lane mail", "resource gpu", "rate limit key:openai")


def test_no_source_replaces_what_a_stronger_one_set_whoever_comes_later(store):
    """Spec: D8, X10. A process that lacks a setting does not undo it."""
    for source, number, then in (
        ("program", 5, (5, "program")),
        ("pack", 4, (5, "program")),
        ("settings", 2, (2, "settings")),
        ("program", 6, (2, "settings")),
        ("settings", 3, (3, "settings")),
    ):
        stays = declare(store, LimitSource(source), number)
        assert numbers(store) == then
        assert stays == ({} if then == (number, source) else dict.fromkeys(LIMITS_DECLARED, then[1]))


@pytest.mark.parametrize("source", ["settings", "person"])
def test_a_limit_that_is_reset_stays_until_the_next_declaration(store, source):
    """Spec: D8, X10"""
    if source == "settings":
        declare(store, LimitSource.SETTINGS, 2)
    else:
        store.lanes.set_capacity("mail", 2)
        store.resources.set("gpu", 2)
        store.rate_limits.set("key:openai", Rate(1, 2))
    declare(store, LimitSource.PROGRAM, 5)
    assert numbers(store) == (2, source)
    for noun, name in ((store.lanes, "mail"), (store.resources, "gpu"), (store.rate_limits, "key:openai")):
        noun.reset(name, actor="ann")
        with pytest.raises(NotFound):
            noun.reset(f"{name}-other")
    assert numbers(store) == (2, "default")
    assert [(act.object, act.actor) for act in store.acts.find(ActFilter(kind="limit_reset")).items] == [
        ("rate_limit:key:openai", "ann"), ("resource:gpu", "ann"), ("lane:mail", "ann"),
    ]  # fmt: skip
    assert declare(store, LimitSource.PROGRAM, 5) == {}
    assert numbers(store) == (5, "program")


def test_every_rate_limit_of_a_task_must_have_a_token_and_a_shut_one_costs_the_others_none(store):
    """Spec: D8"""
    store.rate_limits.set("key:a", Rate(1, 1))
    store.rate_limits.set("type:plain", Rate(1, 3))
    for key in ("a", "a", "b", "b", "b"):
        submit(store, rate_key=key)
    assert len(start(store, 9)) == 3


def test_a_rate_limit_changed_or_lifted_takes_effect_at_once(store, url, clock):
    """Spec: D8, A9"""
    store.rate_limits.set("type:plain", Rate(0.001, 1))
    store.tasks.submit_many([NewTask("plain")] * 9)
    with open_store(url, clock) as other:
        assert (len(start(other, 9)), len(start(other, 9))) == (1, 0)
        store.rate_limits.set("type:plain", None)
        assert len(start(other, 9)) == 8
    assert RateLimit("type:plain", None, "person") in store.rate_limits.all()


def test_a_rate_limit_that_is_not_there_cannot_be_lifted_and_its_name_says_what_it_limits(store):
    """Spec: D8"""
    with pytest.raises(NotFound):
        store.rate_limits.set("type:plain", None)
    for name in ("plain", "type:", "lain:x", ""):
        with pytest.raises(Invalid):
            store.rate_limits.set(name, Rate())


@pytest.mark.parametrize("limit", ["lane", "resource", "rate"])
def test_a_limit_is_not_exceeded_by_many_that_claim_at_once(store, url, clock, limit):
    """Spec: A9, D8"""
    store.types.put(TaskType("copy", uses=("disk-writer",)))
    {
        "lane": lambda: store.lanes.set_capacity("default", 3),
        "resource": lambda: store.resources.set("disk-writer", 3),
        "rate": lambda: store.rate_limits.set("type:copy", Rate(0.001, 3)),
    }[limit]()
    if limit != "resource":
        store.resources.set("disk-writer", 1000)
    store.tasks.submit_many([NewTask("copy")] * 30)
    with open_store(url, clock) as other:

        def everything(at):
            worker_id, got = worker(at), 0
            while (claimed := at.claims.take(ClaimRequest(worker_id, 2))).executions or claimed.busy:
                got += len(claimed.executions)
            return got

        got = sum(together(*[lambda s=s: everything(s) for s in (store, other) * 2]))
    clock.advance(1)
    assert got + len(start(store, 9)) == 3


def test_a_holder_that_commits_late_still_fills_its_resource(postgres, clock):
    """Spec: A11. On PostgreSQL a claim of one resource may commit after a later claim of another."""
    with open_store(postgres, clock) as store, psycopg.connect(postgres) as slow:
        for name in ("a", "b"):
            store.types.put(TaskType(name, uses=(f"only-{name}",)))
        late, again, _ = submit(store, "a"), submit(store, "a"), submit(store, "b")
        slow.execute("SELECT 1 FROM headgate_resource WHERE name = 'only-a' FOR NO KEY UPDATE")
        slow.execute(
            "UPDATE headgate_task SET status = 'running', exec_id = gen_random_uuid(), uses = 'only-a', attempt = 1, "
            f"claim_no = nextval('headgate_claim_no'), seq = seq + 1 WHERE id = {late.id}"
        )
        assert [len(start(store, types=frozenset({"b"}))) for _ in range(2)] == [1, 0]
        slow.commit()
        assert start(store, types=frozenset({"a"})) == []
        assert store.tasks.get(again.id).status is State.QUEUED
