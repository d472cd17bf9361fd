"""A worker inside another program: what does not end keeps its slot and its mutex, and the worker says so."""

import json
import threading

from headgate.app import Headgate
from headgate.core.states import State
from headgate.settings import Settings
from tests.worker.conftest import until, working


def test_a_thread_that_ignores_its_end_keeps_slot_and_mutex_and_its_worker_claims_nothing(url: str):
    """Spec: A6, A10, X3"""
    app = Headgate(
        settings=Settings(
            url=url, beat_seconds=0.1, lease_seconds=30, poll_seconds=0.1, reap_seconds=0.1, stuck_seconds=0.2
        )
    )
    inside, done = threading.Event(), threading.Lock()
    done.acquire()

    @app.task(timeout_seconds=0.3, mutex="only")
    def stuck() -> None:
        inside.set()
        with done:  # in C: no exception comes through
            pass

    @app.task(mutex="only")
    async def next_one() -> None: ...

    @app.task
    async def other() -> None: ...

    def told() -> list[list[int]]:
        return [json.loads(worker.detail or "{}").get("stuck") for worker in app.store.workers.all()]

    with working(app, due=True):
        late = stuck.submit_sync()
        assert inside.wait(60)
        behind = next_one.submit_sync()
        until(lambda: told() == [[late.id]])
        beside = other.submit_sync()
        assert app.store.executions.end_overdue() == [], "it is its worker's to end"
        assert late.record_sync().status is State.RUNNING
        [name] = [worker.name for worker in app.store.workers.all()]
        why = {gate.name: gate.reason for gate in app.store.tasks.why(behind.id)}
        for name_of_gate in ("mutex", "worker"):
            assert why[name_of_gate].endswith(f"; the handler of task {late.id} does not stop on worker {name}")
        assert (behind.record_sync().status, beside.record_sync().status) == (State.BLOCKED, State.QUEUED)
        done.release()
        assert late.wait_sync(120).error == "TimeoutError: it ran for more than 0.3 s"
        assert {behind.wait_sync(120).status, beside.wait_sync(30).status} == {State.SUCCEEDED}
        until(lambda: told() == [[]])
    assert late.record_sync().error_count == 1
    app.close()


def test_a_task_that_comes_back_while_its_old_handler_runs_gets_a_slot_of_its_own(url: str):
    """Spec: B3"""
    app = Headgate(settings=Settings(url=url, beat_seconds=0.1, lease_seconds=30, poll_seconds=0.1, stuck_seconds=60))
    both, done = threading.Semaphore(0), threading.Event()

    @app.task
    def stubborn() -> None:
        both.release()
        done.wait(60)

    with working(app, threads=2) as worker:
        task = stubborn.submit_sync()
        assert both.acquire(timeout=60)
        [old] = worker.held
        app.store.executions.give_back(task.id, old)
        assert both.acquire(timeout=60)
        until(lambda: len(worker.held) == 2)
        done.set()
        assert task.wait_sync(120).status is State.SUCCEEDED
    app.close()
