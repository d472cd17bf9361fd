"""What it costs to have nothing to do."""

import pytest

from headgate.duties import all_duties, light_duties
from headgate.service import inline
from headgate.settings import Settings
from headgate.store import open_store
from headgate.store.wire import Wire
from tests.duties.turns import turn


@pytest.fixture
def idle(postgres):
    with open_store(postgres) as store:
        yield store


@pytest.fixture
def said(monkeypatch):
    """Every statement sent to PostgreSQL, BEGIN and COMMIT too."""
    texts = []
    put = Wire._put

    def counted(wire, text, values, answer):
        texts.append(text)
        put(wire, text, values, answer)

    monkeypatch.setattr(Wire, "_put", counted)
    return texts


def test_an_idle_worker_sends_two_statements_a_second_at_most_for_its_duties(idle, said):
    """Spec: X4"""
    per_second = {}
    for duty in light_duties(idle, Settings(), inline):
        turn(duty)  # connects
        said.clear()
        assert turn(duty) == 0
        per_second[duty.name] = len(said) / duty.pause
    assert sum(per_second.values()) <= 2.0, per_second


def test_every_duty_has_a_name_of_its_own_and_the_light_ones_are_among_all(idle):
    """Spec: B4"""
    light = [duty.name for duty in light_duties(idle, Settings(), inline)]
    every = [duty.name for duty in all_duties(idle, Settings(), inline)]
    assert light == ["due", "reaper", "families", "lines"]
    assert every == [*light, "periodic", "calls", "callbacks", "compensation", "sampler", "archive"]
