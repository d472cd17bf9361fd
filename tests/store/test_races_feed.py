"""The feed of events: ids are handed out in one order and committed in another, and none is lost or told twice."""

import time

import pytest

from headgate.core.task import NewTask
from headgate.store.events.feed import Cursor
from tests.store.races import Claimer, Stage, only, submit_many

EVENT = """
INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor) VALUES (%s, 0, 0, now(), 'note', 'rival')
RETURNING id
"""


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def store(stage):
    return Claimer(stage).store


@pytest.fixture
def rival(stage):
    return stage.rival()


def note(rival, task_id: int) -> int:
    """An event of a transaction that has written something before, as each of ours has."""
    rival.run("SELECT pg_current_xact_id()")
    [[event_id]] = rival.run(EVENT, task_id)
    return int(event_id)


class Reader:
    """Somebody who follows the feed, keeping the cursor as text."""

    def __init__(self, store, cursor=None) -> None:
        self._store = store
        self._cursor = str(cursor or store.events.last())

    def next(self, limit: int = 500) -> list[int]:
        events, cursor = self._store.events.after(Cursor.parse(self._cursor), limit)
        self._cursor = str(cursor)
        return [event.id for event in events]

    @property
    def gaps(self) -> int:
        return len(Cursor.parse(self._cursor).gaps)


def events_of(store, *task_ids: int) -> list[int]:
    return [event.id for task_id in task_ids for event in store.events.of(task_id)]


def test_a_reader_that_keeps_only_the_highest_id_skips_what_commits_late(stage, store, rival):
    """Spec: D6. The trap."""
    [task_id] = submit_many(store, 1)
    late = note(rival, task_id)
    naive = "SELECT id FROM headgate_task_event WHERE id > %s ORDER BY id"
    [newer] = submit_many(store, 1)
    reader = stage.rival()
    seen = [row[0] for row in reader.run(naive, late - 1)]
    assert seen == events_of(store, newer)
    rival.commit()
    assert late not in [row[0] for row in reader.run(naive, max(seen))]


def test_events_committed_out_of_order_are_each_told_once(store, rival):
    """Spec: D6"""
    [task_id] = submit_many(store, 1)
    reader = Reader(store)
    late = note(rival, task_id)
    newer = submit_many(store, 2)
    assert reader.next() == events_of(store, *newer)
    assert reader.next() == []
    rival.commit()
    assert reader.next() == [late]
    assert reader.next() == []
    assert reader.gaps == 0


def test_gaps_that_fill_one_by_one_and_in_any_order_are_each_told_once(stage, store):
    """Spec: D6"""
    [task_id] = submit_many(store, 1)
    reader, rivals = Reader(store), [stage.rival() for _ in range(4)]
    ids = [note(rival, task_id) for rival in rivals]
    newer = submit_many(store, 1)
    told = reader.next()
    for number in (2, 0, 3, 1):
        rivals[number].commit()
        found = reader.next()
        assert found == [ids[number]]
        told += found
    assert sorted(told) == sorted([*ids, *events_of(store, *newer)])


def test_an_id_that_is_rolled_back_stalls_nothing_and_is_forgotten(store, rival):
    """Spec: D6"""
    [task_id] = submit_many(store, 1)
    reader = Reader(store)
    note(rival, task_id)
    newer = submit_many(store, 1)
    assert reader.next() == events_of(store, *newer)
    assert reader.gaps == 1
    rival.rollback()
    submit_many(store, 1)
    end = time.monotonic() + 30
    while reader.gaps:  # another test's transaction may be older than the gap
        assert time.monotonic() < end
        reader.next()


def test_a_gap_stays_open_while_an_older_transaction_runs_and_takes_nothing_from_the_feed(stage, store, rival):
    """Spec: D6"""
    [task_id] = submit_many(store, 1)
    reader, other = Reader(store), stage.rival()
    rival.run("SELECT pg_current_xact_id()")  # runs, and holds nothing
    late = note(other, task_id)
    submit_many(store, 1)
    reader.next()
    other.commit()
    assert reader.next() == [late]
    rival.rollback()


def test_an_event_is_told_whose_transaction_began_while_the_feed_was_being_read(stage, store, rival):
    """Spec: D6. It takes its id after the reader looked who is running, and commits after a later id was read."""
    [task_id] = submit_many(store, 1)
    reader, slow = Reader(store), stage.rival()
    rival.run("LOCK TABLE headgate_task_his IN ACCESS EXCLUSIVE MODE")
    reading = stage.beside(reader.next)
    stage.await_waiters(reading)
    late = note(slow, task_id)
    newer = submit_many(store, 1)
    rival.commit()
    told = [*only(reading), *reader.next()]
    slow.commit()
    told += [*reader.next(), *reader.next()]
    assert sorted(told) == [late, *events_of(store, *newer)]


def test_small_pages_tell_the_same_as_one(stage, store, rival):
    """Spec: D6"""
    [task_id] = submit_many(store, 1)
    whole, pages = Reader(store), Reader(store)
    late = note(rival, task_id)
    store.tasks.submit_many([NewTask("plain")] * 7)
    told = [event for _ in range(3) for event in pages.next(2)]
    rival.commit()
    while found := pages.next(2):
        told += found
    assert sorted(told) == sorted(whole.next())
    assert late in told
