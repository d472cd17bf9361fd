"""Submits that go to the store together: what becomes of one is no other's fate, and nothing is made twice."""

import asyncio

import pytest

from headgate.api.submits import Submits
from headgate.core.errors import Unavailable, UnknownType
from headgate.core.task import NewTask, TaskType

CALLERS = 5


@pytest.fixture
def known(store):
    store.put_type(TaskType("plain"))
    return store


def together(store, *wishes: NewTask):
    """What each of them is answered, all asked at once."""

    async def ask():
        submits = Submits(store, asyncio.to_thread)
        return await asyncio.gather(*(submits.make([new], "me", None) for new in wishes), return_exceptions=True)

    return asyncio.run(ask())


def test_of_submits_that_go_together_one_that_breaks_a_rule_fails_alone(known):
    """Spec: A12"""
    answers = together(known, NewTask("plain"), NewTask("nobody-knows"), NewTask("plain"))
    assert isinstance(answers[1], UnknownType)
    assert [made[0][1].type for made in (answers[0], answers[2])] == ["plain", "plain"]
    assert len(known.find().items) == 2


def test_submits_whose_answer_was_lost_are_told_so_and_not_made_again(known, monkeypatch):
    """Spec: D1"""
    write = known._database.write

    def lost(operation, timeout=None):
        write(operation, timeout)
        raise Unavailable("the store did not answer")

    together(known, NewTask("plain"))  # its stream is there
    monkeypatch.setattr(known._database, "write", lost)
    answers = together(known, *[NewTask("plain")] * CALLERS)
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert len(known.find().items) == 1 + CALLERS
