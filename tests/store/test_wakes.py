"""Wake-ups: what one process commits, those that listen hear at once; losing it costs a moment, never a task."""

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

from headgate.core.errors import NotFound
from headgate.core.limits import Rate
from headgate.core.machine import GivenBack, Raised, Returned
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from headgate.store.wakeup.message import MOST_BYTES, News, decode, encode
from tests.factories import end_overdue, lose, running, settle, start, submit, worker
from tests.store.ears import PATIENCE, Ears


@pytest.fixture
def other(url, clock, store):
    """What another process would have."""
    with open_store(url, clock) as opened:
        yield opened


@pytest.fixture
def ears(store):
    return Ears(store).listening()


def holder_of(store: Store, task_id: int) -> int:
    worker_id = store.tasks.get(task_id).worker_id
    assert worker_id is not None
    return worker_id


# what is heard of others


def test_a_submit_wakes_the_listeners_of_another_process(ears, other):
    made = other.tasks.submit(NewTask("plain", priority=3))
    [place] = ears.next_wake().values()
    assert place == (3, made.id)


def test_a_claim_finds_at_once_what_another_process_told_of(store, other, ears):
    """Spec: A9. The clock stands still: nobody looks again at what it knows to be empty."""
    first = submit(store)
    ears.wake_for(first.id)
    assert [execution.id for execution in start(store)] == [first.id]
    assert start(store) == []
    made = other.tasks.submit(NewTask("plain", priority=1))
    ears.wake_for(made.id)
    assert [execution.id for execution in start(store)] == [made.id]


def test_nobody_is_woken_by_a_submit_that_was_rolled_back(ears, other):
    with pytest.raises(NotFound):
        other.tasks.submit_many([NewTask("plain"), NewTask("plain", parent_id=10**9)])
    other.tasks.submit(NewTask("plain", delay_seconds=60))
    made = other.tasks.submit(NewTask("plain"))
    assert [task_id for _, task_id in ears.next_wake().values()] == [made.id]


def test_a_process_hears_its_own_news_once(ears, store, other):
    own = submit(store)
    assert [task_id for _, task_id in ears.next_wake().values()] == [own.id]
    foreign = other.tasks.submit(NewTask("plain"))
    assert [task_id for _, task_id in ears.next_wake().values()] == [foreign.id]
    assert ears.silent


def test_what_was_to_be_said_is_said_before_a_store_is_closed(ears, url):
    with open_store(url) as short:
        made = short.tasks.submit(NewTask("plain"))
    ears.wake_for(made.id)


def test_whoever_does_not_listen_hears_of_its_own_commits_only(store, other):
    ears = Ears(store)
    listening = Ears(other).listening()
    made = other.tasks.submit(NewTask("plain"))
    listening.wake_for(made.id)
    own = submit(store)
    assert [task_id for _, task_id in ears.next_wake().values()] == [own.id]
    assert ears.silent


# requests to running tasks


@pytest.mark.parametrize("ask", ["cancel", "pause"])
def test_a_request_to_a_running_task_reaches_its_worker_here_and_elsewhere(store, other, ears, ask):
    here = Ears(other)
    execution = running(store)
    getattr(other.tasks, ask)(execution.id)
    told = {holder_of(store, execution.id)}
    assert here.asked.get_nowait() == told
    assert ears.next_asked() == told


def test_what_is_asked_of_a_task_that_does_not_run_is_told_to_nobody(store):
    ears = Ears(store)
    store.tasks.pause(submit(store, delay_seconds=60).id)
    store.tasks.cancel(submit(store, delay_seconds=60).id)
    assert ears.silent


def test_cancelling_a_parent_reaches_the_workers_of_its_children(store, other, ears):
    """Spec: D6"""
    parent = running(store)
    store.tasks.submit_many([NewTask("plain", parent_id=parent.id)] * 2)
    children = [start(store)[0] for _ in range(2)]
    settle(store, parent, Returned())
    other.tasks.cancel(parent.id)
    heard: set[int] = set()
    while len(heard) < 2:
        heard |= ears.next_asked()
    assert heard == {holder_of(store, child.id) for child in children}


def test_a_family_that_holds_its_mutex_too_long_is_asked_to_stop(store, clock):
    """Spec: A10"""
    parent = running(store, mutex="key")
    store.tasks.submit(NewTask("plain", parent_id=parent.id))
    [child] = start(store)
    settle(store, parent, Returned())
    ears = Ears(store)
    clock.advance(120)
    end_overdue(store, mutex_seconds=60)
    assert ears.asked.get_nowait() == {holder_of(store, child.id)}


# room


def _lost(store: Store, execution: Any) -> None:
    worker_id = holder_of(store, execution.id)
    lose(store, worker_id)
    store.executions.rescue(worker_id)


_LEAVING: dict[str, Callable[[Store, Any], object]] = {
    "success": lambda store, execution: settle(store, execution, Returned()),
    "failure": lambda store, execution: settle(store, execution, Raised("no")),
    "handed over and back": lambda store, execution: settle(store, execution, GivenBack()),
    "given back": lambda store, execution: store.executions.give_back(execution.id, execution.exec_id),
    "rescue": _lost,
}


@pytest.mark.parametrize("fields", [{"lane": "narrow"}, {"type_code": "tooled"}], ids=["lane", "resource"])
@pytest.mark.parametrize("leave", _LEAVING.values(), ids=list(_LEAVING))
def test_leaving_a_limited_lane_or_a_resource_wakes_everybody(store, other, ears, leave, fields):
    """Spec: A9"""
    other.types.put(TaskType("tooled", uses=("tool",)))
    other.lanes.set_capacity("narrow", 1)
    execution = running(other, **fields)
    told = submit(other, delay_seconds=0)
    ears.wake_for(told.id)
    leave(other, execution)
    heard = ears.next_wake()
    assert set(heard.values()) <= {(execution.priority, execution.id)}


def test_cancelling_what_was_handed_over_wakes_where_it_left_room(store):
    """Spec: A9, E1"""
    store.lanes.set_capacity("default", 1)
    task = submit(store)
    start(store, confirm=True)
    ears = Ears(store)
    store.tasks.cancel(task.id)
    assert ears.wakes.get_nowait() == {}


def test_leaving_an_unlimited_lane_wakes_nobody(store):
    """Spec: A9"""
    execution = running(store)
    ears = Ears(store)
    settle(store, execution, Returned())
    assert ears.silent


def test_room_that_is_filled_by_the_commit_that_made_it_wakes_nobody(store):
    """Spec: A9"""
    store.lanes.set_capacity("default", 1)
    execution, waiting = running(store), submit(store)
    ears = Ears(store)
    _, claimed = store.executions.settle_and_claim([Outcome(execution, Returned())], ClaimRequest(worker(store), 1))
    assert [started.id for started in claimed.executions] == [waiting.id]
    assert ears.silent


_EDITS: dict[str, Callable[[Store], object]] = {
    "capacity": lambda store: store.lanes.set_capacity("narrow", 2),
    "resource": lambda store: store.resources.set("tool", 2),
    "lane": lambda store: store.lanes.resume("narrow"),
    "everything": lambda store: store.lanes.resume(),
    "rate": lambda store: store.rate_limits.set("lane:narrow", None),
}


@pytest.mark.parametrize("edit", _EDITS.values(), ids=list(_EDITS))
def test_an_edit_that_lets_more_start_wakes_everybody(store, other, ears, edit):
    """Spec: A9, C4"""
    store.rate_limits.set("lane:narrow", Rate(1, 1))
    store.lanes.pause("narrow")
    store.lanes.pause()
    for _ in range(ears.wakes.qsize()):
        ears.next_wake()
    edit(other)
    assert ears.next_wake() == {}


def test_a_bucket_lifted_elsewhere_is_not_waited_for(store, other):
    """Spec: A9. Whatever the process had done in between to learn of the edit."""
    store.rate_limits.set("lane:default", Rate(0.001, 1))
    submit(store), submit(store)
    assert len(start(store, 9)) == 1
    assert start(store, 9) == []
    other.rate_limits.set("lane:default", None)
    assert store.types.by_code()
    assert len(start(store, 9)) == 1


# its life


def test_a_listener_that_fails_spoils_neither_the_submit_nor_the_others(store, caplog):

    def fail(_: object) -> None:
        raise RuntimeError("not now")

    store.wakeups.on_work(fail)
    ears = Ears(store)
    made = submit(store)
    ears.wake_for(made.id)
    assert "wake-up could not be delivered" in caplog.text


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name in ("headgate listener", "headgate notifier")]


def test_closing_a_store_ends_its_threads(url):
    """Spec: X4"""
    before = _threads()
    store = open_store(url)
    store.types.put(TaskType("plain"))
    Ears(store).listening()
    store.tasks.submit(NewTask("plain"))
    assert len(_threads()) > len(before)
    store.close()
    assert _threads() == before


def test_asking_to_listen_twice_listens_once(ears, store, other):
    store.wakeups.listen()
    made = other.tasks.submit(NewTask("plain"))
    assert [task_id for _, task_id in ears.next_wake().values()] == [made.id]
    assert ears.silent


def _listen_in_a_process(url: str, tell: Connection) -> None:
    with open_store(url) as store:
        ears = Ears(store).listening()
        worker_id = worker(store)
        tell.send(worker_id)
        while not (executions := store.claims.take(ClaimRequest(worker_id, 1)).executions):
            ears.next_wake()
        tell.send(executions[0].id)
        assert worker_id in ears.next_asked()
        tell.send([asked.cancel for asked in store.workers.requests(worker_id, [executions[0].id])])


def test_another_process_hears_of_work_and_of_requests(url):
    with open_store(url) as store:
        store.types.put(TaskType("plain"))
        spawn = multiprocessing.get_context("spawn")
        said, tell = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_listen_in_a_process, args=(url, tell))
        process.start()
        tell.close()
        assert said.poll(PATIENCE)
        said.recv()
        made = store.tasks.submit(NewTask("plain"))
        assert said.poll(PATIENCE)
        assert said.recv() == made.id
        store.tasks.cancel(made.id)
        assert said.poll(PATIENCE)
        assert said.recv() == [True]
        process.join()
        assert process.exitcode == 0


# on the way


def test_news_arrive_as_they_were_sent():
    sent = News({7: (-3, 99), 8: (5, 1)}, {"lane narrow": 2}, {4, 5})
    token, arrived = decode(encode(sent, "me"))
    assert (token, arrived.wakes, arrived.requested, arrived.has_room) == ("me", sent.wakes, sent.requested, True)
    assert not decode(encode(News({7: (1, 1)}, {"lane narrow": 0}), "me"))[1].has_room


@pytest.mark.parametrize("count", [400, 100_000])
def test_more_news_than_fit_are_told_as_anything_may_have_happened(count):
    text = encode(News({10**12 + number: (5, 10**15) for number in range(count)}), "me")
    assert len(text) <= MOST_BYTES
    assert decode(text)[1].missed


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "[1]", '["me", 1, 2, 3]', '["me", [[1]], true, []]', "[" * 10_000, '["me", [], true, [1e999]]',
        '["me", [[1, Infinity, 1]], true, []]', f'["me", [[1, 1, {10**30}]], true, []]', '["me", [], true, ["1"]]',
        '["me", [[true, 1, 1]], true, []]',
    ],
)  # fmt: skip
def test_what_is_no_news_is_told_apart(text):
    """Spec: T20"""
    with pytest.raises((ValueError, RecursionError)):
        decode(text)
