"""Starts that got lost: found by all processes together, fenced, and put through the start queue again."""

from datetime import timedelta

import pytest

from headgate.core.compensation import CompensationSettings
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.events.feed import Cursor
from headgate.store.execution.compensation import PAGE
from headgate.store.store import open_store
from tests.factories import START, kinds, settle, start, submit, together
from tests.store.races import Stage, only
from tests.store.test_starts import Server, assigned

S = State
FIGURES = CompensationSettings()
NO_LIMIT = CompensationSettings(start_interval=0)


@pytest.fixture
def server(store):
    return Server(store)


@pytest.fixture
def room(store):
    """The polling has begun: the first poll comes in ten seconds."""
    store.compensation.begin()
    return store.compensation


def polls(room, clock, seconds, figures=FIGURES):
    """When polls come in that time, looked for every second, and what each did."""
    found = []
    for _ in range(seconds):
        clock.advance(1)
        if (poll := room.poll(figures)) is not None:
            found.append((round((clock() - START).total_seconds()), poll))
    return found


def test_a_start_that_was_not_confirmed_in_thirty_seconds_goes_through_the_start_queue_again(store, server, clock):
    """Spec: E2, E3"""
    [task_id] = assigned(store, 1)
    [lost] = server.claim().executions
    clock.advance(30)
    assert store.compensation.trigger(FIGURES).found == ()
    clock.advance(0.001)
    [found] = store.compensation.trigger(FIGURES).found
    assert (found.task_id, found.at_once, round(found.waited_seconds)) == (task_id, True, 30)
    task = store.tasks.get(task_id)
    assert (task.status, task.exec_id, task.scheduling_time) == (S.QUEUED, None, None)
    assert (task.error_count, task.lost_count) == (0, 0)
    assert store.executions.start(task_id, lost.exec_id) is None
    [again] = server.claim().executions
    assert again.exec_id != lost.exec_id
    assert store.executions.start(task_id, again.exec_id) is not None
    assert kinds(store, task_id) == ["submitted", "scheduled", "compensated", "scheduled", "started"]
    assert [event.actor for event in store.events.of(task_id) if event.kind == "compensated"] == ["system:compensation"]


def test_an_old_execution_can_neither_start_nor_end_nor_give_back_what_was_compensated(store, server, clock):
    """Spec: B3, E2"""
    [task_id] = assigned(store, 1)
    [lost] = server.claim().executions
    clock.advance(31)
    store.compensation.trigger(FIGURES)
    [again] = server.claim().executions
    before = store.tasks.get(task_id)
    assert store.executions.start(task_id, lost.exec_id) is None
    assert settle(store, lost, Returned()) is None
    assert store.tasks.get(task_id) == before
    assert before.exec_id == again.exec_id


def test_what_runs_what_waits_and_what_nobody_is_assigned_to_is_left_alone(store, server, clock):
    """Spec: E2"""
    confirmed, _ = assigned(store, 2)
    [execution] = server.claim().executions
    store.executions.start(confirmed, execution.exec_id)
    free = submit(store)
    start(store, confirm=True)
    clock.advance(100)
    assert store.compensation.trigger(FIGURES).found == ()
    assert (store.tasks.get(confirmed).status, store.tasks.get(free.id).status) == (S.RUNNING, S.SCHEDULING)


def test_the_polls_come_after_10_20_30_seconds_and_so_on_while_nothing_is_found(room, clock):
    """Spec: E2"""
    assert [at for at, _ in polls(room, clock, 110)] == [10, 30, 60, 100]


def test_a_find_brings_the_polls_back_to_ten_seconds(store, server, room, clock):
    """Spec: E2"""
    assert [at for at, _ in polls(room, clock, 60)] == [10, 30, 60]
    [task_id] = assigned(store, 1)
    server.ids()
    assert [(at, [one.task_id for one in poll.found]) for at, poll in polls(room, clock, 40)] == [(100, [task_id])]
    [again] = server.claim().executions
    store.executions.start(task_id, again.exec_id)
    assert [at for at, _ in polls(room, clock, 60)] == [110, 130, 160]


def test_however_many_processes_poll_they_poll_as_one(store, room, url, clock):
    """Spec: E2"""
    stores = [store, *(open_store(url, clock) for _ in range(3))]
    times = []
    for _ in range(100):
        clock.advance(1)
        done = together(*[lambda one=one: one.compensation.poll(FIGURES) for one in stores])
        times += [round((clock() - START).total_seconds())] * sum(poll is not None for poll in done)
    assert times == [10, 30, 60, 100]
    for each in stores[1:]:
        each.close()


def test_a_poll_is_skipped_while_the_start_queue_holds_work_but_never_more_than_six_in_a_row(
    store, server, room, clock
):
    """Spec: E2, E3"""
    lost, *_ = assigned(store, 3)
    server.ids()
    done = polls(room, clock, 80)
    assert [at for at, _ in done] == [10, 20, 30, 40, 50, 60, 70, 80]
    assert [poll.skipped for _, poll in done] == [True] * 6 + [False, True]
    assert [poll.queue_size for _, poll in done] == [2] * 7 + [3]
    assert [one.task_id for one in done[6][1].found] == [lost]


def test_a_compensated_start_is_limited_like_any_other(store, clock):
    """Spec: E2, E3"""
    server = Server(store)
    first, second = assigned(store, 2)
    server.ids()
    clock.advance(26)
    assert server.ids() == [second]
    clock.advance(5)
    [found] = store.compensation.trigger(FIGURES).found
    assert (found.task_id, found.at_once) == (first, True)
    clock.advance(-1)
    assert server.ids() == []
    clock.advance(1)
    assert server.ids() == [first]


def test_of_several_lost_starts_of_one_agent_the_first_passes_at_once_and_the_others_wait(store, clock):
    """Spec: E2, E3"""
    server = Server(store)
    ids = assigned(store, 3)
    assert server.ids(start_seconds=0) == ids
    clock.advance(31)
    found = store.compensation.trigger(NO_LIMIT).found
    assert [(one.task_id, one.at_once) for one in found] == list(zip(ids, (True, False, False), strict=True))
    assert server.ids() == ids[:1]


def test_a_trigger_resets_the_interval_and_polls_at_once_whatever_waits(store, server, room, clock):
    """Spec: E4"""
    assert len(polls(room, clock, 60)) == 3
    lost, _ = assigned(store, 2)
    server.ids()
    clock.advance(31)
    done = room.trigger(FIGURES, actor="ann")
    assert ([one.task_id for one in done.found], done.queue_size) == ([lost], 1)
    status = room.status(FIGURES)
    assert (status.interval_seconds, status.multiplier, status.last_poll) == (10, 1, clock())
    assert status.next_poll == clock() + timedelta(seconds=10)
    acts = [event for event in store.events.after(Cursor())[0] if event.kind == "compensation_triggered"]
    assert [act.actor for act in acts] == ["ann"]


def test_the_status_says_how_the_polling_stands(store, server, room, clock):
    """Spec: E4"""
    fresh = room.status(FIGURES)
    assert (fresh.interval_seconds, fresh.multiplier, fresh.queue_size, fresh.last_poll) == (10, 1, 0, None)
    assert (fresh.next_poll, fresh.next_poll_in_seconds) == (START + timedelta(seconds=10), 10)
    polls(room, clock, 45)
    assigned(store, 2, tenant_id=1)
    assigned(store, 1, tenant_id=2)
    status = room.status(FIGURES)
    assert (status.interval_seconds, status.multiplier, status.queue_size) == (30, 3, 3)
    assert (status.last_poll, status.next_poll_in_seconds) == (START + timedelta(seconds=30), 15)
    assert room.status(FIGURES, tenant_id=1).queue_size == 2


def test_before_anybody_polls_the_status_says_so(store):
    """Spec: E4"""
    status = store.compensation.status(FIGURES)
    assert (status.interval_seconds, status.last_poll, status.next_poll, status.next_poll_in_seconds) == (
        10,
        None,
        None,
        None,
    )
    assert store.compensation.poll(FIGURES) is None


def test_a_process_that_begins_brings_the_interval_back_but_never_puts_a_poll_off(room, clock):
    """Spec: E2"""
    polls(room, clock, 100)
    assert room.status(FIGURES).multiplier == 5
    for _ in range(3):  # as one that is started again and again
        clock.advance(4)
        room.begin()
    assert room.status(FIGURES).multiplier == 1
    assert room.poll(FIGURES) is not None


def test_processes_that_are_started_again_and_again_do_not_keep_lost_starts_from_being_found(
    store, server, room, clock
):
    """Spec: E2"""
    lost, *_ = assigned(store, 3)
    server.ids()
    done = []
    for _ in range(14):
        room.begin()
        done += polls(room, clock, 5)
    assert [one.task_id for _, poll in done for one in poll.found] == [lost]


def test_more_lost_starts_than_fit_into_one_page_are_all_put_in_line(store, server, clock):
    """Spec: E2"""
    count = PAGE + 20
    store.tasks.submit_many([NewTask("plain", agent_id="rig")] * count)
    assert len(server.ids(count, start_seconds=0)) == count
    clock.advance(31)
    first = store.compensation.trigger(FIGURES)
    assert (len(first.found), first.more) == (PAGE, True)
    rest = store.compensation.poll_on(FIGURES)
    assert (len(rest.found), rest.more) == (20, False)


@pytest.mark.parametrize("seconds", [-3600, -40])
def test_a_clock_that_is_set_back_neither_stops_the_polls_nor_hides_a_lost_start(store, server, room, clock, seconds):
    """Spec: E2"""
    [task_id] = assigned(store, 1)
    clock.advance(100)
    server.ids()
    clock.advance(seconds)
    assert [one.task_id for one in room.poll(FIGURES).found] == [task_id]


def test_a_start_confirmed_while_the_poll_looks_is_not_taken_away(postgres, clock):
    """Spec: E2"""
    with Stage(postgres, clock) as stage:
        store = stage.store()
        server = Server(store)
        [task_id] = assigned(store, 1)
        [execution] = server.claim().executions
        clock.advance(31)
        rival = stage.rival()
        rival.run("SELECT id FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", task_id)
        rival.run("UPDATE headgate_task SET status = 'running', seq = seq + 1 WHERE id = %s", task_id)
        polling = stage.beside(store.compensation.trigger, FIGURES)
        stage.await_waiters(polling)
        rival.commit()
        assert only(polling).found == ()
        assert store.tasks.get(task_id).exec_id == execution.exec_id
