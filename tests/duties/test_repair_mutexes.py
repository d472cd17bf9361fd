"""Lines that a bug left out of order are put in order within a round."""

from headgate.core.states import State
from headgate.duties import RepairMutexes
from headgate.settings import Settings
from headgate.threads import inline
from tests.duties.turns import changed, settle_down
from tests.factories import drain, sql, submit

S = State


def test_a_line_whose_head_was_left_behind_moves_again(store, url):
    """Spec: A10"""
    tasks = [submit(store, mutex=f"m{number}", tenant_id=number % 2) for number in range(5)]
    sql(url, "UPDATE headgate_task SET status = 'blocked'")
    assert drain(store) == []
    assert settle_down(changed(RepairMutexes(store, Settings(), inline), page=2)) == [2, 2]
    assert {store.tasks.get(task.id).status for task in tasks} == {S.QUEUED}
    assert sorted(drain(store)) == [task.id for task in tasks]


def test_the_next_round_begins_where_the_lines_begin(store, url):
    """Spec: A10"""
    duty = changed(RepairMutexes(store, Settings(), inline), page=2)
    for _ in range(2):
        task = submit(store, mutex="a")
        sql(url, f"UPDATE headgate_task SET status = 'blocked' WHERE id = {task.id}")
        settle_down(duty)
        assert drain(store) == [task.id]
