"""Streams that nothing refers to are removed; a task that comes into one all the same starts, and is found."""

import pytest

from headgate.core.machine import Returned
from headgate.core.states import FINAL, State
from headgate.core.task import Execution, NewTask
from headgate.store.catalog.catalog import GONE_SECONDS, RECENT_SECONDS
from headgate.store.reading.lists import Filter
from headgate.store.store import open_store
from tests.factories import put, settle, sql, start, submit
from tests.store.races import Stage, only


def streams(url):
    return {row[0] for row in sql(url, "SELECT id FROM headgate_stream")}


def unused(store):
    return set(store.streams.unused()[1])


def forget_history(store):
    store.history.archive()
    store.history.purge(FINAL, seconds=0.0)


def emptied(store, **fields):
    """A stream whose last task has left history."""
    before = unused(store)
    submit(store, **fields)
    [execution] = start(store)
    settle(store, execution, Returned())
    forget_history(store)
    [stream_id] = unused(store) - before
    return stream_id


@pytest.mark.parametrize("state", State)
def test_a_stream_is_used_while_a_task_refers_to_it_wherever_that_is(store, url, state):
    put(store, state)
    assert unused(store) == set()
    store.history.archive()
    assert unused(store) == set()
    before = streams(url)
    assert store.streams.remove(before) == 0
    assert streams(url) == before


def test_a_stream_whose_last_task_has_left_history_is_removed_with_its_bucket(store, url):
    """Spec: D8"""
    stream_id = emptied(store, rate_key="fresh", tenant_id=7)
    assert sql(url, "SELECT count(*) FROM headgate_rate_limit WHERE tenant_id = 7") == [(1,)]
    assert store.streams.remove([stream_id]) == 1
    assert stream_id not in streams(url)
    assert sql(url, "SELECT count(*) FROM headgate_rate_limit WHERE tenant_id = 7") == [(0,)]


def test_a_bucket_stays_while_another_stream_has_its_key(store, url):
    """Spec: D8"""
    submit(store, "manual", rate_key="fresh", priority=9)
    stream_id = emptied(store, rate_key="fresh")
    store.streams.remove([stream_id])
    assert sql(url, "SELECT count(*) FROM headgate_rate_limit WHERE tenant_id = 0") == [(1,)]


def test_every_process_reads_the_streams_again_and_makes_a_removed_one_anew(store, url, clock):
    stream_id = emptied(store, lane="x")
    with open_store(url, clock) as other:
        other.catalog.reload()
        store.streams.remove([stream_id])
        for each in (store, other):
            each.catalog.reload()
            assert stream_id not in each.catalog.ids.values()
        task = other.tasks.submit(NewTask("plain", lane="x"))
        assert stream_id not in streams(url)
        assert [execution.id for execution in start(store)] == [task.id]


def test_what_a_process_knew_of_a_removed_stream_is_dropped_after_its_time_and_not_with_the_next_removal(store, clock):
    """Spec: B1"""
    removed = []
    for lane in ("x", "y", "z"):
        clock.advance(GONE_SECONDS / 2)
        removed.append(emptied(store, lane=lane))
        store.streams.remove(removed[-1:])
        store.catalog.reload()
        assert not set(removed) & set(store.catalog.ids.values())
        assert set(removed[-2:]) <= store.catalog.streams.keys()
    assert removed[0] not in store.catalog.streams


def test_a_task_that_came_into_a_removed_stream_starts_at_whoever_knew_it_whatever_was_removed_since(store, url, clock):
    """Spec: B1"""
    first, second = emptied(store, lane="x"), emptied(store, lane="y")
    with open_store(url, clock) as late:
        late.catalog.reload()
        store.streams.remove([first])
        store.catalog.reload()
        clock.advance(RECENT_SECONDS / 2)
        store.streams.remove([second])
        store.catalog.reload()
        task = late.tasks.submit(NewTask("plain", lane="x"))
    assert sql(url, f"SELECT stream_id FROM headgate_task WHERE id = {task.id}") == [(first,)]
    assert [execution.id for execution in start(store)] == [task.id]


@pytest.mark.parametrize("fields", [{}, {"delay_seconds": 60}, {"mutex": "m"}], ids=str)
def test_a_task_submitted_by_what_a_process_knew_before_the_removal_starts_and_is_found(store, url, clock, fields):
    """Spec: B1"""
    stream_id = emptied(store, lane="x")
    with open_store(url, clock) as late:
        late.catalog.reload()
        store.streams.remove([stream_id])
        task = late.tasks.submit(NewTask("plain", lane="x", **fields))
    assert sql(url, f"SELECT stream_id FROM headgate_task WHERE id = {task.id}") == [(stream_id,)]
    with open_store(url, clock) as fresh:  # which has never heard of that stream
        assert start(fresh) == []
        assert fresh.streams.repair() == {}
        assert [found.id for found in fresh.tasks.find(Filter(lane="x")).items] == [task.id]
        clock.advance(60)
        fresh.due.bring()
        assert [execution.id for execution in start(fresh)] == [task.id]


@pytest.mark.parametrize("state", State)
def test_a_task_in_a_removed_stream_is_moved_to_another_whatever_its_state(store, url, clock, state):
    task = put(store, state)
    before = streams(url)
    sql(url, "DELETE FROM headgate_stream")
    seen = store.tasks.get(task.id)
    with open_store(url, clock) as fresh:
        fresh.streams.repair()
        assert task.id in [found.id for found in fresh.tasks.find(Filter(type=seen.type)).items]
        assert fresh.tasks.get(task.id) == seen
    assert not streams(url) & before


def test_a_start_is_confirmed_once_the_task_has_a_stream_again(store, url, clock):
    """Spec: E1"""
    task = submit(store)
    [handed] = start(store, confirm=True)
    sql(url, "DELETE FROM headgate_stream")
    with open_store(url, clock) as fresh:
        fresh.streams.repair()
        assert isinstance(fresh.executions.start(task.id, handed.exec_id), Execution)


def test_streams_are_looked_at_a_page_at_a_time(store, url):
    """Spec: X4"""
    for number in range(5):
        submit(store, lane=f"l{number}")
    ids, found = store.streams.unused(limit=3)
    assert (len(ids), len(found)) == (3, 0)
    assert len(store.streams.unused(after=max(ids), limit=3)[0]) == 2
    sql(url, "DELETE FROM headgate_stream")
    places = store.streams.repair(limit=3)
    assert list(places) == [State.QUEUED]
    while places:  # what was moved comes behind
        places = store.streams.repair(places, limit=3)
    assert len(start(store, 9)) == 5


def test_a_submit_that_is_under_way_when_its_stream_is_removed_is_not_lost(postgres, clock):
    """Its row is not seen by whoever removes the stream, and is there a moment later."""
    with Stage(postgres, clock) as stage:
        store, remover = stage.store(), stage.store()
        stream_id = emptied(store, lane="x")
        rival = stage.rival()
        rival.run("LOCK TABLE headgate_task_event IN ACCESS EXCLUSIVE MODE")
        submitting = stage.beside(store.tasks.submit, NewTask("plain", lane="x"))
        stage.await_waiters(submitting)
        assert remover.streams.remove([stream_id]) == 1
        rival.commit()
        task = only(submitting)
        fresh = stage.store()
        fresh.streams.repair()
        assert [execution.id for execution in start(fresh)] == [task.id]
