"""A forecast reads so much and no more, whatever waits and wherever."""

import pytest

from tests.plans.test_depth import MANY, PLACES, compare, waits

COUNTED = 50


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr("headgate.store.reading.forecasts.MOST_COUNTED", COUNTED)


def a_look(deep, task_id):
    store = deep.store
    return {
        "why": deep.cost(lambda: store.forecasts.why(task_id)),
        "lanes": deep.cost(store.forecasts.drains),
    }


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_forecast_reads_no_more_with_many_waiting_than_with_as_many_as_it_counts(deep, place):
    """Spec: X3, X4"""
    deep.know_nothing()
    deep.remember(place(deep))
    deep.load(2 * COUNTED)
    last = waits(deep, mutex="another", priority=9)
    deep.store.statistics.take_sample()
    a_look(deep, last)
    few = a_look(deep, last)
    deep.load(MANY)
    last = waits(deep, mutex="another", priority=9)
    compare(few, a_look(deep, last), "planned for few, nothing counted")
    deep.analyze()
    deep.open_again()
    a_look(deep, last)  # planning reads, too
    compare(few, a_look(deep, last), "planned for many")
