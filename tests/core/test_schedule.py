"""What a schedule says about its tasks: all of it is kept, or refused."""

from headgate.core.schedule import COLUMNS, NOT_IN_A_SCHEDULE, OPTIONS
from headgate.core.task import NewTask


def test_no_field_of_a_task_is_dropped_in_silence():
    """Spec: B9"""
    assert sorted((*COLUMNS, *OPTIONS, *NOT_IN_A_SCHEDULE)) == sorted(NewTask._fields)
