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
from headgate.environment import new_ids, random_number
from headgate.settings import Settings
from headgate.simulation.process import Process
from headgate.simulation.tasks import ERRAND
from headgate.store.claim.contract import Claimed, ClaimRequest, HeldBack, Outcome

FETCH_LOOPS = 2  # that fetch at the same time
CLAIM_LIMIT = 3
CLAIM_ID_SHARE = 0.5  # of the claims have a claim_id: they are repeated when their answer gets lost
RETRY_SECONDS = (0.2, 4.0)
IDLE_SECONDS = 2.5


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
            agent = await self._until_answered(sign_on)
            loops = [asyncio.ensure_future(self._fetch(agent.worker_id)) for _ in range(FETCH_LOOPS)]
            try:
                await self._beat(agent.worker_id)
            except WorkerLost:
                for loop in loops:
                    loop.cancel()

    async def _beat(self, worker_id: int) -> None:
        while True:
            await asyncio.sleep(self._settings.beat_seconds)
            try:
                await self._process.in_thread(self._store.workers.beat, worker_id)
            except Unavailable:
                continue

    async def _fetch(self, worker_id: int) -> None:
        while True:
            claim_id = new_ids(1)[0] if random_number() < CLAIM_ID_SHARE else None
            request = ClaimRequest(
                worker_id, CLAIM_LIMIT, types=frozenset({ERRAND}), agent_id=self._agent_id, claim_id=claim_id,
                start_seconds=self._settings.compensation_start_interval,
            )  # fmt: skip
            claim = partial(self._store.agents.hand_over, request)
            try:
                call = self._process.in_thread if claim_id is None else self._until_answered
                claimed: Claimed = await call(claim)
            except WorkerLost:
                return
            except Unavailable:  # it never learns which tasks it got
                await asyncio.sleep(IDLE_SECONDS)
                continue
            for execution in claimed.executions:
                asyncio.ensure_future(self._execute(execution))  # noqa: RUF006 the process keeps it
            if not claimed.executions:
                await asyncio.sleep(IDLE_SECONDS)

    async def _execute(self, scheduled: Execution) -> None:
        arguments = json.loads(scheduled.ext)
        end = arguments["ends"][min(scheduled.attempt, len(arguments["ends"])) - 1]
        if end == "forget":
            return
        if end == "die":
            self._process.kill()
        execution = await self._until_answered(partial(self._confirm, scheduled))
        if execution is None:
            return
        self._note("start", execution)
        for _ in range(2):
            await asyncio.sleep(arguments["seconds"] / 2)
            await self._process.thawed()
            self._note("effect", execution)
        if end == "fail":
            self._note("error", execution)
        self._note("end", execution)
        event: Event = Raised("it was bound to fail", self._delay(execution)) if end == "fail" else Returned()
        await self._until_answered(partial(self._store.executions.settle, [Outcome(execution, event)]))

    def _confirm(self, scheduled: Execution) -> Execution | None:
        """Confirm the start as the API does: a confirmation repeated after a lost answer gets the same answer."""
        holding = self._store.agents.holdings([scheduled.id]).get(scheduled.id)
        if holding is None or holding.execution.exec_id != scheduled.exec_id:
            return None
        if holding.execution.status is State.SCHEDULING:
            started = self._store.executions.start(scheduled.id, scheduled.exec_id)
            return None if isinstance(started, HeldBack) else started
        return holding.execution

    def _delay(self, execution: Execution) -> float | None:
        return next_delay(self._store.types.recent(execution.type).retry, execution.error_count, random_number())

    def _note(self, what: str, execution: Execution) -> None:
        self._process.note(what, execution.id, execution.exec_id, execution.attempt)

    async def _until_answered(self, work: Callable[[], Any]) -> Any:
        """Call the store until it answers."""
        while True:
            try:
                return await self._process.in_thread(work)
            except Unavailable:
                first, last = RETRY_SECONDS
                await asyncio.sleep(first + (last - first) * random_number())
