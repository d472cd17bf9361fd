"""What metrics count is taken by one server, whoever asks, and keeps nothing from being removed."""

from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.usage import Usage
from headgate.store.claim.contract import Outcome
from headgate.store.events.counting import UNASKED_SECONDS
from tests.factories import running, settle, start, submit

HOUR = 3600.0


def taken(store, limit=100):
    page = store.counting.next_events(limit)
    assert store.counting.take(page)
    return [event.kind for event in page.events]


def test_counting_begins_with_the_next_event_and_goes_on_where_it_was(store):
    """Spec: D11"""
    submit(store)
    store.counting.begin()
    submit(store)
    store.counting.begin()  # as another server does that starts
    assert taken(store, 1) == ["submitted"]
    assert taken(store) == []


def test_of_two_that_read_the_same_one_counts_it(store):
    """Spec: D11"""
    store.counting.begin()
    submit(store)
    first, second = store.counting.next_events(10), store.counting.next_events(10)
    assert (store.counting.take(first), store.counting.take(second)) == (True, False)
    assert taken(store) == []


def test_when_no_server_was_asked_for_an_hour_counting_begins_anew(store, clock):
    """Spec: D11"""
    store.counting.begin()
    submit(store)
    clock.advance(UNASKED_SECONDS - 1)
    assert taken(store) == ["submitted"]
    submit(store)
    clock.advance(UNASKED_SECONDS)
    assert taken(store) == []
    submit(store)
    assert taken(store) == ["submitted"]


def test_what_was_not_counted_is_removed_in_its_time_all_the_same(store, clock):
    """Spec: A7"""
    store.counting.begin()
    settle(store, running(store), Returned())
    store.history.archive()
    clock.advance(2 * HOUR)
    assert store.history.purge([State.SUCCEEDED], seconds=HOUR) == 1


def test_calls_of_listeners_are_taken_once(store):
    """Spec: D11, X9"""
    lease = store.subscriptions.lease("mail", "one", 30.0)
    for _ in range(2):
        assert store.subscriptions.save("mail", "one", lease, handled=["failed", "failed", "overdue"])
    assert not store.subscriptions.save("mail", "another", lease, handled=["failed"])
    assert store.counting.take_calls() == {("mail", "failed", "handled"): 4, ("mail", "overdue", "handled"): 2}
    assert store.counting.take_calls() == {}


def test_the_start_and_the_usage_of_a_run_are_found_though_the_task_has_run_again_since(store, clock):
    """Spec: A8"""
    store.counting.begin()
    first_start = clock()
    execution = running(store)
    clock.advance(5)
    store.executions.settle([Outcome(execution, Raised("again", 0.0), Usage(1.0))])
    store.due.bring()
    second_start = clock()
    [again] = start(store)
    clock.advance(7)
    store.executions.settle([Outcome(again, Returned(), Usage(2.0))])
    ends = [event for event in store.counting.next_events(100).events if event.before == "running"]
    assert [store.counting.started(ends)[end.id] for end in ends] == [first_start, second_start]
    assert [store.counting.used(ends)[end.id] for end in ends] == [Usage(1.0), Usage(2.0)]
