"""Lists over live tasks and history, counts and statistics: what people look at agrees with what is."""

import json
from datetime import timedelta
from typing import Any

import pytest

from headgate.core.errors import Invalid
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.reports import Count, Filter
from tests.factories import START, put, running, settle, start, submit

S = State


def pages(store, wanted=None, limit=3):
    found, cursor = [], None
    while True:
        page = store.find(wanted, cursor=cursor, limit=limit)
        found.append([task.id for task in page.items])
        if (cursor := page.next_cursor) is None:
            return found


def some_of_everything(store, clock):
    """Tasks of which the older half is in history, but for one that is still open there."""
    ids = []
    for number in range(10):
        fields: dict[str, Any] = {
            "tenant_id": number % 2,
            "creator": number % 3,
            "category": f"c{number % 3}",
            "lane": f"l{number % 2}",
        }
        new = NewTask("plain", name=f"Name_{number}", correlation_id=f"k{number % 4}", **fields)
        ids.append(store.submit(new).id)
        if number < 5 and number != 2:
            store.cancel(ids[-1])
        clock.advance(1)
    store.archive()
    return ids


@pytest.mark.parametrize("limit", [1, 3, 10, 200])
def test_pages_go_through_live_tasks_and_history_once_newest_first(store, clock, limit):
    """Spec: B4, A1"""
    ids = some_of_everything(store, clock)
    found = pages(store, limit=limit)
    assert [task_id for page in found for task_id in page] == ids[::-1]
    assert all(len(page) == limit for page in found[:-1])


def test_the_last_page_has_no_cursor_even_if_it_is_full(store):
    """Spec: C4"""
    for _ in range(4):
        submit(store)
    assert [len(page) for page in pages(store, limit=2)] == [2, 2]


def test_a_new_task_does_not_shift_the_pages_behind_it(store):
    """Spec: C4"""
    ids = [submit(store).id for _ in range(4)]
    first = store.find(limit=2)
    submit(store)
    second = store.find(cursor=first.next_cursor, limit=2)
    assert [task.id for task in (*first.items, *second.items)] == ids[::-1]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"tenant_id": 1}, [1, 3, 5, 7, 9]),
        ({"status": (S.CANCELLED,)}, [0, 1, 3, 4]),
        ({"status": (S.CANCELLED, S.QUEUED)}, list(range(10))),
        ({"status": ()}, []),
        ({"type": "plain"}, list(range(10))),
        ({"type": "manual"}, []),
        ({"lane": "l1"}, [1, 3, 5, 7, 9]),
        ({"category": "c2"}, [2, 5, 8]),
        ({"creator": 0}, [0, 3, 6, 9]),
        ({"correlation_id": "k3"}, [3, 7]),
        ({"created_after": START + timedelta(seconds=8)}, [8, 9]),
        ({"created_before": START + timedelta(seconds=2)}, [0, 1]),
        ({"q": "nAmE_1"}, [1]),
        ({"q": "%"}, []),
        ({"q": "!"}, []),
        ({"errored": False}, list(range(10))),
        ({"errored": True}, []),
        ({"tenant_id": 1, "creator": 0, "status": (S.CANCELLED,)}, [3]),
    ],
)
def test_a_filter_finds_what_it_names_live_and_in_history(store, clock, wanted, numbers):
    """Spec: A1, C4"""
    ids = some_of_everything(store, clock)
    found = [task_id for page in pages(store, Filter(**wanted)) for task_id in page]
    assert found == [ids[number] for number in numbers][::-1]


def test_filters_by_mutex_agent_parent_and_earlier_errors(store):
    """Spec: A1, A13"""
    parent = submit(store, mutex="m")
    child = submit(store, parent_id=parent.id, agent_id="a1")
    failed = running(store, lane="x", priority=1)
    settle(store, failed, Raised("again", 60.0))

    def found(**wanted):
        return [task.id for task in store.find(Filter(**wanted)).items]

    assert found(mutex="m") == [parent.id]
    assert found(agent_id="a1") == found(parent_id=parent.id) == [child.id]
    assert found(errored=True) == [failed.id]


@pytest.mark.parametrize("limit", [0, -1, 201])
def test_a_page_holds_1_to_200(store, limit):
    """Spec: C4"""
    with pytest.raises(Invalid, match="200"):
        store.find(limit=limit)


@pytest.mark.parametrize("text", ["资料", "É", 'say "hi"', "a\\b"])
def test_words_are_found_in_the_parameters_of_a_task(store, text):
    """Spec: A1"""
    task = submit(store, ext=json.dumps({"title": f"x {text} y"}, ensure_ascii=False))
    submit(store)
    wanted = json.dumps(text, ensure_ascii=False)[1:-1]
    assert [found.id for found in store.find(Filter(q=wanted)).items] == [task.id]


def test_counts_show_what_runs_exactly_and_the_rest_as_last_sampled(store, clock):
    """Spec: C4, C13"""
    submit(store, lane="x"), submit(store, lane="x"), submit(store, lane="x", delay_seconds=60)
    assert store.counts() == []
    store.take_sample()
    sampled_at = clock()
    clock.advance(5)
    start(store)
    store.cancel(submit(store, lane="y").id)
    counts = {(count.lane, count.status): count for count in store.counts()}
    assert counts == {
        ("x", S.QUEUED): Count("x", S.QUEUED, 2, START, sampled_at),
        ("x", S.PENDING): Count("x", S.PENDING, 1, START, sampled_at),
        ("x", S.RUNNING): Count("x", S.RUNNING, 1, None, None),
    }
    store.take_sample()
    assert {(c.lane, c.status, c.count) for c in store.counts()} == {
        ("x", S.QUEUED, 1), ("x", S.PENDING, 1), ("x", S.RUNNING, 1),
    }  # fmt: skip


def test_the_depth_of_a_lane_is_what_is_queued_in_it(store):
    """Spec: C4"""
    submit(store, "manual", lane="x")
    submit(store, lane="x")
    submit(store, lane="x", tenant_id=1)
    submit(store, lane="y")
    submit(store, lane="x", delay_seconds=9)
    start(store)
    assert (store.depth("x"), store.depth("y"), store.depth("z")) == (2, 1, 0)


def test_statistics_tell_run_times_and_the_share_that_succeeded_per_type(store, clock):
    """Spec: A8"""
    for seconds, end in ((1, Returned()), (2, Returned()), (3, Raised("no")), (10, Returned())):
        execution = running(store)
        clock.advance(seconds)
        settle(store, execution, end)
    store.archive()
    put(store, S.SUCCEEDED), submit(store)
    settle(store, running(store, "manual"), Raised("dead is not finished"))
    [plain] = store.statistics()
    assert (plain.type, plain.finished, plain.success_rate) == ("plain", 5, 0.8)
    assert plain.mean == pytest.approx(3.2)
    assert plain.p50 == pytest.approx(2)
    assert plain.p50 <= plain.p95 <= plain.p99 <= 10


def test_statistics_look_back_as_far_as_asked(store, clock):
    """Spec: A8"""
    put(store, S.SUCCEEDED)
    clock.advance(100)
    put(store, S.FAILED)
    assert [(s.finished, s.success_rate) for s in store.statistics(seconds=50)] == [(1, 0.0)]
    assert [(s.finished, s.success_rate) for s in store.statistics()] == [(2, 0.5)]
    clock.advance(10**6)
    assert store.statistics() == []


def test_a_type_of_which_one_task_never_ran_has_no_run_times(store):
    """Spec: A8"""
    put(store, S.CANCELLED)
    [plain] = store.statistics()
    assert (plain.finished, plain.mean, plain.p50, plain.p99) == (1, None, None, None)
