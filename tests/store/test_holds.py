"""Running handlers hold a resource for a part of their run: counted with claims, in turn, and while they run."""

import pytest

from headgate.core.errors import Deadlock, Invalid, Refused, StaleExecution
from headgate.core.machine import GivenBack, Raised, Returned
from headgate.core.task import TaskType
from headgate.store.store import Store
from headgate.store.wakeup.message import News, decode, encode
from tests.factories import running, settle, start, submit

DISC = "disc"


@pytest.fixture
def store(store: Store) -> Store:
    """`disc` has room for one; the type `writer` uses it, and `plain` does not."""
    store.types.put(TaskType("writer", uses=(DISC,)))
    return store


def take(store, execution, *, insist=False):
    """Whether an execution that asks for the disc holds it."""
    return store.holds.take(execution.id, execution.exec_id, DISC, insist=insist).held


def release(store, execution):
    store.holds.release(execution.id, execution.exec_id, [DISC])


def line(store):
    return [hold for use in store.holds.uses().values() for hold in use.line]


def holders(store):
    return [hold.task_id for hold in line(store) if hold.held]


def started(store, task):
    return [execution.id for execution in start(store, limit=9)] == [task.id]


def test_a_resource_is_held_by_as_many_as_its_capacity_and_then_in_the_order_of_asking(store):
    """Spec: C3"""
    store.resources.set(DISC, 2)
    first, second, third, fourth = (running(store) for _ in range(4))
    assert [take(store, each) for each in (first, second, fourth, third)] == [True, True, False, False]
    release(store, first)
    assert [take(store, each) for each in (third, fourth)] == [False, True]
    release(store, second)
    assert take(store, third)
    assert holders(store) == [fourth.id, third.id]


def test_whoever_asks_again_keeps_its_place_and_its_hold(store):
    first, second = running(store), running(store)
    assert [take(store, first), take(store, second), take(store, first), take(store, second)] == [1, 0, 1, 0]
    assert len(line(store)) == 2


def test_whoever_leaves_the_line_is_waited_for_by_nobody(store):
    first, second, third = running(store), running(store), running(store)
    assert [take(store, each) for each in (first, second, third)] == [True, False, False]
    release(store, second)
    release(store, first)
    assert take(store, third)


def test_a_claim_leaves_out_what_a_handler_holds_until_it_lets_go(store):
    """Spec: C3"""
    holder = running(store)
    assert take(store, holder)
    writer = submit(store, "writer")
    assert start(store) == []
    release(store, holder)
    assert started(store, writer)


def test_a_handler_waits_while_a_task_whose_type_uses_the_resource_runs(store):
    """Spec: C3"""
    writer, waiter = running(store, "writer"), running(store)
    assert not take(store, waiter)
    settle(store, writer, Returned())
    assert take(store, waiter)


def test_a_task_that_was_submitted_after_a_handler_asked_leaves_the_room_to_it(store):
    """Spec: C3"""
    holder, waiter = running(store), running(store)
    assert take(store, holder)
    assert not take(store, waiter)
    writer = submit(store, "writer")
    release(store, holder)
    assert start(store) == []
    assert take(store, waiter)
    release(store, waiter)
    assert started(store, writer)


def test_a_handler_lets_an_older_task_go_first_unless_it_does_not_start(store):
    """Spec: C3"""
    holder, waiter = running(store), running(store)
    assert take(store, holder)
    writer = submit(store, "writer")
    assert not take(store, waiter)
    release(store, holder)
    turn = store.holds.take(waiter.id, waiter.exec_id, DISC)
    assert (turn.held, turn.yields) == (False, True)
    [execution] = start(store)
    assert execution.id == writer.id
    assert not take(store, waiter, insist=True)
    settle(store, execution, Returned())
    assert take(store, waiter)


def test_a_handler_that_let_an_older_task_go_first_takes_what_that_left(store):
    submit(store, "writer")
    waiter = running(store)
    assert [take(store, waiter), take(store, waiter, insist=True)] == [False, True]


def test_a_paused_task_is_not_let_go_first(store):
    submit(store, "writer", lane="slow")
    store.lanes.pause("slow")
    assert take(store, running(store))


@pytest.mark.parametrize("event", [Returned(), Raised("no"), GivenBack()])
def test_a_hold_ends_with_its_execution_whatever_that_ended_by(store, event):
    """Spec: C3, B3"""
    holder, waiter = running(store), running(store)
    assert take(store, holder)
    settle(store, holder, event)
    assert holders(store) == []
    assert take(store, waiter)


def test_a_hold_is_not_the_next_execution_s(store):
    """Spec: B3"""
    holder, other = running(store), running(store)
    assert take(store, holder)
    store.executions.give_back(holder.id, holder.exec_id)
    [again] = start(store)
    assert again.id == holder.id
    assert take(store, other)
    assert not take(store, again)


def test_a_stale_execution_takes_nothing_and_lets_go_of_nothing(store):
    """Spec: B3"""
    old = running(store)
    store.executions.give_back(old.id, old.exec_id)
    [new] = start(store)
    with pytest.raises(StaleExecution):
        take(store, old)
    assert take(store, new)
    release(store, old)
    assert holders(store) == [new.id]


def test_what_ended_executions_left_is_swept_and_nothing_else(store):
    dead, alive, waiting = running(store), running(store), running(store)
    store.resources.set(DISC, 2)
    assert [take(store, each) for each in (dead, alive, waiting)] == [True, True, False]
    settle(store, dead, Returned())
    assert (store.holds.sweep(), store.holds.sweep()) == (1, 0)
    assert [hold.task_id for hold in line(store)] == [alive.id, waiting.id]


def test_a_resource_that_nobody_declared_has_room_for_one_as_one_that_a_type_uses(store):
    holder, waiter = running(store), running(store)
    assert store.holds.take(holder.id, holder.exec_id, "new").held
    assert not store.holds.take(waiter.id, waiter.exec_id, "new").held
    assert ("new", 1) in [(resource.name, resource.capacity) for resource in store.resources.all()]


def test_what_its_type_uses_is_held_already_and_not_counted_twice(store):
    writer, waiter = running(store, "writer"), running(store)
    turn = store.holds.take(writer.id, writer.exec_id, DISC)
    assert (turn.held, turn.number) == (True, None)
    release(store, writer)
    assert not take(store, waiter)


def test_a_capacity_that_shrinks_takes_nothing_away_and_lets_nobody_in(store):
    store.resources.set(DISC, 2)
    first, second, third = running(store), running(store), running(store)
    assert [take(store, each) for each in (first, second, third)] == [True, True, False]
    store.resources.set(DISC, 1)
    assert holders(store) == [first.id, second.id]
    release(store, first)
    assert not take(store, third)
    release(store, second)
    assert take(store, third)


def test_a_capacity_of_none_at_all_lets_nobody_in(store):
    store.resources.set(DISC, 0)
    assert not take(store, running(store))


def test_a_resource_that_is_held_or_waited_for_is_not_removed(store):
    """Spec: X10"""
    holder = running(store)
    assert store.holds.take(holder.id, holder.exec_id, "new").held
    with pytest.raises(Refused, match=f"held or waited for by task {holder.id}"):
        store.resources.remove("new")
    store.holds.release(holder.id, holder.exec_id, ["new"])
    store.resources.remove("new")


@pytest.mark.parametrize("name", ["", "lane:x", "x" * 300])
def test_a_name_that_is_no_resource_s_is_refused(store, name):
    holder = running(store)
    with pytest.raises(Invalid):
        store.holds.take(holder.id, holder.exec_id, name)
    assert line(store) == []


def take_of(store, execution, resource, *keeps):
    return store.holds.take(execution.id, execution.exec_id, resource, keeps=keeps).held


def test_who_would_close_a_circle_is_told_so_and_the_other_goes_on(store):
    """Spec: C3"""
    first, second = running(store), running(store)
    assert [take_of(store, first, "a"), take_of(store, second, "b"), take_of(store, first, "b", "a")] == [1, 1, 0]
    with pytest.raises(Deadlock, match=f"^task {second.id} would wait for resource a .* task {first.id}: it keeps b"):
        take_of(store, second, "a", "b")
    assert [(hold.task_id, hold.resource) for hold in line(store) if not hold.held] == [(first.id, "b")]
    store.holds.release(second.id, second.exec_id, ["b"])
    assert take_of(store, first, "b")


@pytest.mark.parametrize("given_up", ["it keeps nothing", "it has ended"])
def test_a_wait_that_holds_up_nobody_for_ever_closes_no_circle(store, given_up):
    first, second = running(store), running(store)
    assert [take_of(store, first, "a"), take_of(store, second, "b")] == [True, True]
    assert not take_of(store, first, "b", *(["a"] if given_up == "it has ended" else []))
    if given_up == "it has ended":
        settle(store, first, Raised("no"))
    assert take_of(store, second, "a", "b") is (given_up == "it has ended")


def gates(store, task, **who):
    return {gate.name: gate for gate in store.tasks.why(task.id, **who)}


def test_why_says_what_a_running_task_holds_and_waits_to_hold_and_who_holds_it(store):
    """Spec: X3, C3"""
    holder, first, second = running(store), running(store), running(store)
    for each in (holder, first, second):
        take(store, each)
    assert (gates(store, holder)["hold"].open, gates(store, holder)["hold"].reason) == (True, "holds resource disc")
    gate = gates(store, first)["hold"]
    assert (gate.open, gate.holders) == (False, (holder.id,))
    assert gate.reason == f"waits for resource disc, held by task {holder.id}"
    assert gates(store, second)["hold"].reason == f"{gate.reason}, 1 ahead of it"


def test_why_says_that_a_queued_task_s_resource_is_held_by_a_handler(store):
    """Spec: X3, C3"""
    holder = running(store)
    assert take(store, holder)
    gate = gates(store, submit(store, "writer"))["resource"]
    assert (gate.open, gate.code, gate.holders) == (False, "full", (holder.id,))


def test_why_says_that_handlers_asked_before_a_queued_task_came(store):
    """Spec: X3, C3"""
    holder, waiter = running(store), running(store)
    assert [take(store, holder), take(store, waiter)] == [True, False]
    writer = submit(store, "writer")
    release(store, holder)
    gate = gates(store, writer)["resource"]
    assert (gate.open, gate.code) == (False, "asked-first")
    assert gate.reason == "disc: 0 of 1 running, 1 running task asked for it first"


def test_holders_of_other_tenants_are_counted_and_not_named(store):
    """Spec: B11"""
    holder, waiter = running(store, tenant_id=1), running(store, tenant_id=2)
    assert [take(store, holder), take(store, waiter)] == [True, False]
    gate = gates(store, waiter, tenant_id=2)["hold"]
    assert (gate.holders, gate.params["task_id"], gate.params["others"]) == ((), None, 1)
    assert gate.reason == "waits for resource disc (1 of 1 in use)"


def test_a_forecast_waits_for_the_handler_that_holds_the_resource(store, clock):
    """Spec: X3"""
    for kind in ("plain", "writer"):
        execution = running(store, kind)
        clock.advance(10)
        settle(store, execution, Returned())
    store.statistics.take_sample()
    holder = running(store)
    assert take(store, holder)
    clock.advance(4)
    told = store.forecasts.why(submit(store, "writer").id).forecast
    assert told.seconds == pytest.approx(6.0)


def test_whoever_waits_hears_of_room_in_its_resource_and_of_no_other_s(store):
    """Spec: C3"""
    heard: list[set[str] | None] = []
    holder, swept, writer = running(store), running(store), running(store, "writer")
    store.wakeups.on_resources(heard.append)
    assert store.holds.take(holder.id, holder.exec_id, "other").held
    assert not take(store, swept)
    settle(store, writer, Returned())
    store.resources.set(DISC, 2)
    settle(store, swept, Returned())
    assert heard == [{DISC}, {DISC}]
    store.holds.sweep()
    store.holds.release(holder.id, holder.exec_id, ["other"])
    assert heard[2:] == [{DISC}, {"other"}]


def test_other_processes_are_told_in_which_resources_there_is_room():
    news = News(room={"resource disc": 1, "resource full": 0, "lane narrow": 1}, callbacks_due=True)
    told = decode(encode(news, "me"))[1]
    assert (told.resources, told.has_room, told.callbacks_due) == ({DISC}, True, True)
    assert decode(encode(News(room={"lane narrow": 1}), "me"))[1].resources == set()
