"""Lists over live tasks and history: whatever is asked for, page by page, is what there is."""

import json
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest

import headgate.store.reading.list_plan as ways
import headgate.store.reading.lists as lists
from headgate.core.errors import Invalid
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask, Task
from headgate.store.db.pages import every
from headgate.store.reading.lists import Filter
from headgate.store.store import Store
from tests.factories import START, put, running, settle, start, submit

S = State


def pages(store, wanted=None, limit=3):
    found, cursor = [], None
    while True:
        page = store.tasks.find(wanted, cursor=cursor, limit=limit)
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
        ids.append(store.tasks.submit(new).id)
        if number < 5 and number != 2:
            store.tasks.cancel(ids[-1])
        clock.advance(1)
    store.history.archive()
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
    first = store.tasks.find(limit=2)
    submit(store)
    second = store.tasks.find(cursor=first.next_cursor, limit=2)
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
    """Spec: A1"""
    parent = submit(store, mutex="m")
    child = submit(store, parent_id=parent.id, agent_id="a1")
    failed = running(store, lane="x", priority=1)
    settle(store, failed, Raised("again", 60.0))

    def found(**wanted):
        return [task.id for task in store.tasks.find(Filter(**wanted)).items]

    assert found(mutex="m") == [parent.id]
    assert found(agent_id="a1") == found(parent_id=parent.id) == [child.id]
    assert found(errored=True) == [failed.id]


@pytest.mark.parametrize("limit", [0, -1, 201])
def test_a_page_holds_1_to_200(store, limit):
    """Spec: C4"""
    with pytest.raises(Invalid, match="200"):
        store.tasks.find(limit=limit)


@pytest.mark.parametrize("text", ["资料", "É", 'say "hi"', "a\\b"])
def test_words_are_found_in_the_parameters_of_a_task(store, text):
    """Spec: A1"""
    task = submit(store, ext=json.dumps({"title": f"x {text} y"}, ensure_ascii=False))
    submit(store)
    wanted = json.dumps(text, ensure_ascii=False)[1:-1]
    assert [found.id for found in store.tasks.find(Filter(q=wanted)).items] == [task.id]


# Whatever is asked for, however little a page may read

NUMBERS = list(range(40))


def of_every_kind(store: Store, clock) -> list[Task]:
    """Tasks in every state, live and in history, that have something in common with some others."""
    random = Random(1)
    for state in set(S) - {S.QUEUED}:
        put(store, state)
    parent = submit(store, delay_seconds=10**6)
    for number in NUMBERS:
        about = {
            "tenant_id": random.choice([0, 0, 0, 1, 2]),
            "creator": random.choice([0, 0, 3, 4]),
            "lane": random.choice(["l0", "l1"]),
            "category": random.choice(["", "c1"]),
            "agent_id": random.choice([None, None, "a1"]),
            "mutex": random.choice([None, None, f"m{number % 5}"]),
            "correlation_id": random.choice([None, "k1", "k2"]),
            "name": random.choice([None, "Odd", "even"]),
            "priority": random.choice([1, 5, 5, 9]),
        }
        if about["tenant_id"] == 0 and random.random() < 0.3:
            about["parent_id"] = parent.id
        submit(store, random.choice(["plain", "manual"]), delay_seconds=random.choice([None, None, 60]), **about)
        clock.advance(20)
        if number == 20:
            _let_some_end(store, random)
            store.history.archive()
    _let_some_end(store, random)
    last = submit(store).id
    return [task for task_id in range(1, last + 1) if (task := store.tasks.get_many([task_id]).get(task_id))]


def _let_some_end(store: Store, random: Random) -> None:
    for agent_id in (None, "a1"):
        for execution in start(store, 9, agent_id=agent_id)[:6]:
            settle(store, execution, random.choice([Returned(), Raised("no"), Raised("again", 60.0)]))


def anything(random: Random, tasks: list[Task]) -> Filter:
    """A filter for one to three things that some task has, or that none has."""
    like = random.choice(tasks)
    moment = like.create_date + timedelta(seconds=random.choice([-1, 0, 1, 100]))
    some: dict[str, Any] = {
        "tenant_id": random.choice([like.tenant_id, 9]),
        "status": tuple(random.sample(list(S), random.choice([1, 1, 2, 5]))) + random.choice([(), (like.status,)]),
        "errored": random.random() < 0.5,
        "fresh": (like.status,),
        "failed": (like.status,),
        "type": random.choice([like.type, "none"]),
        "lane": random.choice([like.lane, "none"]),
        "category": random.choice([like.category, "none"]),
        "creator": random.choice([like.creator, 9]),
        "mutex": random.choice([like.mutex, "none"]),
        "parent_id": random.choice([like.parent_id, 9]),
        "agent_id": random.choice([like.agent_id, "none"]),
        "correlation_id": random.choice([like.correlation_id, "none"]),
        "created_after": moment,
        "created_before": moment,
        "q": random.choice(["oDD", "plain", "none"]),
    }
    assert some.keys() == {field.name for field in fields(Filter)}
    names = random.sample(list(some), random.choice([1, 1, 2, 3]))
    return replace(Filter(), **{name: some[name] for name in names})


def fits(task: Task, wanted: Filter) -> bool:
    same = ("tenant_id", "type", "lane", "category", "creator", "mutex", "parent_id", "agent_id", "correlation_id")
    text = f"{task.name or ''} {task.type} {task.ext}".lower()
    return (
        all(getattr(wanted, name) in (None, getattr(task, name)) for name in same)
        and (wanted.status is None or task.status in wanted.status)
        and (wanted.errored is None or wanted.errored == (task.error_count > 0))
        and not (task.status in (wanted.fresh or ()) and task.error_count > 0)
        and not (task.status in (wanted.failed or ()) and task.error_count == 0)
        and (wanted.created_after is None or task.create_date >= wanted.created_after)
        and (wanted.created_before is None or task.create_date < wanted.created_before)
        and (wanted.q is None or wanted.q.lower() in text)
    )


@pytest.mark.parametrize(
    ("read", "entries", "places", "held"),
    [(2000, 25_000, 500, 5000), (7, 30, 500, 5000), (1, 1, 500, 5000), (5, 25_000, 3, 5000), (3, 9, 0, 0)],
    ids=["as it is", "reading little", "reading one", "few places", "no places"],
)
def test_every_list_is_what_there_is_however_little_a_page_may_read(
    store, clock, monkeypatch, read, entries, places, held
):
    """Spec: A1, B4"""
    tasks = of_every_kind(store, clock)
    assert {task.status for task in tasks} == set(S)
    monkeypatch.setattr(lists, "MOST_READ", read)
    monkeypatch.setattr(lists, "MOST_ENTRIES", entries)
    monkeypatch.setattr(ways, "MOST_PLACES", places)
    monkeypatch.setattr(ways, "MOST_HELD", held)
    random = Random(2)
    for wanted in [anything(random, tasks) for _ in range(120)]:
        limit = random.choice([1, 3, 200])
        found = pages(store, wanted, limit)
        assert [task_id for page in found for task_id in page] == [
            task.id for task in reversed(tasks) if fits(task, wanted)
        ], wanted
        assert all(len(page) <= limit for page in found)


def test_a_page_that_found_nothing_says_where_to_go_on(store, monkeypatch):
    """Spec: A1. An empty page with a cursor is not the end."""
    first = submit(store, name="wanted")
    for _ in range(10):
        submit(store)
    monkeypatch.setattr(lists, "MOST_READ", 6)
    page = store.tasks.find(Filter(q="wanted"))
    assert page.items == []
    found = pages(store, Filter(q="wanted"))
    assert found[-1] == [first.id]
    assert len(found) == 4  # three of each table


def test_a_filter_by_time_holds_however_early_or_late_it_is(store):
    """Spec: A1"""
    task = submit(store)
    ends = [datetime.min.replace(tzinfo=START.tzinfo), datetime.max.replace(tzinfo=START.tzinfo)]
    assert [len(store.tasks.find(Filter(created_after=end)).items) for end in ends] == [1, 0]
    assert [len(store.tasks.find(Filter(created_before=end)).items) for end in ends] == [0, 1]
    between = Filter(created_after=task.create_date, created_before=task.create_date + timedelta(microseconds=1))
    assert [found.id for found in store.tasks.find(between).items] == [task.id]


def test_tasks_created_a_little_out_of_the_order_of_their_ids_are_found(store, clock):
    """Spec: A1. A statement's time is older than the ids it gives out; a clock is set back by a second or two."""
    ids = []
    for seconds in (0, 100, 3, -5, 2, 100, 1):
        clock.advance(seconds)
        ids.append(submit(store).id)
    tasks = store.tasks.get_many(ids).values()
    for moment in {task.create_date for task in tasks}:
        earlier = [task.id for task in tasks if task.create_date < moment]
        later = [task.id for task in tasks if task.create_date >= moment]
        assert [task.id for task in store.tasks.find(Filter(created_before=moment)).items] == sorted(earlier)[::-1]
        assert [task.id for task in store.tasks.find(Filter(created_after=moment)).items] == sorted(later)[::-1]


@pytest.mark.parametrize("limit", [2, 50])
def test_a_page_ends_where_its_texts_are_large_enough(store, monkeypatch, limit):
    """Spec: X12"""
    monkeypatch.setattr("headgate.store.db.pages.MOST_PAGE_BYTES", 100)
    made = []
    for _ in range(3):
        execution = running(store, "manual", ext='"' + "x" * 60 + '"')
        settle(store, execution, Raised("no"))
        made.append(execution.id)
    for noun in (store.tasks, store.dead_letters):
        assert [task.id for task in noun.find(limit=limit).items] == made[2:]
        assert [task.id for task in every(partial(_page, noun, limit))] == made[::-1]


def _page(noun, limit, cursor):
    return noun.find(cursor=cursor, limit=limit)
