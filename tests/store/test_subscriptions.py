"""Subscriptions: a place in the feed that outlives its process, in one process's hands at a time."""

import psycopg
import pytest

from headgate.core.errors import NotFound
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.store.events.feed import LATE, NEWER
from headgate.store.events.subscriptions import Lease
from headgate.store.store import open_store
from tests.factories import TYPES, put, running, settle, submit

DAY = 86400.0
EVENT = (
    "INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor) VALUES (%s, 0, 0, now(), 'note', 'x')"
)


@pytest.fixture
def shared(postgres, clock):
    """A store on PostgreSQL, where transactions overlap."""
    with open_store(postgres, clock) as store:
        for kind in TYPES:
            store.types.put(kind)
        yield store


def follow(store, name="mail", holder="one", seconds=30.0):
    """Read on from where the subscription is, and save that; the ids of the events."""
    lease = store.subscriptions.lease(name, holder, seconds)
    events, place = store.events.after(lease.place)
    assert store.subscriptions.save(name, holder, Lease(place, 0), handled=[event.kind for event in events])
    return [event.id for event in events]


def only(store):
    [found] = store.subscriptions.all()
    return found


def test_a_new_subscription_begins_with_the_next_event(store):
    """Spec: X9"""
    submit(store)
    lease = store.subscriptions.lease("mail", "one", 30.0)
    assert store.events.after(lease.place)[0] == []
    task = submit(store)
    assert [event.task_id for event in store.events.after(lease.place)[0]] == [task.id]


def test_a_subscription_goes_on_where_it_was_saved_whoever_has_it_next(store):
    """Spec: X9"""
    follow(store)
    submit(store)
    first = follow(store)
    store.subscriptions.release("mail", "one")
    submit(store)
    second = follow(store, holder="two")
    assert len(first) == len(second) == 1
    assert first < second
    assert (only(store).handled, only(store).holder) == (2, "two")


def test_one_holder_has_a_subscription_until_its_lease_is_over(store, clock):
    """Spec: X9"""
    assert store.subscriptions.lease("mail", "one", 30.0)
    assert store.subscriptions.lease("mail", "two", 30.0) is None
    clock.advance(20)
    assert store.subscriptions.lease("mail", "one", 30.0)
    clock.advance(20)
    assert store.subscriptions.lease("mail", "two", 30.0) is None
    clock.advance(11)
    assert store.subscriptions.lease("mail", "two", 30.0)


def test_who_has_lost_a_subscription_moves_it_no_more(store, clock):
    """Spec: X9"""
    lease = store.subscriptions.lease("mail", "one", 30.0)
    submit(store)
    _, place = store.events.after(lease.place)
    clock.advance(31)
    assert store.subscriptions.lease("mail", "two", 30.0) == lease
    assert not store.subscriptions.save("mail", "one", Lease(place, 0), handled=["submitted"])
    store.subscriptions.release("mail", "one")
    assert (only(store).place, only(store).handled, only(store).holder) == (lease.place, 0, "two")


def test_a_subscription_tells_since_when_something_waits_for_it(store, clock):
    """Spec: X9"""
    follow(store)
    assert only(store).waiting_since is None
    since = clock()
    submit(store)
    clock.advance(60)
    submit(store)
    assert only(store).waiting_since == since
    follow(store)
    assert only(store).waiting_since is None


@pytest.mark.parametrize("handled", [False, True])
def test_retention_keeps_what_a_subscription_has_not_handled(store, clock, handled):
    """Spec: X9, A7"""
    follow(store)
    task = put(store, State.SUCCEEDED)
    store.lanes.pause("default")
    clock.advance(2 * DAY)
    if handled:
        follow(store)
    else:
        store.subscriptions.lease("mail", "one", 30.0)
    store.history.archive()
    assert store.history.purge([State.SUCCEEDED], seconds=DAY) == int(handled)
    assert len(store.events.of(task.id)) == (0 if handled else 3)
    assert store.history.forget_acts(seconds=DAY) >= int(handled)
    assert (store.events.last_act("paused") is None) == handled
    if not handled:
        assert len(follow(store)) == 4


def test_retention_goes_past_what_it_has_to_keep(store, clock):
    """Spec: A7"""
    first = put(store, State.SUCCEEDED)
    follow(store)
    store.events.record("note", "{}")
    last = put(store, State.SUCCEEDED)
    clock.advance(2 * DAY)
    store.subscriptions.lease("mail", "one", 30.0)
    store.history.archive()
    page = store.history.remove(State.SUCCEEDED, seconds=DAY, limit=1)
    assert (page.count, page.more) == (1, True)
    page = store.history.remove(State.SUCCEEDED, seconds=DAY, limit=1, after=page.after)
    assert (page.count, page.more) == (0, True)
    assert store.history.remove(State.SUCCEEDED, seconds=DAY, limit=1, after=page.after).more is False
    assert store.events.of(first.id) == []
    assert store.events.of(last.id) != []


def test_a_subscription_that_nobody_used_for_a_week_keeps_nothing(store, clock):
    """Spec: X9"""
    follow(store)
    settle(store, running(store), Returned())
    clock.advance(6.9 * DAY)
    store.history.archive()
    assert store.history.purge([State.SUCCEEDED], seconds=DAY) == 0
    assert only(store).in_use
    clock.advance(0.2 * DAY)
    assert not only(store).in_use
    assert store.history.purge([State.SUCCEEDED], seconds=DAY) == 1


def test_a_removed_subscription_keeps_nothing_and_begins_anew_if_it_is_used(store, clock):
    """Spec: X9"""
    follow(store)
    settle(store, running(store), Returned())
    clock.advance(2 * DAY)
    before = store.events.last()
    store.subscriptions.remove("mail", actor="user:1")
    [event], _ = store.events.after(before)
    assert (event.kind, event.actor, event.detail) == ("listener_removed", "user:1", '{"listener": "mail"}')
    store.history.archive()
    assert store.history.purge([State.SUCCEEDED], seconds=DAY) == 1
    assert follow(store) == []
    with pytest.raises(NotFound, match="no listener other"):
        store.subscriptions.remove("other")


def test_retention_waits_for_an_event_that_commits_late(shared, postgres, clock):
    """Spec: D6, A7. The lowest open gap is the floor: a task whose event comes late is kept until it was handled."""
    follow(shared)
    task = put(shared, State.SUCCEEDED)
    follow(shared)
    with psycopg.connect(postgres) as slow:
        slow.execute("SELECT pg_current_xact_id()")
        slow.execute(EVENT, [task.id])
        submit(shared)
        assert len(follow(shared)) == 1
        floor = only(shared).place.floor
        assert floor < only(shared).place.high
        slow.commit()
    clock.advance(2 * DAY)
    shared.subscriptions.lease("mail", "one", 30.0)
    shared.history.archive()
    assert shared.history.purge([State.SUCCEEDED], seconds=DAY) == 0
    assert follow(shared) == [floor]
    assert shared.history.purge([State.SUCCEEDED], seconds=DAY) == 1


class _Slowly:
    """A transaction that another one commits in the middle of."""

    def __init__(self, db, meanwhile):
        self._db = db
        self._meanwhile = meanwhile

    def __getattr__(self, name):
        return getattr(self._db, name)

    def send(self, statement, **parameters):
        pending = self._db.send(statement, **parameters)
        if statement in (NEWER, LATE) and self._meanwhile:
            pending.rows()
            self._meanwhile.pop()()
        return pending


def test_the_events_of_a_task_come_in_order_though_they_commit_while_the_feed_is_read(shared, postgres, monkeypatch):
    """Spec: D6"""
    place = shared.events.last()
    with psycopg.connect(postgres) as slow:
        slow.execute("SELECT pg_current_xact_id()")
        slow.execute(EVENT, [4711])
        submit(shared)
        events, place = shared.events.after(place)
        assert [event.task_id for event in events] != [4711]

        def commit_both():
            slow.commit()
            with psycopg.connect(postgres) as other:
                other.execute(EVENT, [4711])

        meanwhile, read = [commit_both], shared.database.read
        monkeypatch.setattr(shared.database, "read", lambda work: read(lambda db: work(_Slowly(db, meanwhile))))
        found = []
        for _ in range(3):
            events, place = shared.events.after(place)
            found += [event.id for event in events if event.task_id == 4711]
    assert not meanwhile
    assert len(found) == 2
    assert found == sorted(found)
