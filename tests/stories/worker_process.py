"""One process of the story: claims, ends what it claimed in every way, and meddles like people do."""

import random
import signal
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

from headgate.core.errors import Refused
from headgate.core.machine import GivenBack, Raised, Returned, Snoozed
from headgate.core.task import Execution
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store

LANES = ("left", "middle", "right")
RETRIES = 2
LIMIT = 4


@dataclass(frozen=True)
class Signals:
    """How the story and its processes talk."""

    hold: Event  # whoever is to die keeps what it claims next, and says so
    stop: Event
    tell: Connection


def run(url: str, number: int, ids: range, doomed: bool, signals: Signals) -> None:
    """Work until told to stop; whatever is raised is told, and ends it."""
    try:
        with open_store(url) as store:
            _Process(store, random.Random(number), ids, doomed, signals).work()
        signals.tell.send(("stopped", None))
    except BaseException:
        signals.tell.send(("raised", traceback.format_exc()))


class _Process:
    def __init__(self, store: Store, dice: random.Random, ids: range, doomed: bool, signals: Signals) -> None:
        self._store, self._dice, self._ids = store, dice, ids
        self._doomed, self._signals = doomed, signals
        self._worker_id = store.workers.register("story", lease_seconds=3600.0)

    def work(self) -> None:
        outcomes: list[Outcome] = []
        while not self._signals.stop.is_set():
            request = ClaimRequest(self._worker_id, self._dice.randint(1, LIMIT))
            _, claimed = self._store.executions.settle_and_claim(outcomes, request)
            if claimed.executions and self._doomed and self._signals.hold.is_set():
                self._signals.tell.send(("holds", (self._worker_id, [e.id for e in claimed.executions])))
                signal.pause()  # for ever: nothing shared may be waited for by one who dies waiting
            self._meddle()
            outcomes = [Outcome(execution, self._end(execution)) for execution in claimed.executions]
            if not outcomes:
                self._store.due.bring()
                self._signals.stop.wait(self._dice.uniform(0.002, 0.01))  # as a worker does that found nothing
        self._store.executions.settle(outcomes)

    def _end(self, execution: Execution) -> Any:
        draw = self._dice.random()
        if draw < 0.15:
            return Raised("no luck", 0.0 if execution.error_count < RETRIES else None)
        if draw < 0.25:
            return Snoozed(0.0)
        return GivenBack() if draw < 0.3 else Returned()

    def _meddle(self) -> None:
        draw, task_id = self._dice.random(), self._dice.choice(self._ids)
        try:
            if draw < 0.05:
                self._store.tasks.cancel(task_id)
            elif draw < 0.15:
                self._store.tasks.pause(task_id)
            elif draw < 0.25:
                self._store.tasks.resume(task_id)
            elif draw < 0.35:
                self._store.tasks.prioritize(task_id, self._dice.choice([None, 1, 9]))
            elif draw < 0.40:
                self._store.lanes.set_capacity(self._dice.choice(LANES), self._dice.choice([1, 5]))
        except Refused:
            pass  # it was over by then
