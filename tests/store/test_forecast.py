"""A forecast says when a task will likely start and a lane drains, from what was measured, or why nobody can say."""

import json
import random
from datetime import datetime, timedelta
from heapq import heappop, heappush
from statistics import median
from typing import Any

import pytest

from headgate.core.errors import NotFound
from headgate.core.limits import Rate
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from tests.factories import START, put, running, settle, start, submit, worker

MEAN = 10.0
WARM = 40  # tasks after which a lane is known


def forecast(store, task, **who):
    return store.forecasts.why(task.id, **who).forecast


def seconds(store, task):
    return forecast(store, task).seconds


@pytest.fixture
def paced(store, clock):
    """A store in whose lane `default` a plain task took ten seconds, and which one worker of many slots serves."""
    execution = running(store)
    clock.advance(MEAN)
    settle(store, execution, Returned())
    store.statistics.take_sample()
    [tester] = store.workers.all()
    store.workers.leave(tester.id)
    server(store, plain=50)
    return store


def server(store, **slots):
    """A worker with so many slots for each type."""
    pools = [{"types": [kind], "slots": count} for kind, count in slots.items()]
    return store.workers.register("server", types=list(slots), lease_seconds=10**6, detail=json.dumps({"pools": pools}))


def fill(store, worker_id, count):
    """Have the worker run so many plain tasks."""
    store.tasks.submit_many([NewTask("plain")] * count)
    assert len(store.claims.take(ClaimRequest(worker_id, count)).executions) == count


# Numbers


def test_a_task_that_nothing_holds_up_starts_now(paced):
    """Spec: X3"""
    assert seconds(paced, submit(paced)) == 0.0


def test_a_full_lane_is_waited_for_as_long_as_its_tasks_usually_take(paced, clock):
    """Spec: X3"""
    paced.lanes.set_capacity("default", 2)
    running(paced)
    clock.advance(4)
    running(paced)
    waiting = [submit(paced) for _ in range(4)]
    assert [seconds(paced, task) for task in waiting] == pytest.approx([6.0, 10.0, 16.0, 20.0])
    told = forecast(paced, waiting[3])
    assert told.reason == "lane default: 3 ahead, 2 at a time, about 10 s each"
    assert told.at == START + timedelta(seconds=MEAN + 4 + 20)


def test_priority_goes_first_in_the_forecast_too(paced):
    """Spec: X3, A4"""
    paced.lanes.set_capacity("default", 1)
    running(paced)
    first, second, urgent = submit(paced), submit(paced), submit(paced, priority=1)
    assert [seconds(paced, task) for task in (urgent, first, second)] == pytest.approx([10.0, 20.0, 30.0])


def test_a_capacity_that_is_raised_shortens_the_wait_at_once(paced):
    """Spec: X3, A9"""
    paced.lanes.set_capacity("default", 1)
    running(paced)
    task = [submit(paced) for _ in range(8)][-1]
    assert seconds(paced, task) == pytest.approx(80.0)
    paced.lanes.set_capacity("default", 4)
    assert seconds(paced, task) == pytest.approx(20.0)


def test_workers_with_so_many_slots_are_waited_for(paced, clock):
    """Spec: X3"""
    [worker] = paced.workers.all()
    fill(paced, worker.id, 50)
    clock.advance(4)
    told = forecast(paced, submit(paced))
    assert told.seconds == pytest.approx(6.0)
    assert told.reason == "workers: next in line, 50 at a time"


def test_an_agents_start_queue_is_waited_for_start_by_start(paced, clock):
    """Spec: X3, E3"""
    many = json.dumps({"pools": [{"types": ["plain"], "slots": 50}]})
    agent = paced.workers.register("rig", agent_id="rig", lease_seconds=10**6, detail=many)
    tasks = [submit(paced, agent_id="rig") for _ in range(4)]
    assert [seconds(paced, task) for task in tasks] == pytest.approx([0.0, 5.0, 10.0, 15.0])
    paced.agents.hand_over(ClaimRequest(agent, 1, agent_id="rig", start_seconds=8))
    clock.advance(2)
    assert [seconds(paced, task) for task in tasks[1:]] == pytest.approx([6.0, 14.0, 22.0])
    assert forecast(paced, tasks[3]).reason == "start rig of tenant 0: 2 ahead, 0.125 a second"
    assert seconds(paced, submit(paced)) == 0.0


def test_the_slots_of_another_kind_of_handler_are_not_waited_for(paced):
    """Spec: X3"""
    paced.workers.leave(paced.workers.all()[0].id)
    fill(paced, server(paced, plain=1, manual=1), 1)
    assert seconds(paced, submit(paced)) == pytest.approx(10.0)
    assert seconds(paced, submit(paced, "manual")) == 0.0


def test_a_resource_is_waited_for(paced):
    """Spec: X3, A11"""
    paced.types.put(TaskType("plain", uses=("disk-writer",)))
    running(paced)
    first, second = submit(paced), submit(paced)
    assert (seconds(paced, first), seconds(paced, second)) == pytest.approx((10.0, 20.0))
    assert forecast(paced, second).reason == "resource disk-writer: 1 ahead, 1 at a time, about 10 s each"


@pytest.mark.parametrize("name", ["lane:default", "type:plain", "key:k"])
def test_the_next_tokens_are_waited_for(paced, clock, name):
    """Spec: X3, D8"""
    clock.advance(100)
    paced.rate_limits.set(name, Rate(0.25, 2))
    tasks = [submit(paced, rate_key="k") for _ in range(6)]
    assert len(start(paced, 9)) == 2
    assert [seconds(paced, task) for task in tasks[2:]] == pytest.approx([4.0, 8.0, 12.0, 16.0])
    assert forecast(paced, tasks[5]).reason == f"rate {name}: 3 ahead, 0.25 a second"


def test_the_line_of_a_mutex_is_waited_for(paced, clock):
    """Spec: X3, A10"""
    running(paced, mutex="m")
    clock.advance(3)
    first, second, other = submit(paced, mutex="m"), submit(paced, mutex="m"), submit(paced, mutex="n")
    assert [seconds(paced, task) for task in (first, second, other)] == pytest.approx([7.0, 17.0, 0.0])
    assert forecast(paced, second).reason == "mutex m: 1 ahead, 1 at a time, about 10 s each"


def test_a_start_time_is_waited_for(paced):
    """Spec: X3"""
    assert seconds(paced, submit(paced, delay_seconds=90)) == pytest.approx(90.0)


def test_a_task_that_runs_again_later_waits_for_its_time(paced):
    """Spec: X3"""
    execution = running(paced)
    settle(paced, execution, Raised("again", 40.0))
    told = paced.forecasts.why(execution.id)
    assert told.forecast.seconds == pytest.approx(40.0)


def test_another_tenants_many_do_not_hold_up_one(paced):
    """Spec: X3, B11, A4"""
    paced.lanes.set_capacity("default", 1)
    running(paced)
    paced.tasks.submit_many([NewTask("plain", tenant_id=1, priority=-9)] * 500)
    task = submit(paced, tenant_id=2)
    assert seconds(paced, task) == pytest.approx(20.0)  # one of theirs, then ours
    with pytest.raises(NotFound):
        paced.forecasts.why(task.id, tenant_id=1)


def test_those_that_nobody_serves_hold_up_nobody(paced):
    """Spec: X3"""
    paced.lanes.set_capacity("default", 1)
    fill(paced, paced.workers.all()[0].id, 1)
    for _ in range(20):
        submit(paced, "manual")
    assert seconds(paced, submit(paced)) == pytest.approx(10.0)


def test_a_task_that_is_started_more_than_once_fills_its_place_as_often(paced, clock):
    """Spec: X3"""
    paced.tasks.submit_many([NewTask("plain")] * 100)  # what was measured before is forgotten
    for event in (Raised("no luck", 0.0), Returned()):
        executions = start(paced, 100)
        clock.advance(MEAN)
        paced.executions.settle([Outcome(execution, event) for execution in executions])
        paced.due.bring()
    paced.statistics.take_sample()
    paced.lanes.set_capacity("default", 1)
    running(paced)
    submit(paced)
    assert seconds(paced, submit(paced)) == pytest.approx(30.0)  # what runs ends once, who waits starts twice


# No number


@pytest.mark.parametrize("lane", ["default", None])
def test_what_is_paused_has_no_time(paced, lane):
    """Spec: X3, A9"""
    paced.lanes.set_capacity("default", 1)
    task = submit(paced)
    paced.lanes.pause(lane)
    told = forecast(paced, task)
    assert (told.seconds, told.at) == (None, None)
    assert told.reason == ("everything is paused" if lane is None else "lane default is paused")
    assert paced.forecasts.drains()["default"].reason == told.reason


def test_what_nobody_serves_has_no_time(store):
    """Spec: X3"""
    told = forecast(store, submit(store))
    assert (told.seconds, told.reason) == (None, "no worker or agent for plain is running")
    assert store.forecasts.drains()["default"].reason == told.reason


def test_what_was_never_measured_has_no_time_but_a_free_place_has(store):
    """Spec: X3"""
    worker(store)
    store.lanes.set_capacity("default", 1)
    first = submit(store)
    assert seconds(store, first) == 0.0
    start(store)
    told = forecast(store, submit(store))
    assert told.seconds is None
    assert "no similar task has finished" in told.reason


def test_a_family_that_holds_the_mutex_has_no_time(paced):
    """Spec: X3, A10"""
    parent = running(paced, mutex="m")
    submit(paced, mutex="other", parent_id=parent.id, delay_seconds=1000)
    settle(paced, parent, Returned())
    told = forecast(paced, submit(paced, mutex="m"))
    assert (told.seconds, told.reason) == (None, f"mutex m: held by task {parent.id} until its children have ended")


@pytest.mark.parametrize("state", [s for s in State if s not in (State.PENDING, State.BLOCKED, State.QUEUED,
                                                                 State.PAUSED, State.RETRYING)])  # fmt: skip
def test_what_has_started_has_no_forecast(store, state):
    """Spec: X3"""
    assert forecast(store, put(store, state)) is None


# Lanes


def test_a_lane_drains_when_all_that_runs_and_waits_has_ended(paced, clock):
    """Spec: X3"""
    paced.lanes.set_capacity("default", 2)
    running(paced)
    clock.advance(4)
    running(paced)
    for _ in range(3):
        submit(paced)
    submit(paced, delay_seconds=10**6)  # that comes later
    assert paced.forecasts.drains()["default"].seconds == pytest.approx(26.0)
    assert "other" not in paced.forecasts.drains()


def test_a_lane_in_which_something_only_runs_drains_when_that_has_ended(paced, clock):
    """Spec: X3"""
    running(paced)
    clock.advance(4)
    assert paced.forecasts.drains()["default"].seconds == pytest.approx(6.0)


def test_a_lane_of_one_mutex_drains_one_by_one(paced):
    """Spec: X3, A10"""
    paced.lanes.set_capacity("default", 4)
    running(paced, mutex="m")
    for _ in range(5):
        submit(paced, mutex="m")
    paced.statistics.take_sample()
    assert paced.forecasts.drains()["default"].seconds == pytest.approx(60.0, rel=0.25)


def test_lanes_that_share_their_workers_wait_for_each_other(paced):
    """Spec: X3"""
    paced.tasks.submit_many([NewTask("plain", lane="first")] * 200)
    paced.tasks.submit_many([NewTask("plain", lane="second")] * 50)
    assert len(paced.claims.take(ClaimRequest(paced.workers.all()[0].id, 50)).executions) == 50
    drains = paced.forecasts.drains()
    assert (drains["first"].seconds, drains["second"].seconds) == pytest.approx((40.0, 50.0))


# Measuring


def test_what_finished_is_measured_once_however_many_look(store, clock):
    """Spec: X3, A8"""
    for took in (1.0, 3.0):
        execution = running(store)
        clock.advance(took)
        settle(store, execution, Returned())
    for _ in range(3):
        store.statistics.take_sample()
    store.lanes.set_capacity("default", 1)
    running(store)
    submit(store)
    assert seconds(store, submit(store)) == pytest.approx(4.0)  # 2 each
    settle(store, running_one(store), Returned())
    assert store.history.archive() == 3
    store.statistics.take_sample()


def running_one(store):
    [task] = [task for task in store.tasks.find().items if task.status is State.RUNNING]
    return store.agents.holdings([task.id])[task.id].execution


def test_what_finished_is_measured_in_history_too(store, clock):
    """Spec: X3, B4"""
    execution = running(store)
    clock.advance(5)
    settle(store, execution, Returned())
    store.history.archive()
    store.statistics.take_sample()
    store.lanes.set_capacity("default", 1)
    running(store)
    assert seconds(store, submit(store)) == pytest.approx(5.0)


def test_of_very_many_that_finished_the_newest_hundred_count(store, clock):
    """Spec: X3"""
    for took in (100.0, 1.0):
        store.tasks.submit_many([NewTask("plain")] * 120)
        executions = start(store, 120)
        clock.advance(took)
        store.executions.settle([Outcome(execution, Returned()) for execution in executions])
        store.statistics.take_sample()
    store.lanes.set_capacity("default", 1)
    running(store)
    assert seconds(store, submit(store)) == pytest.approx(1.0)


def test_a_long_line_is_estimated_from_the_sample(paced, monkeypatch):
    """Spec: X3, X4"""
    monkeypatch.setattr("headgate.store.reading.forecasts.MOST_COUNTED", 30)
    paced.lanes.set_capacity("default", 1)
    running(paced)
    paced.tasks.submit_many([NewTask("plain", priority=3)] * 200)
    tasks = [made.id for made in paced.tasks.submit_many([NewTask("plain")] * 1000)]
    paced.statistics.take_sample()
    asked = paced.tasks.get(tasks[500])
    assert seconds(paced, asked) == pytest.approx(10.0 * (1 + 200 + 500), rel=0.01)
    assert paced.forecasts.drains()["default"].seconds == pytest.approx(10.0 * 1201, rel=0.01)


# A steady lane


def live_through(store, clock, dice, capacity, tasks):
    """Run a lane's tasks on the test's clock, each for as long as the dice say; when each started."""
    store.lanes.set_capacity("default", capacity)
    ends: list[Any] = []
    starts: dict[int, datetime] = {}
    asked: dict[int, tuple[datetime, datetime]] = {}
    request = ClaimRequest(store.workers.register("steady", lease_seconds=10**9), capacity)
    ids = [made.id for made in store.tasks.submit_many([NewTask("plain")] * tasks)]
    while len(starts) < tasks:
        for execution in store.claims.take(request).executions:
            starts[execution.id] = clock.now
            heappush(ends, (clock.now.timestamp() + dice.uniform(0.5, 1.5) * MEAN, execution.id, execution))
        if len(starts) % 5 == 0 and len(starts) > WARM:
            store.statistics.take_sample()
            for ahead in (20, 40, 80):
                if len(starts) + ahead < tasks and ids[len(starts) + ahead] not in asked:
                    task_id = ids[len(starts) + ahead]
                    asked[task_id] = (clock.now, store.forecasts.why(task_id).forecast.at)
        end, _, execution = heappop(ends)
        clock.advance(end - clock.now.timestamp())
        store.executions.settle([Outcome(execution, Returned())])
    return starts, asked


@pytest.mark.parametrize("capacity", [1, 3])
def test_on_a_steady_lane_a_forecast_is_within_a_quarter(store, clock, capacity):
    """Spec: X3"""
    starts, asked = live_through(store, clock, random.Random(7), capacity, tasks=200)
    errors = [
        abs((said - when).total_seconds() / (starts[task_id] - when).total_seconds() - 1)
        for task_id, (when, said) in asked.items()
    ]
    assert len(errors) > 20
    assert max(errors) <= 0.25
    assert median(errors) <= 0.1
