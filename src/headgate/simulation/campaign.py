"""Many histories, one after the other, each judged; what is left is a table, and of a failure its shortest form."""

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
from headgate.simulation.world import History, run
from headgate.store.scratch import Open, scratch

SHARE = 20  # histories that a process is given at a time
NEVER = c_bool(False)
_there: dict[str, c_bool] = {}  # in a process that was begun for histories: the wish of the one that began it


@dataclass(frozen=True, slots=True)
class Failure:
    """A history that broke a promise: as it was drawn, and the shortest one that breaks it too."""

    seed: int
    violations: list[Violation]
    shortest: History


@dataclass(slots=True)
class Campaign:
    """What came of it."""

    histories: int = 0
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
        self.steps += other.steps
        self.rows += other.rows
        self.tasks += other.tasks
        self.transactions += other.transactions
        self.faults += other.faults
        self.failures += other.failures


def wish() -> c_bool:
    """A wish to stop: what is set true here is seen by every process that `simulate_on` begins."""
    return RawValue(c_bool, False)


def simulate_on(
    url: str,
    seeds: Sequence[int],
    processes: int = 1,
    told: Callable[[Campaign], None] = lambda campaign: None,
    stop: c_bool = NEVER,
) -> Campaign:
    """Live through the histories of these seeds, so many at a time.

    The first failure ends it, and a wish to stop: what was lived through by then counts, and no history is cut short.
    """
    whole, shares = Campaign(), [seeds[begin : begin + SHARE] for begin in range(0, len(seeds), SHARE)]
    with ExitStack() as stack:
        if processes == 1:
            answers: Iterable[Campaign] = map(partial(_share, url, stop), shares)
        else:
            pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin, (stop,))
            stack.enter_context(pool)
            with _unheard():
                answers = pool.map(partial(_share_there, url), shares)
        for answer in answers:
            whole.add(answer)
            told(whole)
            if whole.failures:
                break
    return whole


@contextmanager
def _unheard() -> Iterator[None]:
    """Processes that are begun in here hear of no Ctrl-C, which goes to all that a terminal has."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(stop: c_bool) -> None:
    logging.disable(logging.CRITICAL)
    _there["stop"] = stop


def _share_there(url: str, seeds: Sequence[int]) -> Campaign:
    return _share(url, _there["stop"], seeds)


def _share(url: str, stop: c_bool, seeds: Sequence[int]) -> Campaign:
    if stop.value:
        return Campaign()
    with scratch(url) as open_database:
        return simulate(seeds, open_database, stop)


def simulate(seeds: Iterable[int], open_database: Open, stop: c_bool = NEVER) -> Campaign:
    """Live through the histories of these seeds, one after the other, up to the first that fails or a wish to stop."""
    campaign = Campaign()
    for seed in seeds:
        if stop.value:
            break
        history = run(plan(seed), open_database)
        violations = check(history.evidence)
        failures = [Failure(seed, violations, shortest(history, violations, open_database))] if violations else []
        campaign.add(_one(history, failures))
        if failures:
            break
    return campaign


def _one(history: History, failures: list[Failure]) -> Campaign:
    steps = len(history.trace)
    return Campaign(
        histories=1,
        steps=steps,
        fewest_steps=steps,
        rows=len(history.evidence.rows),
        tasks=len(history.evidence.tasks),
        transactions=Counter(transaction.what for transaction in history.trace),
        faults=history.faults,
        failures=failures,
    )


def shortest(history: History, violations: list[Violation], open_database: Open) -> History:
    """The shortest history that breaks the same promise."""
    broken = violations[0].invariant

    def fails(less: Plan) -> bool:
        return any(violation.invariant == broken for violation in check(run(less, open_database).evidence))

    return run(shrink(history.plan, fails), open_database)
