"""Two people edit one type at once: the second edits what the first has made of it."""

import pytest

from headgate.core.task import TaskType
from headgate.core.task_types import edited
from tests.store.races import Stage, only


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.mark.parametrize("code", ["plain", "fresh"], ids=["one that is there", "a new one"])
def test_an_edit_that_meets_another_loses_nothing_of_it(stage, code):
    """Spec: B5"""

    def edit(**said):
        return stage.beside(stage.store().types.edit, code, lambda before: edited(before or TaskType(code), said))

    rival = stage.rival()
    rival.run("SELECT 1 FROM headgate_catalog FOR UPDATE")
    first = edit(timeout=1)
    stage.await_waiters(first)
    second = edit(need_manual=True)
    stage.await_waiters(first, second)
    rival.rollback()
    assert (only(first).kind.timeout_seconds, only(second).kind.need_manual) == (60.0, True)
    kind = stage.store().types.by_code()[code]
    assert (kind.timeout_seconds, kind.need_manual) == (60.0, True)
