"""What waits is counted for people."""

from headgate.core.states import State
from headgate.duties import Sampler
from headgate.settings import Settings
from headgate.store.reading.statistics import Count
from headgate.threads import inline
from tests.duties.turns import turn
from tests.factories import START, submit


def test_what_waits_is_counted_anew_each_turn(store, clock):
    """Spec: A8"""
    sampler = Sampler(store, Settings(), inline)
    submit(store)
    assert turn(sampler) == 0
    submit(store)
    assert store.statistics.counts() == [Count("default", State.QUEUED, 1, START, START)]
    clock.advance(5)
    turn(sampler)
    assert store.statistics.counts() == [Count("default", State.QUEUED, 2, START, clock.now)]
