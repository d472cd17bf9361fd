"""Pauses, while everybody claims: by the audit, in the order of its ids, nothing started while it was paused."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

from headgate.core.machine import Returned
from headgate.core.pause import PauseScope
from headgate.core.task import NewTask, TaskType
from headgate.environment import utc_now
from headgate.simulation.checker import check
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import open_store
from tests.stories.evidence import collected, made

CLAIMERS = 4
ROUNDS = 8
SCOPES = (
    (PauseScope.ALL, ""), (PauseScope.LANE, "narrow"), (PauseScope.LANE, "wide"), (PauseScope.TYPE, "plain"),
    (PauseScope.TENANT, "1"), (PauseScope.KEY, "api"),
)  # fmt: skip
PATIENCE = 120.0
AN_HOUR = timedelta(hours=1)


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
        store.rate_limits.set("key:api", None)
        runs = [threads.submit(claim_until, told_to_go, started, url) for _ in range(CLAIMERS)]
        try:
            for number, (scope, name) in enumerate(SCOPES * ROUNDS):
                started.clear()
                tasks = [
                    NewTask("plain", lane=lane, tenant_id=tenant_id, rate_key=rate_key)
                    for lane, tenant_id, rate_key in (("narrow", 0, None), ("wide", 1, "api"))
                ] * 20
                ids += [task.id for task in store.tasks.submit_many(tasks)]
                assert started.wait(PATIENCE)
                assert store.pauses.set(scope, name, until=utc_now() + AN_HOUR if number % 2 else None)
                assert store.pauses.end(scope, name)
        finally:
            told_to_go.set()
        for run in runs:
            run.result(PATIENCE)
    against_limits = [each for each in check(collected(url, submits=[made(ids)])) if each.invariant == "I4"]
    assert against_limits == []  # I1 is no matter here: some may still wait when the last claimer leaves
