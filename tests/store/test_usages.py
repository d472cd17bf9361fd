"""What an execution used is kept under the same guard as its end, and leaves with its task."""

from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.usage import Usage
from headgate.store.claim.contract import Outcome
from headgate.store.execution.usage import Measured
from tests.factories import robbed, running, start

USED = Usage(1.5, 60_000_000, 4096, 8192)


def test_what_an_execution_used_is_kept_with_the_task(store):
    """Spec: A8"""
    execution, other = running(store), running(store)
    assert (
        store.executions.settle([Outcome(execution, Returned(), USED), Outcome(other, Returned())])
        == [State.SUCCEEDED] * 2
    )
    assert (store.usages.of(execution.id), store.usages.of(other.id)) == (Measured(1, USED), None)


def test_the_last_execution_counts_that_was_measured(store):
    """Spec: A8"""
    execution = running(store)
    store.executions.settle([Outcome(execution, Raised("again", 0.0), USED)])
    store.due.bring()
    [again] = start(store)
    store.executions.settle([Outcome(again, Raised("again", 0.0), Usage(0.5))])
    assert store.usages.of(execution.id) == Measured(2, Usage(0.5))
    store.due.bring()
    [last] = start(store)
    store.executions.settle([Outcome(last, Returned())])
    assert store.usages.of(execution.id) == Measured(2, Usage(0.5))


def test_an_execution_that_owns_its_task_no_more_leaves_nothing(store, clock):
    """Spec: A8, B3"""
    old, new = robbed(store, clock)
    assert store.executions.settle([Outcome(old, Returned(), USED)]) == [None]
    assert store.usages.of(old.id) is None
    assert (
        store.executions.settle([Outcome(new, Returned(), Usage(0.5)), Outcome(new, Returned(), USED)])[0]
        is State.SUCCEEDED
    )
    assert store.usages.of(new.id) == Measured(2, Usage(0.5))


def test_it_goes_to_history_and_leaves_with_the_task(store):
    """Spec: A8, A7, B4"""
    execution = running(store)
    store.executions.settle([Outcome(execution, Returned(), USED)])
    store.history.archive()
    assert store.usages.of(execution.id) == Measured(1, USED)
    assert store.history.purge([State.SUCCEEDED], seconds=0) == 1
    assert store.usages.of(execution.id) is None
