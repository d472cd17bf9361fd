"""Finished tasks move to history and leave it after their time, in bounded batches, losing nothing."""

import pytest

from headgate.core.errors import NotFound
from headgate.core.machine import Returned
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask
from headgate.store.reading.lists import Filter
from tests.factories import put, record, running, settle, sql, start, submit, together

S = State


def tables(url):
    return tuple(sql(url, f"SELECT count(*) FROM {table}")[0][0] for table in ("headgate_task", "headgate_task_his"))


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_finished_task_moves_to_history_whole_and_is_found_as_before(store, url, state):
    """Spec: B4"""
    task = put(store, state)
    before, listed = record(store, task.id), store.tasks.find(Filter(status=(state,))).items
    live, _ = tables(url)
    moved = store.history.archive()
    assert moved >= 1
    assert tables(url) == (live - moved, moved)
    assert record(store, task.id) == before
    assert store.tasks.find(Filter(status=(state,))).items == listed
    assert store.history.archive() == 0


@pytest.mark.parametrize("state", [state for state in State if state not in FINAL])
def test_what_is_not_final_stays(store, clock, state):
    """Spec: B4, A7"""
    task = put(store, state)
    clock.advance(10**7)
    store.history.archive()
    assert record(store, task.id)[0] == task
    assert store.history.purge(list(State), seconds=0) == 0 or store.tasks.get(task.id) == task


def test_log_and_checkpoints_go_with_the_task(store):
    """Spec: B4, A12"""
    execution = running(store)
    store.executions.add_log(execution.id, execution.exec_id, [("info", "kept")])
    store.executions.save_checkpoint(execution.id, execution.exec_id, "page", "7")
    settle(store, execution, Returned())
    store.history.archive()
    assert [line.message for line in store.executions.log(execution.id)] == ["kept"]
    assert store.executions.checkpoints(execution.id) == {"page": "7"}


def test_a_batch_is_bounded_and_takes_the_oldest_first(store, clock, url):
    """Spec: B4"""
    ids = [put(store, S.SUCCEEDED).id for _ in range(5) if clock.advance(1) is None]
    assert [store.history.archive(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert store.history.purge([S.SUCCEEDED], seconds=0, limit=2) == 2
    assert [task.id for task in store.tasks.find().items] == ids[:1:-1]
    assert tables(url) == (0, 3)


def test_tasks_stay_as_long_as_asked(store, clock):
    """Spec: A7"""
    put(store, S.SUCCEEDED)
    clock.advance(60)
    assert (store.history.archive(seconds=61), store.history.archive(seconds=60)) == (0, 1)
    clock.advance(40)
    assert (store.history.purge([S.SUCCEEDED], seconds=101), store.history.purge([S.SUCCEEDED], seconds=100)) == (0, 1)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_purge_removes_the_states_it_names_and_all_that_was_kept_about_them(store, url, state):
    """Spec: A7"""
    task = put(store, state)
    store.history.archive()
    assert store.history.purge([other for other in FINAL if other is not state], seconds=0) == (
        2 if state is S.PARTIAL else 0
    )
    assert store.history.purge([state], seconds=0) == 1
    with pytest.raises(NotFound):
        store.tasks.get(task.id)
    assert store.events.of(task.id) == []
    for table in ("headgate_task_log", "headgate_checkpoint", "headgate_task_event", "headgate_task_usage"):
        assert sql(url, f"SELECT count(*) FROM {table} WHERE task_id = {task.id}") == [(0,)]


def test_a_child_stays_until_its_parent_has_ended(store, url):
    """Spec: B4, D7"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    settle(store, start(store)[0], Returned())
    assert store.history.archive() == 0
    settle(store, parent, Returned())
    assert store.history.archive() == 2
    assert tables(url) == (0, 2)


def test_archivers_at_once_move_each_task_once(store, url):
    """Spec: B4"""
    made = store.tasks.submit_many([NewTask("plain")] * 40)
    for task in made:
        store.tasks.cancel(task.id)
    moved = together(*[lambda: sum(store.history.archive(limit=4) for _ in range(5)) for _ in range(4)])
    assert all(isinstance(count, int) for count in moved)
    while count := store.history.archive():
        moved.append(count)
    assert sum(moved) == 40
    assert tables(url) == (0, 40)


def test_children_that_wait_for_their_parent_hold_up_nobody_behind_them(store, clock, url):
    """Spec: B4"""
    parent = running(store)
    store.tasks.submit_many([NewTask("plain", parent_id=parent.id)] * 7)
    for execution in start(store, 7):
        settle(store, execution, Returned())
    clock.advance(1)
    other = put(store, S.SUCCEEDED)
    page = store.history.move(seconds=0, limit=3)
    assert (page.count, page.more) == (0, True)
    assert store.history.archive(limit=3) == 1
    assert tables(url) == (8, 1)
    assert store.tasks.get(other.id) == other


def test_a_page_goes_on_behind_another(store, clock):
    """Spec: B4, A7"""
    for _ in range(5):
        put(store, S.FAILED)
        clock.advance(1)
    first = store.history.move(seconds=0, limit=2)
    second = store.history.move(seconds=0, limit=2, after=first.after)
    third = store.history.move(seconds=0, limit=2, after=second.after)
    assert [(page.count, page.more) for page in (first, second, third)] == [(2, True), (2, True), (1, False)]
    assert store.history.move(seconds=0, after=third.after).after == third.after
    gone = store.history.remove(S.FAILED, seconds=0, limit=4)
    assert (gone.count, gone.more) == (4, True)
    assert store.history.remove(S.FAILED, seconds=0, limit=4, after=gone.after).count == 1
