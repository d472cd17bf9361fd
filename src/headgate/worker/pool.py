"""The slots of one kind of execution: filled by claims, emptied by settling, in one transaction where both are due."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any

from headgate.core.end_reasons import EndReason
from headgate.core.errors import Unavailable, WorkerLost
from headgate.core.machine import Event, GivenBack, Raised
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.environment import monotonic, random_number
from headgate.events.end_lines import EndLines, log_failure
from headgate.events.log_lines import FIELDS
from headgate.events.telemetry import settling, task_fields
from headgate.pauses import Backoff, wait
from headgate.store.claim.contract import Claimed, ClaimRequest, Outcome
from headgate.store.execution.executions import Settled
from headgate.store.store import Store
from headgate.threads import InThread
from headgate.worker.deliveries import Deliveries, Delivery
from headgate.worker.run import Run, Stop
from headgate.worker.waits import Waits

log = logging.getLogger("headgate.worker")
FEEDERS = 2  # one is with the database while the other's tasks run
GATHER_SECONDS = 0.001
BUSY_SECONDS = 0.005
SOONEST_SECONDS = 0.005  # tokens that come faster than that come together
BACKOFF = Backoff(0.2, 5.0, jitter=0.5)


class Pool:
    """`slots` executions of some types at once, each until its handler has really ended.

    While it is `fed` by the broker it claims nothing but what lent slots are for: `offer` fills it.

    `launch` starts one and calls `ended` when it is over; `on_lost` is called when the worker was declared lost.
    """

    def __init__(
        self,
        store: Store,
        in_thread: InThread,
        types: Collection[str],
        slots: int,
        launch: Callable[[Execution], Run],
        poll_seconds: float,
        on_lost: Callable[[], None],
        end_lines: EndLines,
        waits: Waits,
    ) -> None:
        self.types = frozenset(types)
        self.slots = slots
        self.held: dict[str, Run] = {}  # by exec_id: a task taken away may come back while its old handler still runs
        self._store = store
        self._in_thread = in_thread
        self._launch = launch
        self._poll = poll_seconds
        self._on_lost = on_lost
        self._end_lines = end_lines
        self._waits = waits
        self.fed = False
        self.on_room: Callable[[], object] = lambda: None  # called when a slot may be free again
        self._delivered = Deliveries()
        self.deliveries = self._delivered.counts
        self._worker_id = 0
        self._claiming = False
        self._ended: list[Outcome] = []
        self._settling = 0  # held, but on their way out
        self._claimed = 0  # slots that claims under way may fill
        self._busy = 0  # feeders with the database
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        self._claim_at = 0.0
        self._wakes = 0  # a count, so that a wake-up during a claim is noticed
        self._failures = 0
        self._strays = False  # a claim may have been committed without our knowledge

    def begin_claiming(self, worker_id: int) -> None:
        self._worker_id = worker_id
        self._claiming, self._claim_at = True, 0.0
        self._delivered.open()
        self._woken.set()

    def stop_claiming(self) -> None:
        self._claiming = False
        self._delivered.close()
        self._woken.set()

    def feed_by_broker(self, fed: bool) -> None:
        """Leave the claiming to the dispatcher, or take it up again."""
        if fed is not self.fed:
            self.fed = fed
            self.wake()

    @property
    def _used(self) -> int:
        """Slots that are taken, or that something on its way will take."""
        return len(self.held) - self._settling + self._claimed + len(self._delivered)

    @property
    def has_free_slot(self) -> bool:
        return self._claiming and self._used < self.slots

    def offer(self, delivery: Delivery) -> bool:
        """Take on what the broker delivered; False if no slot is free."""
        if not self.has_free_slot:
            return False
        self._delivered.add(delivery)
        self._woken.set()
        return True

    def wake(self) -> None:
        """There may be something to claim."""
        self._wakes += 1
        if not self._failures:
            self._claim_at = 0.0
            self._woken.set()

    def stop_all(self, reason: Stop) -> None:
        for run in list(self.held.values()):
            run.stop(reason)

    def ended(self, run: Run, event: Event | None) -> None:
        """An execution is over; without an event there is nothing to settle."""
        if event is None:
            self.held.pop(run.execution.exec_id, None)
        else:
            self._ended.append(Outcome(run.execution, event, run.usage, run.progress))
        self._woken.set()
        self._changed.set()

    def give_up(self, run: Run) -> None:
        """A handler does not end: it keeps its slot, and the worker no longer waits for it."""
        run.stuck = True
        self._changed.set()

    async def wait_until_empty(self) -> None:
        """Wait until only stuck runs are held, nothing is left to settle and no call to the store is under way."""
        while not self.empty:
            self._changed.clear()
            await self._changed.wait()

    @property
    def empty(self) -> bool:
        return not (self._ended or self._busy or any(not run.stuck for run in self.held.values()))

    async def serve(self) -> None:
        """Claim and settle until cancelled."""
        async with asyncio.TaskGroup() as feeders:
            for _ in range(FEEDERS):
                feeders.create_task(self._feed())

    async def _feed(self) -> None:
        while True:
            self._woken.clear()
            if self._ended and len(self._ended) < len(self.held):
                await asyncio.sleep(GATHER_SECONDS)  # what ends together is settled together
            pause = self._pause()
            if pause > 0:
                await wait(self._woken, pause)
                continue
            self._busy += 1
            try:
                await self._cycle()
            finally:
                self._busy -= 1
                self._woken.set()
                self._changed.set()

    def _pause(self) -> float:
        """How long there is nothing to do."""
        if self._busy and (self._failures or self._strays):
            return self._poll  # one at a time, until the store works again
        left = self._claim_at - monotonic()
        if self._failures:
            return left
        if self._ended or self._delivered.waiting:
            return 0.0
        return left if self._strays or self._room()[0] else self._poll

    def _room(self) -> tuple[int, frozenset[int] | None]:
        """How many a feeder may claim: its share of the slots, so that there is something left for the other. When all
        are taken, one more for each handler that waits, but only of the tasks that are waited for (their ids)."""
        if not self._claiming:
            return 0, None
        used = self._used
        if used < self.slots:
            if self.fed:
                return 0, None
            return min(self.slots - used, -(-self.slots // FEEDERS)), None
        awaited = self._waits.awaited - {run.execution.id for run in self.held.values()}
        lent = self.slots + len(self._waits.waiters) - used if awaited else 0
        return max(lent, 0), frozenset(awaited)

    async def _request(self, want: int, awaited: frozenset[int] | None) -> ClaimRequest | None:
        """The claim for up to `want` tasks: any, or only those that must start before the awaited ones can end."""
        if want and awaited is not None:
            awaited = frozenset(await self._in_thread(self._store.families.awaited, awaited))
        if not want or awaited == frozenset():
            return None
        return ClaimRequest(self._worker_id, want, types=self.types, ids=awaited)

    async def _cycle(self) -> None:
        outcomes, self._ended = self._ended, []
        handed = self._delivered.take()
        self._settling += len(outcomes)
        (want, awaited), worker_id, wakes = self._room(), self._worker_id, self._wakes
        if handed or (outcomes and awaited is not None):  # how many to claim is known once these are settled
            want = 0
        self._claimed += want
        try:
            if self._strays:
                await self._in_thread(self._store.executions.give_back_strays, worker_id, self.types, set(self.held))
                self._strays = False
            request = await self._request(want, awaited)
            states, claimed = await self._settle_and_claim(outcomes, request, handed)
        except WorkerLost:
            self._ended[:0] = outcomes
            if worker_id == self._worker_id:  # else it has signed on anew meanwhile
                self.stop_claiming()
                self._on_lost()
            self._delivered.put_back(handed)
        except Exception as error:  # whatever failed, keep the outcomes
            self._ended[:0] = outcomes
            self._delivered.put_back(handed)
            self._strays = True
            self._back_off(error)
        else:
            self._failures = 0
            self._end_lines.settled(outcomes, states, self._run_of)
            self._refill(outcomes, want, wakes, claimed)
        finally:
            self._settling -= len(outcomes)
            self._claimed -= want
            self.on_room()

    async def _settle_and_claim(
        self, outcomes: list[Outcome], request: ClaimRequest | None, handed: list[Delivery]
    ) -> Settled:
        try:
            with settling(len(outcomes), (self.held.get(outcome.execution.exec_id) for outcome in outcomes)):
                if request is None and (handed or self.fed):
                    return await self._settle_and_start(outcomes, handed)
                return await self._in_thread(
                    self._store.executions.settle_and_claim, outcomes, request, actor=f"worker:{self._worker_id}"
                )
        except (Unavailable, WorkerLost):
            raise
        except Exception as error:  # one of the reports cannot be written: it fails, the others are not held up
            if not outcomes:
                raise
            log.error("batch of reports refused, storing each alone: count=%d error=%s", len(outcomes), error)
            self._strays = True  # it may have been raised after the commit, with tasks started
            states = [await self._settle_alone(outcome) for outcome in outcomes]
            self._delivered.put_back(handed)
            return states, Claimed([], busy=True)

    async def _settle_and_start(self, outcomes: list[Outcome], handed: list[Delivery]) -> Settled:
        """Start what was delivered; it is acknowledged when that is committed, whatever came of it."""
        states, started = await self._in_thread(
            self._store.executions.settle_and_start, outcomes, self._worker_id, [each.report for each in handed]
        )
        self._delivered.answer(handed, started)
        if started.busy:
            await asyncio.sleep(BUSY_SECONDS)
        return states, Claimed(started.executions)

    async def _settle_alone(self, outcome: Outcome) -> State | None:
        try:
            return (await self._in_thread(self._store.executions.settle, [outcome]))[0]
        except (Unavailable, WorkerLost):
            raise
        except Exception as error:
            refused = Raised(f"its end was refused: {error}", None, EndReason.FATAL)
            log_failure(outcome.execution, refused, *self._run_of(outcome))
            return (await self._in_thread(self._store.executions.settle, [Outcome(outcome.execution, refused)]))[0]

    def _run_of(self, outcome: Outcome) -> tuple[float, Any]:
        """How many seconds a run took, and its span."""
        run = self.held.get(outcome.execution.exec_id)
        return (0.0, None) if run is None or run.ended is None else (run.ended - run.begun, run.span)

    def _refill(self, outcomes: list[Outcome], want: int, wakes: int, claimed: Claimed) -> None:
        for outcome in outcomes:
            self.held.pop(outcome.execution.exec_id, None)
        for execution in claimed.executions:
            try:
                self.held[execution.exec_id] = self._launch(execution)
            except Exception:
                fields = {FIELDS: task_fields(execution)}
                log.exception("task could not be started, handing it back: task=%d", execution.id, extra=fields)
                self._ended.append(Outcome(execution, GivenBack()))
        if claimed.busy:
            self._claim_at = monotonic() + BUSY_SECONDS * (0.4 + 1.6 * random_number())
        elif want and len(claimed.executions) < want and self._wakes == wakes:
            pause = self._poll * (0.9 + 0.2 * random_number())
            if claimed.token_in is not None:  # the next token comes sooner, and no wake-up announces it
                pause = min(pause, max(claimed.token_in, SOONEST_SECONDS))
            self._claim_at = monotonic() + pause

    def _back_off(self, error: Exception) -> None:
        if self._failures == 0:
            log.warning(
                "cannot claim tasks or store their ends, retrying: error=%s",
                error,
                exc_info=not isinstance(error, Unavailable),
            )
        self._claim_at = monotonic() + BACKOFF.pause(self._failures)
        self._failures += 1
