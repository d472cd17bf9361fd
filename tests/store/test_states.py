"""Every state can be reached, and the audit tells how."""

import pytest

from headgate.core.states import State
from tests.factories import put


@pytest.mark.parametrize("state", State)
def test_every_state_is_reached_and_its_audit_rows_form_one_path_without_a_gap(store, state):
    """Spec: A2, A12"""
    task = put(store, state)
    path = [event for event in store.events.of(task.id) if event.seq]
    assert [event.seq for event in path] == list(range(1, len(path) + 1))
    assert [event.before for event in path] == [None, *(event.after for event in path[:-1])]
    assert path[-1].after == state
