"""An agent and the server it talks to, in one simulated process: fetches, confirms the start, works, reports."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from headgate.core.errors import Unavailable, WorkerLost
from headgate.core.machine import Event, Raised, Returned
from headgate.core.retry import next_delay
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.outside import draw, new_ids
from headgate.settings import Settings
from headgate.simulation.bodies import ERRAND
from headgate.simulation.process import Process
from headgate.store.claims import Claimed, ClaimRequest, Outcome

LOOPS = 2  # that fetch at the same time
MOST = 3
NAMED = 0.5  # of the claims have a claim_id, and are asked for again when their answer got lost
AGAIN_SECONDS = (0.2, 4.0)
LOOK_SECONDS = 2.5


class LoopAgent:
    """Does what its tasks say. `forget` and `die` come before the start is confirmed, everything else after it."""

    def __init__(self, process: Process, agent_id: str, settings: Settings) -> None:
        self._process = process
        self._store = process.store
        self._agent_id = agent_id
        self._settings = settings

    async def run(self) -> None:
        """Sign on, and again whenever the lease was lost."""
        while True:
            sign_on = partial(
                self._store.agents.sign_on, self._agent_id, tenant_id=None, types=None,
                lease_seconds=self._settings.lease_seconds, instance=new_ids(1)[0],
            )  # fmt: skip
            agent = await self._surely(sign_on)
            loops = [asyncio.ensure_future(self._fetch(agent.worker_id)) for _ in range(LOOPS)]
            try:
                await self._beat(agent.worker_id)
            except WorkerLost:
                for loop in loops:
                    loop.cancel()

    async def _beat(self, worker_id: int) -> None:
        while True:
            await asyncio.sleep(self._settings.beat_seconds)
            try:
                await self._process.aside(self._store.beat, worker_id)
            except Unavailable:
                continue

    async def _fetch(self, worker_id: int) -> None:
        while True:
            claim_id = new_ids(1)[0] if draw() < NAMED else None
            request = ClaimRequest(
                worker_id, MOST, types=frozenset({ERRAND}), agent_id=self._agent_id, claim_id=claim_id,
                start_seconds=self._settings.compensation_start_interval,
            )  # fmt: skip
            claim = partial(self._store.agents.hand_over, request)
            try:
                claimed: Claimed = await (self._process.aside(claim) if claim_id is None else self._surely(claim))
            except WorkerLost:
                return
            except Unavailable:  # whatever it was handed, it will never know
                await asyncio.sleep(LOOK_SECONDS)
                continue
            for execution in claimed.executions:
                asyncio.ensure_future(self._execute(execution))  # noqa: RUF006 the process keeps it
            if not claimed.executions:
                await asyncio.sleep(LOOK_SECONDS)

    async def _execute(self, handed: Execution) -> None:
        said = json.loads(handed.ext)
        end = said["ends"][min(handed.attempt, len(said["ends"])) - 1]
        if end == "forget":
            return
        if end == "die":
            self._process.kill()
        execution = await self._surely(partial(self._confirm, handed))
        if execution is None:
            return
        self._note("start", execution)
        for _ in range(2):
            await asyncio.sleep(said["seconds"] / 2)
            await self._process.thawed()
            self._note("effect", execution)
        self._note("end", execution)
        event: Event = Raised("it was bound to fail", self._delay(execution)) if end == "fail" else Returned()
        await self._surely(partial(self._store.settle, [Outcome(execution, event)]))

    def _confirm(self, handed: Execution) -> Execution | None:
        """As the API does it: who confirms again, because nobody answered, is told the same again."""
        holding = self._store.agents.holdings([handed.id]).get(handed.id)
        if holding is None or holding.execution.exec_id != handed.exec_id:
            return None
        if holding.execution.status is State.SCHEDULING:
            return self._store.try_start(handed.id, handed.exec_id)
        return holding.execution

    def _delay(self, execution: Execution) -> float | None:
        return next_delay(self._store.type_of(execution.type).retry, execution.error_count, draw())

    def _note(self, what: str, execution: Execution) -> None:
        if self._process.alive:
            self._process.ledger.write(what, execution.id, execution.exec_id, execution.attempt)

    async def _surely(self, work: Callable[[], Any]) -> Any:
        """A call, made again until there is an answer."""
        while True:
            try:
                return await self._process.aside(work)
            except Unavailable:
                first, last = AGAIN_SECONDS
                await asyncio.sleep(first + (last - first) * draw())
