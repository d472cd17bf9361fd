"""The handlers of a pack and the program whose store they work on: one store in a process at a time."""

import pytest

from headgate import Headgate
from headgate.core.errors import Invalid
from headgate.packs import Tasks, TaskType


@pytest.fixture
def tasks():
    """The handlers of a pack."""
    made = Tasks()

    @made.handler(TaskType("post_letter"))
    def post_letter() -> None:
        """Do nothing."""

    return made


@pytest.fixture
def start(tasks, tmp_path):
    """A program with the pack, on the store of this name."""
    programs = []

    def made(name):
        programs.append(Headgate(f"sqlite:///{tmp_path}/{name}.db"))
        programs[-1]._take_over(tasks)
        return programs[-1]

    yield made
    for program in programs:
        program.close()


def test_a_second_program_on_another_store_is_refused_until_the_first_lets_go(tasks, start):
    """Spec: X11"""
    one, other = start("one"), start("other")
    assert one.store is tasks.store
    with pytest.raises(Invalid, match="on a different store"):
        _ = other.store
    assert one.store is tasks.store
    one.close()
    assert other.store is tasks.store


def test_a_program_that_is_only_made_takes_no_store_away(tasks, start):
    """Spec: X11"""
    one = start("one")
    assert one.store is tasks.store
    start("other")
    assert one.store is tasks.store


def test_programs_on_one_store_share_the_handlers_of_a_pack(tasks, start):
    """Spec: X11"""
    one, same, bound = start("one"), start("one"), start("other")
    assert one.store is tasks.store
    assert same.store is tasks.store
    bound.bind(same.store)
    assert bound.store is tasks.store


def test_programs_in_memory_have_a_store_each(tasks):
    """Spec: X11"""
    one, other = Headgate("sqlite://"), Headgate("sqlite://")
    for program in (one, other):
        program._take_over(tasks)
    assert one.store is tasks.store
    with pytest.raises(Invalid, match="on a different store"):
        _ = other.store
    one.close()
    other.close()
