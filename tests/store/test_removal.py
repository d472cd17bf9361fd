"""Lanes, resources and rate limits are removed: refused while something needs them, and made again when it does."""

import pytest

from headgate.core.errors import Invalid, NotFound, Refused
from headgate.core.limits import Rate
from headgate.core.machine import Returned
from headgate.core.pause import PauseScope
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.events.acts import ActFilter
from headgate.store.reading.lists import Filter
from headgate.store.store import open_store
from tests.factories import put, settle, start, submit

OPEN = [state for state in State if state not in ("succeeded", "failed", "cancelled", "partial", "resolved")]


def names(nouns):
    return [each.name for each in nouns.all()]


@pytest.mark.parametrize("state", OPEN)
def test_a_lane_with_open_tasks_is_not_removed(store, state):
    """Spec: A9"""
    put(store, state)
    lane = store.tasks.find(Filter(status=(state,))).items[0].lane
    before = store.lanes.all(), store.events.last()
    with pytest.raises(Refused, match=f"lane {lane} has . open task"):
        store.lanes.remove(lane)
    assert (store.lanes.all(), store.events.last()) == before


def test_a_lane_that_is_refused_says_how_many_open_tasks_it_has(store):
    """Spec: A9"""
    submit(store, lane="mail")
    with pytest.raises(Refused, match="lane mail has 1 open task: wait for it to end, or cancel it"):
        store.lanes.remove("mail")
    submit(store, lane="mail")
    with pytest.raises(Refused, match="lane mail has 2 open tasks: wait for them to end, or cancel them"):
        store.lanes.remove("mail")


def test_a_removed_lane_is_listed_no_more_and_what_ended_in_it_is(store):
    """Spec: A9, C4"""
    task = submit(store, lane="mail")
    store.lanes.set_capacity("mail", 3)
    store.lanes.pause("mail")
    store.lanes.resume("mail")
    [execution] = start(store)
    settle(store, execution, Returned())
    store.statistics.take_sample()
    store.lanes.remove("mail", actor="ann")
    assert "mail" not in names(store.lanes)
    assert "mail" not in [lane.name for lane in store.lane_reports.all()]
    store.history.archive()
    assert [found.id for found in store.tasks.find(Filter(lane="mail")).items] == [task.id]
    [act] = store.acts.find(ActFilter(kind="lane_removed")).items
    assert (act.object, act.actor, act.changes["capacity"]) == ("lane:mail", "ann", {"old": 3, "new": None})


def test_a_removed_lane_is_made_again_without_capacity_and_pause_by_the_next_submit_of_any_process(store, url, clock):
    """Spec: A9"""
    store.lanes.set_capacity("mail", 0)
    store.lanes.pause("mail")
    submit(store, lane="mail")
    with open_store(url, clock) as other:
        [waiting] = other.tasks.find(Filter(lane="mail")).items
        other.tasks.cancel(waiting.id)
        other.tasks.submit(NewTask("plain", lane="other"))
        store.lanes.remove("mail")
        other.catalog.reload()  # as every process does, once a second
        task = other.tasks.submit(NewTask("plain", lane="mail"))
        assert "mail" in names(store.lanes)
        assert task.id in [execution.id for execution in start(other, 9)]
    assert store.pauses.active() == []


def test_a_task_that_comes_into_a_lane_as_it_is_removed_starts_and_its_lane_is_listed(store, url, clock):
    """Spec: A9, C1"""
    submit(store, lane="mail")
    settle(store, start(store)[0], Returned())
    with open_store(url, clock) as other:
        other.catalog.recent()
        store.lanes.remove("mail")
        task = other.tasks.submit(NewTask("plain", lane="mail"))  # by what it knew a moment ago
    store.statistics.take_sample()
    assert "mail" in [lane.name for lane in store.lane_reports.all()]
    assert [execution.id for execution in start(store)] == [task.id]
    assert "mail" in [lane.name for lane in store.lane_reports.all()]


def test_a_resource_that_a_type_uses_is_not_removed(store):
    """Spec: A11"""
    store.types.put(TaskType("copy", uses=("net",)))
    before = store.resources.all(), store.events.last()
    with pytest.raises(Refused, match="resource net is used by task type copy"):
        store.resources.remove("net")
    assert (store.resources.all(), store.events.last()) == before
    store.types.put(TaskType("copy"))
    store.resources.remove("net", actor="ann")
    assert "net" not in names(store.resources)
    [act] = store.acts.find(ActFilter(kind="resource_removed")).items
    assert (act.object, act.actor, act.changes["capacity"]) == ("resource:net", "ann", {"old": 1, "new": None})


def test_a_type_that_uses_a_removed_resource_later_makes_it_again_with_room_for_one(store):
    """Spec: A11"""
    store.resources.set("net", 5)
    store.resources.remove("net")
    store.types.put(TaskType("copy", uses=("net",)))
    for _ in range(3):
        submit(store, "copy")
    assert len(start(store, 9)) == 1


def test_a_key_whose_limit_is_removed_has_that_of_every_key_again(store, url, clock):
    """Spec: D8"""
    store.rate_limits.set("key:openai", Rate(0.001, 1))
    store.tasks.submit_many([NewTask("plain", tenant_id=n % 2, rate_key="openai") for n in range(60)])
    with open_store(url, clock) as other:
        assert len(start(other, 99)) == 1
        store.rate_limits.remove("key:openai", actor="ann")
        assert len(start(other, 99)) == 40
    assert names(store.rate_limits) == ["key:*"]
    [act] = store.acts.find(ActFilter(kind="rate_limit_removed")).items
    assert (act.object, act.actor) == ("rate_limit:key:openai", "ann")
    assert act.changes["limit"] == {"old": {"rate": 0.001, "burst": 1}, "new": None}


@pytest.mark.parametrize("name", ["lane:default", "type:plain"])
def test_a_lane_or_a_type_whose_rate_limit_is_removed_has_none(store, name):
    """Spec: D8"""
    store.rate_limits.set(name, Rate(0.001, 1))
    store.tasks.submit_many([NewTask("plain")] * 9)
    assert len(start(store, 99)) == 1
    store.rate_limits.remove(name)
    assert len(start(store, 99)) == 8


def test_the_limit_of_every_key_goes_back_to_its_default_when_it_is_removed(store):
    """Spec: D8"""
    store.rate_limits.set("key:*", None)
    store.tasks.submit_many([NewTask("plain", rate_key="fresh")] * 40)
    store.rate_limits.remove("key:*")
    [left] = store.rate_limits.all()
    assert (left.name, left.limit, left.source) == ("key:*", Rate(10, 20), "default")
    assert len(start(store, 99)) == 20


def test_what_is_not_there_cannot_be_removed(store):
    """Spec: A9, D8"""
    store.pauses.set(PauseScope.LANE, "nowhere")
    before = store.events.last()
    for noun, name in ((store.lanes, "nowhere"), (store.resources, "nothing"), (store.rate_limits, "key:nobody")):
        with pytest.raises(NotFound):
            noun.remove(name)
    with pytest.raises(Invalid):
        store.lanes.remove("*")
    assert store.events.last() == before
    assert len(store.pauses.active()) == 1
