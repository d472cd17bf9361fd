"""What it costs to have nothing to do."""

import pytest

from headgate.duties import all_duties, light_duties
from headgate.settings import Settings
from headgate.store.db.pipeline import Pipeline
from headgate.store.store import open_store
from headgate.threads import inline
from tests.duties.turns import turn


@pytest.fixture
def idle(postgres):
    with open_store(postgres) as store:
        yield store


@pytest.fixture
def statements(monkeypatch):
    """Every statement sent to PostgreSQL, BEGIN and COMMIT too."""
    texts = []
    put = Pipeline._put

    def counted(wire, text, values, answer):
        texts.append(text)
        put(wire, text, values, answer)

    monkeypatch.setattr(Pipeline, "_put", counted)
    return texts


def test_an_idle_worker_sends_two_statements_a_second_at_most_for_its_duties(idle, statements):
    """Spec: X4"""
    per_second = {}
    for duty in light_duties(idle, Settings(), inline):
        turn(duty)  # connects
        statements.clear()
        assert turn(duty) == 0
        per_second[duty.name] = len(statements) / duty.pause
    assert sum(per_second.values()) <= 2.0, per_second


def test_every_duty_has_a_name_of_its_own_and_the_light_ones_are_among_all(idle):
    """Spec: B4"""
    light = [duty.name for duty in light_duties(idle, Settings(), inline)]
    every = [duty.name for duty in all_duties(idle, Settings(), inline)]
    assert light == ["due", "reaper", "families", "family progress", "mutexes"]
    assert every == [*light, "schedules", "calls", "callbacks", "compensation", "sampler", "archive", "streams"]
