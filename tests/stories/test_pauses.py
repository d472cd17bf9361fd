"""Pauses, while everybody claims: by the audit, in the order of its ids, nothing started while it was paused."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from headgate.core.machine import Returned
from headgate.core.task import NewTask, TaskType
from headgate.simulation.checker import check
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import open_store
from tests.stories.evidence import collected, made

CLAIMERS = 4
ROUNDS = 15
SCOPES = (None, "narrow", "wide")  # None: everything
PATIENCE = 20.0


def claim_until(told_to_go: Event, started: Event, url: str) -> None:
    """Start and end tasks, as a worker does, until nothing is left and it is told to go."""
    with open_store(url) as store:
        request = ClaimRequest(store.workers.register("claimer"), 2)
        executions = store.claims.take(request).executions
        while executions or not told_to_go.is_set():
            if executions:
                started.set()
            outcomes = [Outcome(execution, Returned()) for execution in executions]
            executions = store.executions.settle_and_claim(outcomes, request)[1].executions


def test_nothing_starts_behind_the_row_of_its_pause(url):
    """Spec: A9, X5"""
    told_to_go, started = Event(), Event()
    ids: list[int] = []
    with open_store(url) as store, ThreadPoolExecutor(CLAIMERS) as threads:
        store.types.put(TaskType("plain"))
        runs = [threads.submit(claim_until, told_to_go, started, url) for _ in range(CLAIMERS)]
        try:
            for scope in SCOPES * ROUNDS:
                started.clear()
                tasks = [NewTask("plain", lane=lane) for lane in ("narrow", "wide")] * 20
                ids += [task.id for task in store.tasks.submit_many(tasks)]
                assert started.wait(PATIENCE)
                assert store.lanes.pause(scope)
                assert store.lanes.resume(scope)
        finally:
            told_to_go.set()
        for run in runs:
            run.result(PATIENCE)
    against_limits = [each for each in check(collected(url, submits=[made(ids)])) if each.invariant == "I4"]
    assert against_limits == []  # I1 is no matter here: some may still wait when the last claimer leaves
