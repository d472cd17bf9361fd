"""How often a task that goes by the broker waits for an answer of PostgreSQL, from its claim to its start."""

import threading

import pytest

from headgate.core.machine import Returned
from headgate.store.claim.contract import Outcome
from headgate.store.db.pipeline import Pipeline
from headgate.store.store import open_store
from tests.factories import PLAIN, submit
from tests.store.test_dispatch import consumer, ids, lead


@pytest.fixture
def store(postgres):
    with open_store(postgres) as store:
        store.types.put(PLAIN)
        yield store


@pytest.fixture
def trips(monkeypatch):
    """One entry for each time that somebody waits for the server."""
    found, exchange, ours = [], Pipeline.exchange, threading.get_ident()

    def counted(wire):
        if threading.get_ident() == ours:  # and not a thread that sends wake-ups
            found.append(wire)
        exchange(wire)

    monkeypatch.setattr(Pipeline, "exchange", counted)
    return found


def reports(dispatched):
    return [(each.execution.id, each.exec_id) for each in dispatched.handovers]


def test_a_claim_for_the_broker_takes_two_round_trips_while_slots_are_left(store, trips):
    """Spec: D1"""
    leader = lead(store)
    consumer(store, (["plain"], 9))
    store.dispatch.take(leader)
    tasks = [submit(store).id for _ in range(3)]
    trips.clear()
    assert ids(store.dispatch.take(leader)) == tasks
    assert len(trips) == 2


def test_a_claim_for_the_broker_takes_a_third_one_when_slots_are_free_again(store, trips):
    """Spec: D1"""
    leader, here = lead(store), consumer(store, (["plain"], 1))
    first, second = submit(store), submit(store)
    started = store.executions.start_handed(here, reports(store.dispatch.take(leader))).executions
    assert [each.id for each in started] == [first.id]
    store.executions.settle([Outcome(each, Returned()) for each in started])
    trips.clear()
    assert ids(store.dispatch.take(leader)) == [second.id]
    assert len(trips) == 3


def test_a_delivered_start_takes_one_round_trip(store, trips):
    """Spec: D2"""
    leader, here = lead(store), consumer(store, (["plain"], 9))
    for _ in range(3):
        submit(store)
    handed = reports(store.dispatch.take(leader))
    trips.clear()
    assert len(store.executions.start_handed(here, handed).executions) == 3
    assert len(trips) == 1


def test_ends_and_delivered_starts_take_three_round_trips_together(store, trips):
    """Spec: D2"""
    leader, here = lead(store), consumer(store, (["plain"], 9))
    for _ in range(6):
        submit(store)
    handed = reports(store.dispatch.take(leader))
    ended = [Outcome(each, Returned()) for each in store.executions.start_handed(here, handed[:3]).executions]
    trips.clear()
    _, started = store.executions.settle_and_start(ended, here, handed[3:])
    assert len(started.executions) == 3
    assert len(trips) == 3
