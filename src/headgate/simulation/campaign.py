"""Runs many histories and judges each; the result is a table, and for a failure its shortest history."""

import logging
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from ctypes import c_bool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.sharedctypes import RawValue

from headgate.simulation.checker import Violation, check
from headgate.simulation.plan import Plan, plan
from headgate.simulation.shrink import shrink
from headgate.simulation.world import SimulatedHistory, run
from headgate.store.db.scratch import Open, scratch

BATCH_SIZE = 20  # histories that a process is given at a time
NEVER_STOP = c_bool(False)
_worker: dict[str, c_bool] = {}  # in a process of the pool: the stop flag of the process that started it


@dataclass(frozen=True, slots=True)
class Failure:
    """A history that broke a promise: as it was drawn, and the shortest one that breaks it too."""

    seed: int
    violations: list[Violation]
    shortest: SimulatedHistory


@dataclass(slots=True)
class Campaign:
    """What came of it."""

    histories: int = 0
    with_broker: int = 0  # of them
    steps: int = 0
    fewest_steps: int = 0
    rows: int = 0
    tasks: int = 0
    transactions: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def violations(self) -> int:
        return sum(len(failure.violations) for failure in self.failures)

    def add(self, other: "Campaign") -> None:
        fewest = [one.fewest_steps for one in (self, other) if one.histories]
        self.fewest_steps = min(fewest, default=0)
        self.histories += other.histories
        self.with_broker += other.with_broker
        self.steps += other.steps
        self.rows += other.rows
        self.tasks += other.tasks
        self.transactions += other.transactions
        self.faults += other.faults
        self.failures += other.failures


def stop_flag() -> c_bool:
    """A flag that stops `simulate_on`, in all of its processes, once it is set true."""
    return RawValue(c_bool, False)


def simulate_on(
    url: str,
    seeds: Sequence[int],
    processes: int = 1,
    on_progress: Callable[[Campaign], None] = lambda campaign: None,
    stop: c_bool = NEVER_STOP,
) -> Campaign:
    """Live through the histories of these seeds, in `processes` at a time.

    The first failure or `stop` ends it: histories that were begun are completed and count.
    """
    total, batches = Campaign(), [seeds[begin : begin + BATCH_SIZE] for begin in range(0, len(seeds), BATCH_SIZE)]
    with ExitStack() as stack:
        if processes == 1:
            results: Iterable[Campaign] = map(partial(_simulate_batch, url, stop), batches)
        else:
            pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_worker, (stop,))
            stack.enter_context(pool)
            with _sigint_blocked():
                results = pool.map(partial(_simulate_batch_in_worker, url), batches)
        for result in results:
            total.add(result)
            on_progress(total)
            if total.failures:
                break
    return total


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Processes started in here ignore Ctrl-C, which a terminal sends to all of its processes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(stop: c_bool) -> None:
    logging.disable(logging.CRITICAL)
    _worker["stop"] = stop


def _simulate_batch_in_worker(url: str, seeds: Sequence[int]) -> Campaign:
    return _simulate_batch(url, _worker["stop"], seeds)


def _simulate_batch(url: str, stop: c_bool, seeds: Sequence[int]) -> Campaign:
    if stop.value:
        return Campaign()
    with scratch(url) as open_database:
        return simulate(seeds, open_database, stop)


def simulate(seeds: Iterable[int], open_database: Open, stop: c_bool = NEVER_STOP) -> Campaign:
    """Live through the histories of these seeds, one after the other, up to the first that fails or until `stop`."""
    campaign = Campaign()
    for seed in seeds:
        if stop.value:
            break
        history = run(plan(seed), open_database)
        violations = check(history.evidence)
        failures = [Failure(seed, violations, shortest(history, violations, open_database))] if violations else []
        campaign.add(_campaign_of(history, failures))
        if failures:
            break
    return campaign


def _campaign_of(history: SimulatedHistory, failures: list[Failure]) -> Campaign:
    steps = len(history.trace)
    return Campaign(
        histories=1,
        with_broker=int(history.plan.broker),
        steps=steps,
        fewest_steps=steps,
        rows=len(history.evidence.rows),
        tasks=len(history.evidence.tasks),
        transactions=Counter(transaction.what for transaction in history.trace),
        faults=history.faults,
        failures=failures,
    )


def shortest(history: SimulatedHistory, violations: list[Violation], open_database: Open) -> SimulatedHistory:
    """The shortest history that breaks the same promise."""
    broken = violations[0].invariant

    def fails(less: Plan) -> bool:
        return any(violation.invariant == broken for violation in check(run(less, open_database).evidence))

    return run(shrink(history.plan, fails), open_database)
