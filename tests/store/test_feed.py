"""The feed: every event exactly once, also one that commits late."""

import time

import psycopg
import pytest

from headgate.core.errors import Invalid
from headgate.core.events import AuditEvent
from headgate.core.machine import Returned
from headgate.core.task import NewTask
from headgate.store.events.feed import Cursor, Gap
from headgate.store.store import open_store
from tests.factories import TYPES, running, settle, submit, together

LATE = (
    "INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor) VALUES ({}, 0, 0, now(), 'late', 'x')"
)


@pytest.fixture
def shared(postgres, clock):
    """A store on PostgreSQL, where transactions overlap."""
    with open_store(postgres, clock) as store:
        for kind in TYPES:
            store.types.put(kind)
        yield store


def read_all(store, cursor, limit=500):
    events: list[AuditEvent] = []
    while True:
        page, cursor = store.events.after(cursor, limit)
        if not page:
            return events, cursor
        events += page


@pytest.mark.parametrize("limit", [1, 2, 3, 500])
def test_a_cursor_goes_through_everything_once_whatever_the_size_of_a_page(store, limit):
    """Spec: D6"""
    for _ in range(4):
        settle(store, running(store), Returned())
    events, cursor = read_all(store, Cursor(), limit)
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert [event.kind for event in events if event.task_id] == ["submitted", "started", "completed"] * 4
    assert store.events.after(cursor) == ([], cursor)


def test_the_last_cursor_shows_only_what_comes_after_it(store):
    """Spec: D6"""
    submit(store)
    cursor = store.events.last()
    assert store.events.after(cursor)[0] == []
    task = submit(store)
    assert [event.task_id for event in store.events.after(cursor)[0]] == [task.id]


def test_an_event_of_the_feed_is_the_event_of_its_task(store):
    """Spec: D6"""
    cursor = store.events.last()
    execution = running(store, correlation_id="c")
    settle(store, execution, Returned())
    assert store.events.after(cursor)[0] == store.events.of(execution.id)


@pytest.mark.parametrize("cursor", [Cursor(), Cursor(7), Cursor(9, (Gap(3, 3, 700), Gap(5, 8, 800)))])
def test_a_cursor_survives_being_written_down(cursor):
    """Spec: D6"""
    assert Cursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "x", "1;2", "1;2-3", "1;2-3@", "1;a-b@c", "1;2-3@4-5"])
def test_what_is_no_cursor_is_refused(text):
    """Spec: D6"""
    with pytest.raises(Invalid, match="cursor"):
        Cursor.parse(text)


@pytest.mark.parametrize("text", ["-1", str(1 << 63), "9;8-3@5"])
def test_a_cursor_that_no_store_can_have_given_is_refused(store, text):
    """Spec: D6"""
    with pytest.raises(Invalid, match="of this server"):
        store.events.parse_cursor(text)


def test_only_where_transactions_overlap_a_cursor_has_gaps(shared):
    """Spec: D6"""
    assert shared.events.parse_cursor("9;3-5@7") == Cursor(9, (Gap(3, 5, 7),))
    with pytest.raises(Invalid, match="too old"):
        shared.events.parse_cursor("99999;1-60000@9")
    with open_store("sqlite://") as alone, pytest.raises(Invalid, match="of this server"):
        alone.events.parse_cursor("9;3-5@7")


@pytest.mark.parametrize("written_down", [False, True])
def test_an_event_that_commits_late_comes_exactly_once(shared, postgres, written_down):
    """Spec: D6"""
    cursor = shared.events.last()
    with psycopg.connect(postgres) as slow:
        slow.execute(LATE.format(4711))
        one, two = submit(shared), submit(shared)
        events, cursor = read_all(shared, cursor)
        assert [event.task_id for event in events] == [one.id, two.id]
        cursor = Cursor.parse(str(cursor)) if written_down else cursor
        again, cursor = read_all(shared, cursor)
        slow.commit()
    three = submit(shared)
    late, cursor = read_all(shared, cursor)
    assert again == []
    assert [event.task_id for event in late] == [4711, three.id]
    submit(shared)
    assert [event.kind for event in read_all(shared, cursor)[0]] == ["submitted"]


def test_events_that_commit_late_one_by_one_come_each_once(shared, postgres):
    """Spec: D6"""
    cursor = shared.events.last()
    slow = [psycopg.connect(postgres) for _ in range(3)]
    for number, connection in enumerate(slow):
        connection.execute(LATE.format(9000 + number))
        connection.execute(LATE.format(9100 + number))
        submit(shared)
    events, cursor = read_all(shared, cursor, 2)
    got = [event.task_id for event in events]
    for number in (1, 0, 2):
        slow[number].commit()
        slow[number].close()
        events, cursor = read_all(shared, cursor, 1)
        assert [event.task_id for event in events] == [9000 + number, 9100 + number]
        got += [event.task_id for event in events]
    assert len(got) == len(set(got)) == 9
    assert cursor.gaps == ()


def test_an_event_that_is_never_committed_is_not_waited_for_for_ever(shared, postgres):
    """Spec: D6"""
    cursor = shared.events.last()
    with psycopg.connect(postgres) as slow:
        slow.execute(LATE.format(4711))
        submit(shared)
        _, cursor = read_all(shared, cursor)
        assert len(cursor.gaps) == 1
        slow.rollback()
    submit(shared)
    end = time.monotonic() + 10
    while cursor.gaps and time.monotonic() < end:  # a transaction of another test here may be older than the gap
        _, cursor = read_all(shared, cursor)
    assert cursor.gaps == ()


def test_a_cursor_taken_while_an_event_is_on_its_way_does_not_skip_it(shared, postgres):
    """Spec: D6"""
    with psycopg.connect(postgres) as slow:
        slow.execute(LATE.format(4711))
        submit(shared)
        cursor = shared.events.last()
        slow.commit()
    assert [event.task_id for event in read_all(shared, cursor)[0]] == [4711]


def test_a_reader_beside_many_writers_sees_every_event_once(store):
    """Spec: D6"""
    first = store.events.last()

    def write():
        return [store.tasks.submit_many([NewTask("plain")] * 3) for _ in range(10)]

    def read():
        events: list[AuditEvent] = []
        cursor = first
        while len(events) < 90:
            page, cursor = store.events.after(cursor, 7)
            events += page
        return events

    *_, events = together(write, write, write, read)
    assert sorted(event.task_id for event in events) == sorted(task.id for task in _tasks(store))


def _tasks(store):
    tasks, cursor = [], None
    while True:
        page = store.tasks.find(cursor=cursor, limit=200)
        tasks += page.items
        if (cursor := page.next_cursor) is None:
            return tasks
