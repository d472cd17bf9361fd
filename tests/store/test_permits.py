"""Few connections for many callers: none of them ever has all, and they take turns."""

import threading
from collections import Counter
from contextlib import contextmanager

import pytest

from headgate.core.errors import Unavailable
from headgate.store.db.permits import Permits, for_caller
from headgate.store.db.postgres import CONNECTIONS, MOST_OF_A_CALLER, Postgres
from headgate.store.store import open_store
from tests.factories import PLAIN, submit

PATIENCE = 30.0


class Crowd:
    """Calls in threads of their own, each of which keeps its permit until it is told to end."""

    def __init__(self, permits):
        self._permits = permits
        self._changed = threading.Condition()
        self._ends = []
        self._threads = []
        self.had = []  # a permit: which callers, in order

    def send(self, caller, count=1):
        for _ in range(count):
            thread = threading.Thread(target=for_caller, args=(caller, self._call, caller), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _call(self, caller):
        with self._permits.one(PATIENCE):
            end = threading.Event()
            with self._changed:
                self._ends.append(end)
                self.had.append(caller)
                self._changed.notify_all()
            end.wait(PATIENCE)

    def until(self, count):
        """Until so many had a permit."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.had) >= count, PATIENCE), self.had

    def end(self, number):
        """Let the call end that was this one to get a permit."""
        self._ends[number].set()

    def end_all(self):
        for number in range(len(self._threads)):
            self.until(number + 1)
            self.end(number)
        for thread in self._threads:
            thread.join(PATIENCE)


@contextmanager
def crowd_at(permits):
    crowd = Crowd(permits)
    try:
        yield crowd
    finally:
        crowd.end_all()


def waits(permits, count):
    """Until so many calls wait."""
    while sum(map(len, [*permits._waiting.values()])) < count:
        pass


def test_a_caller_has_all_but_those_kept_for_others_and_others_need_not_wait_for_it():
    """Spec: X12"""
    permits = Permits(5, 3)
    with crowd_at(permits) as crowd:
        crowd.send("busy", 9)
        crowd.until(3)
        waits(permits, 6)
        crowd.send("other", 2)
        crowd.until(5)
        assert Counter(crowd.had) == {"busy": 3, "other": 2}


def test_callers_that_wait_take_turns_however_many_calls_each_has_waiting():
    """Spec: X12"""
    permits = Permits(1, 1)
    with crowd_at(permits) as crowd:
        for waiting, caller in enumerate(["busy"] * 4 + ["other"] * 2 + ["late"]):
            crowd.send(caller)
            crowd.until(1)
            waits(permits, waiting)
        for count in range(5):
            crowd.end(count)
            crowd.until(count + 2)
        assert crowd.had == ["busy", "busy", "other", "late", "busy", "other"]


def test_the_process_itself_may_have_all_and_waits_like_any_caller():
    permits = Permits(3, 2)
    with crowd_at(permits) as crowd:
        crowd.send(None, 4)
        crowd.until(3)
        waits(permits, 1)
        crowd.end(0)
        crowd.until(4)


def test_whoever_gives_up_waiting_is_told_so_and_no_permit_is_lost():
    permits = Permits(1, 1)
    with permits.one(0.0):
        for _ in range(3):
            with pytest.raises(Unavailable, match="every connection to the store is in use"):
                for_caller("impatient", lambda: permits.one(0.01).__enter__())
    with permits.one(0.0):
        pass
    assert permits._waiting == {}


def test_a_caller_whose_calls_are_all_stuck_in_postgresql_leaves_connections_to_others(postgres):
    """Spec: X12"""
    with open_store(postgres) as store:
        assert isinstance(store.database, Postgres)
        store.types.put(PLAIN)
        inside = threading.Semaphore(0)
        go_on = threading.Event()

        def stuck(db):
            inside.release()
            go_on.wait(PATIENCE)

        def call():
            for_caller("busy", store.database.write, stuck)

        threads = [threading.Thread(target=call) for _ in range(CONNECTIONS + 4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(MOST_OF_A_CALLER):
                assert inside.acquire(timeout=PATIENCE)
            waits(store.database._permits, len(threads) - MOST_OF_A_CALLER)
            task = for_caller("other", submit, store)
            assert [each.id for each in store.tasks.find().items] == [task.id]
        finally:
            go_on.set()
            for thread in threads:
                thread.join(PATIENCE)
