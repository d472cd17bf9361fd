"""The duty that removes streams: only what it has seen unused for a while."""

from headgate.core.machine import Returned
from headgate.core.states import FINAL
from headgate.duties import RemoveUnusedStreams
from headgate.settings import Settings
from headgate.store.claim.contract import Outcome
from headgate.threads import inline
from tests.duties.turns import turn
from tests.factories import running, sql, submit


def count(url):
    return sql(url, "SELECT count(*) FROM headgate_stream")[0][0]


def duty_of(store):
    duty, times = RemoveUnusedStreams(store, Settings(), inline), [0.0]
    duty.monotonic = lambda: times[0]

    def pass_time(seconds):
        times[0] += seconds

    return duty, pass_time


def finish(store, task):
    store.tasks.cancel(task.id)
    store.history.archive()
    store.history.purge(FINAL, seconds=0.0)


def test_a_stream_is_removed_once_it_was_unused_for_an_hour(store, url):
    """Spec: X4"""
    duty, pass_time = duty_of(store)
    finish(store, submit(store, lane="x"))
    for seconds, left in ((0.0, 1), (3599.0, 1), (1.0, 0)):
        pass_time(seconds)
        assert turn(duty) == 0
        assert count(url) == left


def test_a_stream_that_is_used_again_meanwhile_has_its_hour_again(store, url):
    """Spec: X4"""
    duty, pass_time = duty_of(store)
    finish(store, submit(store, lane="x"))
    turn(duty)
    task = submit(store, lane="x")
    pass_time(3600.0)
    turn(duty)
    finish(store, task)
    turn(duty)
    pass_time(3599.0)
    turn(duty)
    assert count(url) == 1
    pass_time(1.0)
    turn(duty)
    assert count(url) == 0


def test_streams_are_removed_a_page_a_turn(store, url):
    """Spec: X4"""
    duty, pass_time = duty_of(store)
    duty.page = 2
    tasks = [submit(store, lane=f"l{number}") for number in range(5)]
    for task in tasks:
        finish(store, task)
    while turn(duty):
        pass
    pass_time(3600.0)
    counts = []
    while turn(duty):
        counts.append(count(url))
    assert (counts, count(url)) == ([3, 1], 0)


def test_a_lane_and_a_resource_that_nobody_set_are_removed_after_an_hour(store):
    """Spec: X4, X12"""
    duty, pass_time = duty_of(store)
    before = names_of(store)
    execution = running(store, lane="x")
    store.holds.take(execution.id, execution.exec_id, "customer-5")
    store.executions.settle([Outcome(execution, Returned())])
    store.holds.sweep()
    store.history.archive()
    store.history.purge(FINAL, seconds=0.0)
    turn(duty)
    pass_time(3599.0)
    turn(duty)
    assert names_of(store) == before | {"x", "customer-5"}
    pass_time(1.0)
    turn(duty)
    assert names_of(store) == before | {"x"}  # it had a stream until now
    pass_time(3600.0)
    turn(duty)
    assert names_of(store) == before


def names_of(store):
    return {each.name for each in (*store.lanes.all(), *store.resources.all())}
