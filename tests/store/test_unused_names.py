"""Lanes and resources that a submit or a hold made are removed once nothing uses them; what anybody set stays."""

import pytest

from headgate.core.limits import LimitSource, Rate, declared_in_settings
from headgate.core.machine import Returned
from headgate.core.states import FINAL
from headgate.core.task import NewTask, TaskType
from headgate.store.catalog.catalog import RECENT_SECONDS
from headgate.store.catalog.unused_names import UnusedName
from headgate.store.store import open_store
from tests.factories import running, settle, start, submit


def names(store):
    return {each.name for each in (*store.lanes.all(), *store.resources.all())}


def swept(store):
    """What is left of lanes and resources."""
    store.unused_names.remove(store.unused_names.find())
    return names(store)


def forget(store):
    """As after a year: no task is left, and no stream."""
    store.history.archive()
    store.history.purge(FINAL, seconds=0.0)
    store.streams.remove(store.streams.unused()[1])


def test_a_lane_that_a_submit_made_is_removed_after_its_last_stream(store):
    """Spec: X4, X12"""
    before = names(store)
    task = submit(store, lane="customer 5")
    assert swept(store) == before | {"customer 5"}
    store.tasks.cancel(task.id)
    assert swept(store) == before | {"customer 5"}
    forget(store)
    assert store.unused_names.find() == {UnusedName("lane", "customer 5")}
    assert swept(store) == before


def test_a_resource_that_a_hold_made_is_removed_once_nobody_holds_it_or_waits_for_it(store):
    """Spec: X4, X12"""
    before = names(store)
    first, second = running(store), running(store)
    for execution in (first, second):
        store.holds.take(execution.id, execution.exec_id, "customer-5")
    assert swept(store) == before | {"customer-5"}
    store.holds.release(first.id, first.exec_id, ["customer-5"])
    assert swept(store) == before | {"customer-5"}
    settle(store, second, Returned())
    store.holds.sweep()
    assert swept(store) == before
    assert store.holds.take(first.id, first.exec_id, "customer-5").held


SET = {
    "a capacity": lambda store: store.lanes.set_capacity("x", 1),
    "a capacity that was reset": lambda store: (store.lanes.set_capacity("x", 1), store.lanes.reset("x")),
    "no limit, set by a person": lambda store: store.lanes.set_capacity("x", None),
    "settings": lambda store: store.limits.declare(declared_in_settings("x=none", "", ""), LimitSource.SETTINGS),
    "a pause": lambda store: store.lanes.pause("x"),
    "a rate limit": lambda store: store.rate_limits.set("lane:x", Rate(1, 1)),
    "a type": lambda store: store.types.put(TaskType("resize", lane="x")),
    "the resource of a type": lambda store: store.types.put(TaskType("resize", uses=("x",))),
    "the capacity of a resource": lambda store: store.resources.set("x", 1),
    "a resource in settings": lambda store: store.limits.declare(
        declared_in_settings("", "x=1", ""), LimitSource.SETTINGS
    ),
}


@pytest.mark.parametrize("how", SET)
def test_what_anybody_set_or_declared_stays(store, how):
    """Spec: X10"""
    store.tasks.cancel(submit(store, lane="x").id)
    SET[how](store)
    forget(store)
    assert "x" in swept(store)


def test_a_resource_that_runs_under_an_earlier_edit_of_its_type_stays(store):
    store.types.put(TaskType("printed", uses=("printer",)))
    running(store, "printed")
    store.types.put(TaskType("printed"))
    assert "printer" in swept(store)


def test_a_name_that_is_used_again_before_it_is_removed_stays(store):
    """Spec: X4"""
    store.tasks.cancel(submit(store, lane="x").id)
    forget(store)
    found = store.unused_names.find()
    store.catalog.reload()
    submit(store, lane="x")
    assert store.unused_names.remove(found) == 0
    assert "x" in names(store)


def test_a_submit_makes_a_removed_lane_again_in_every_process(store, url, clock):
    """Spec: B1"""
    with open_store(url, clock) as other:
        store.tasks.cancel(submit(store, lane="x").id)
        other.catalog.reload()
        forget(store)
        assert "x" not in swept(store)
        clock.advance(RECENT_SECONDS)
        task = other.tasks.submit(NewTask("plain", lane="x"))
    assert "x" in names(store)
    assert [execution.id for execution in start(store)] == [task.id]
