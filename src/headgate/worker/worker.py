"""A worker: claims tasks for its slots, runs their handlers, renews its lease, and shuts down cleanly."""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ParamSpec, TypeVar

import msgspec

from headgate.broker.connection import Link, OpenLink
from headgate.client import SlotLender
from headgate.core.errors import HeadgateError, Invalid
from headgate.core.machine import Event
from headgate.core.task import Execution
from headgate.environment import monotonic
from headgate.events.end_lines import EndLines
from headgate.events.listeners import Listener
from headgate.events.log_lines import FIELDS
from headgate.events.telemetry import task_fields
from headgate.pauses import wait
from headgate.registry import Isolation, Registry
from headgate.settings import Settings
from headgate.store.claim.contract import Control
from headgate.store.execution.revoke import ENDS_OVERDUE
from headgate.store.execution.workers import BY_BROKER, Request
from headgate.store.store import Store
from headgate.threads import Threads
from headgate.worker.beat import Beat
from headgate.worker.consumer import BrokerConsumer
from headgate.worker.executor import Executor
from headgate.worker.holds import HoldLine
from headgate.worker.listeners import listening
from headgate.worker.loop_watch import LoopWatch
from headgate.worker.parent import Parent
from headgate.worker.pool import Pool
from headgate.worker.pulse import LOST_SHARE
from headgate.worker.run import Run, Stop
from headgate.worker.stacks import coroutine_stack
from headgate.worker.stage import Stage
from headgate.worker.usage import current_usage
from headgate.worker.waits import Waits

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("headgate.worker")
CONCURRENCY = 100
THREADS = 16
GIVE_BACK_SECONDS = 5.0
SETTLE_SECONDS = 8.0  # for the last settles: a task whose end is not stored would run again
RETRY_SECONDS = 1.0
MOST_TOLD = 1_000  # awaited tasks, in what a worker says of itself
WATCH_SHARE = 0.05  # of a lease


class Worker:
    """Executes the tasks of a registry's types until it is stopped.

    While it lives, an execution's slot, resources and mutex become free only when its handler has really ended: no
    other process ends an execution for being late. A handler that does not stop when told to makes the worker unfit.
    An unfit worker claims nothing more. With a `parent` it drains and ends, and its process is replaced; without one
    it waits until the handler ends.

    While it runs it calls the `listeners` too: pass those of the program.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        *,
        name: str | None = None,
        concurrency: int = CONCURRENCY,
        threads: int = THREADS,
        children: int | None = None,
        listeners: Iterable[Listener] = (),
        parent: Parent | None = None,
        stage: Stage | None = None,
        beat: type[Beat] = Beat,
        watch: type[LoopWatch] = LoopWatch,
        link: OpenLink = Link,
    ) -> None:
        if not len(registry):
            raise Invalid("no module declares a task: use @app.task")
        self.id = 0
        self.unfit = False  # its process is to be ended, whatever still runs in it
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.settings = settings
        self.store = store
        self._registry = registry
        self._listeners = list(listeners)
        self.waits = Waits()
        self._parent = parent
        self._calls = Threads("headgate store", 16)
        self._end_lines = EndLines()
        store.families.on_end = self._end_lines.parent_ended
        self._beat = beat(
            store,
            settings.beat_seconds,
            held=lambda: {exec_id: run.execution.id for pool in self.pools for exec_id, run in [*pool.held.items()]},
            on_requests=lambda requests: self._call_soon(self._obey_requests, requests),
            on_revoked=lambda exec_ids: self._call_soon(self._stop_revoked, exec_ids),
            on_lost=lambda: self._call_soon(self._sign_on_again),
            detail=self._detail,
        )
        self._watch = watch(self._on_loop, settings.stuck_seconds, self._end_blocked)
        self._line = HoldLine(store, self.in_thread, settings.poll_seconds)
        self._executor = Executor(
            store,
            settings,
            self.in_thread,
            self._call_soon,
            self._watch,
            stage or Stage(),
            SlotLender(self._lend_slot, self.waits.waiters_of),
            self._line,
            self._give_up,
        )
        slots = {Isolation.LOOP: concurrency, Isolation.THREAD: threads, Isolation.PROCESS: children or os.cpu_count()}
        self.pools = [
            self._pool(types, slots[isolation] or 1)
            for isolation in Isolation
            if (types := [handler.code for handler in registry if handler.isolation is isolation])
        ]
        self._consumer = (
            BrokerConsumer(store, settings, self.pools, self.in_thread, self._beat.now, link)
            if settings.broker
            else None
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signing_on: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._handing_back = False

    def _pool(self, types: Collection[str], slots: int) -> Pool:
        def launch(execution: Execution) -> Run:
            run = Run(execution, self._registry[execution.type], self.settings.mutex_seconds)
            self._executor.start(run, lambda run, event: self._ended(pool, run, event))
            if self._handing_back:  # claimed a moment before claiming stopped
                run.stop(Stop.DRAIN)
            return run

        poll, on_lost = self.settings.poll_seconds, self._beat.now
        pool = Pool(self.store, self.in_thread, types, slots, launch, poll, on_lost, self._end_lines, self.waits)
        return pool

    @contextmanager
    def _lend_slot(self, waiter: int, task_id: int) -> Iterator[None]:
        """Let a task run beside the others while the handler of another waits for it; from any thread."""
        with self.waits.waiting(waiter, task_id):
            self._call_soon(self._wake)
            yield

    async def in_thread(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread."""
        return await self._calls(work, *args, **kwargs)

    # its life

    async def run(self) -> None:
        """Work until `stop`; then finish what runs, or give it back when the grace period is over."""
        self._loop = asyncio.get_running_loop()
        async with listening(self._listeners, self.store, self.settings):
            await self._run()

    async def _run(self) -> None:
        self.store.wakeups.on_work(lambda wakes: self._call_soon(self._wake))
        self.store.wakeups.on_resources(lambda resources: self._call_soon(self._line.ring, resources))
        self.store.wakeups.on_requests(lambda workers: self._beat.now() if self.id in workers else None)
        self.store.wakeups.listen()
        self._watch.begin()
        await self._sign_on()
        feeding = [asyncio.create_task(pool.serve()) for pool in self.pools]
        watching = asyncio.create_task(self._watch_lease())
        stopping = asyncio.create_task(self._stopping.wait())
        consuming = [asyncio.create_task(self._consumer.run())] if self._consumer is not None else []
        try:
            await asyncio.wait([*feeding, stopping], return_when=asyncio.FIRST_COMPLETED)
            for consumer in consuming:  # at once: messages not started here go to other workers
                consumer.cancel()
            await self._drain()
        finally:
            for task in (*feeding, *consuming, stopping, watching):
                task.cancel()
            ends = await asyncio.gather(*feeding, *consuming, stopping, watching, return_exceptions=True)
            self._watch.stop()
            await self._sign_off()
        for end in ends:
            if isinstance(end, Exception):  # a feeder that broke is not a clean shutdown
                raise end

    def stop(self) -> None:
        """Shut down cleanly; a second call shuts down at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self._stop_claiming()

    def _stop_claiming(self) -> None:
        for pool in self.pools:
            pool.stop_claiming()

    @property
    def renewed_at(self) -> float:
        """When its lease was last renewed, by the monotonic clock; 0 before it has one."""
        return self._beat.renewed_at

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def stop_from_thread(self) -> None:
        """`stop`, from any thread."""
        self._call_soon(self.stop)

    async def _sign_on(self) -> None:
        """Take up a new lease, and begin to claim under it."""
        types = [handler.code for handler in self._registry]
        while not self._stopping.is_set():
            begun = monotonic()
            try:
                self.id = await self.in_thread(self._register, types)
            except Exception as error:  # a worker that gave up here would look alive and do nothing
                log.warning("cannot sign on, retrying: error=%s", error)
                await wait(self._stopping, RETRY_SECONDS)
                continue
            if self._stopping.is_set():  # meanwhile: nothing more is claimed
                return
            self._beat.signed_on(self.id, begun)
            log.info("worker %d (%s) serves %s", self.id, self.name, ", ".join(sorted(types)))
            if self._parent is not None:
                self._parent.tell_signed_on(self.id)
            for pool in self.pools:
                pool.begin_claiming(self.id)
            if self.stuck:
                self._stop_claiming()
            return

    def _register(self, types: list[str]) -> int:
        return self.store.workers.register(
            self.name, types=types, lease_seconds=self.settings.lease_seconds, detail=self._detail()
        )

    def _detail(self) -> str:
        """The worker's report on itself: what it uses of its machine, how many tasks of which types it can run at once,
        which runs do not end when told to, and which tasks its handlers wait for."""
        pools = [{"types": sorted(pool.types), "slots": pool.slots} for pool in self.pools]
        more = {"pools": pools, ENDS_OVERDUE: True, "stuck": [run.execution.id for run in self.stuck]}
        if awaited := sorted(self.waits.awaited)[:MOST_TOLD]:
            more |= {"awaited": awaited, "lent": len(self.waits.waiters)}
        if self._consumer is not None:
            more[BY_BROKER] = self._consumer.connected and not self._stopping.is_set()
            more |= {"fed": self._consumer.fed, "deliveries": dict(self.deliveries)}
        return msgspec.json.encode(asdict(current_usage()) | more).decode()

    @property
    def deliveries(self) -> Mapping[str, int]:
        """What came of the messages that the broker delivered here, by outcome."""
        total: Counter[str] = Counter()
        for counts in (*(pool.deliveries for pool in self.pools), *([self._consumer.counts] if self._consumer else ())):
            total.update(dict(counts))  # a copy: this is asked from the beat's thread too
        return total

    async def _drain(self) -> None:
        if await self._wait_until_empty(self.settings.shutdown_seconds, unless=self._hurry):
            return
        self._handing_back = True
        self._stop_all(Stop.DRAIN)
        if not await self._wait_until_empty(GIVE_BACK_SECONDS):
            for run in self.held.values():
                if run.ended is None:  # a thread in a C call cannot be interrupted
                    self._give_up(run)
            await self._wait_until_empty(SETTLE_SECONDS)

    async def _wait_until_empty(self, seconds: float, unless: asyncio.Event | None = None) -> bool:
        """Whether nothing is held, before the time is up or `unless` is set."""
        waits = [
            asyncio.create_task(self._wait_until_all_empty()),
            asyncio.create_task((unless or asyncio.Event()).wait()),
        ]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for waiting in waits:
            waiting.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        return all(pool.empty for pool in self.pools)

    async def _wait_until_all_empty(self) -> bool:
        for pool in self.pools:
            await pool.wait_until_empty()
        return True

    async def _sign_off(self) -> None:
        if self.stuck and self._parent is None:
            self._beat.stop_when(lambda: all(run.ended is not None for run in self.stuck))
        else:
            await self.in_thread(self._beat.stop)
        if not self.stuck:
            try:
                await self.in_thread(self.store.workers.leave, self.id)
            except HeadgateError as error:
                log.warning("cannot sign off: error=%s", error)
        self._end_lines.close()
        await self._executor.close()
        self._calls.close(wait=False)

    # what happens to it

    def _call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call on the event loop, from any thread."""
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop has ended
            log.debug("not delivered: the worker has ended")

    def _wake(self) -> None:
        for pool in self.pools:
            pool.wake()

    def _sign_on_again(self) -> None:
        log.error("worker was declared lost, stopping all tasks and signing on again: worker=%d", self.id)
        self._stop_all(Stop.LOST)
        self._signing_on = asyncio.create_task(self._sign_on())

    async def _watch_lease(self) -> None:
        """Stop all runs when the lease was not renewed for too long, even if a beat hangs."""
        lease = self.settings.lease_seconds
        while True:
            await asyncio.sleep(WATCH_SHARE * lease)
            if monotonic() - self._beat.renewed_at > LOST_SHARE * lease:
                self._stop_all(Stop.DRAIN)

    # handlers that do not end

    @property
    def stuck(self) -> list[Run]:
        return [run for pool in self.pools for run in [*pool.held.values()] if run.stuck]

    def _give_up(self, run: Run) -> None:
        """A handler does not end when told to: this worker is unfit until it does."""
        if run.stuck:
            return
        for pool in self.pools:
            if run.execution.exec_id in pool.held:
                pool.give_up(run)
        self._log_stuck(run, _stack_of(run))
        self._stop_claiming()
        self._beat.now()
        if self._parent is not None:
            self._parent.tell_stuck([stuck.execution.exec_id for stuck in self.stuck])
            self.unfit = True
            self._stopping.set()

    def _ended(self, pool: Pool, run: Run, event: Event | None) -> None:
        pool.ended(run, event)
        if run.stuck and not self.stopping:
            run.stuck = False
            if not self.stuck:
                log.warning("worker claims again, the stuck handlers have ended: worker=%d", self.id)
                for each in self.pools:
                    each.begin_claiming(self.id)

    def _end_blocked(self, run: Run, stack: str) -> None:
        """A handler blocks the event loop for good. In another thread: nothing happens on the loop any more."""
        run.stuck = True
        self._log_stuck(run, stack)
        self._beat.now()
        if self._parent is not None:
            self._parent.tell_stuck([stuck.execution.exec_id for stuck in self.stuck])
            self._parent.end_process()

    def _log_stuck(self, run: Run, stack: str) -> None:
        then = "drains and is replaced" if self._parent is not None else "claims nothing until it ends"
        log.error(
            "handler does not stop after being told to, worker is unfit and %s: task=%d type=%s worker=%d\n%s",
            then, run.execution.id, run.execution.type, self.id, stack, extra={FIELDS: task_fields(run.execution)},
        )  # fmt: skip

    def _on_loop(self) -> list[Run]:
        """The runs that need the event loop."""
        return [
            run for pool in self.pools for run in [*pool.held.values()] if run.handler.isolation is not Isolation.THREAD
        ]

    def _stop_revoked(self, exec_ids: set[str]) -> None:
        """Stop runs whose task was taken away: past its deadline, or holding its mutex too long."""
        for run in self.held.values():
            if run.execution.exec_id in exec_ids:
                run.stop(Stop.LOST)

    def _stop_all(self, reason: Stop) -> None:
        for pool in self.pools:
            pool.stop_all(reason)

    @property
    def held(self) -> dict[str, Run]:
        return {exec_id: run for pool in self.pools for exec_id, run in pool.held.items()}

    def _obey_requests(self, requests: Iterable[Request]) -> None:
        """Cancel or pause running tasks as requested."""
        held = self.held
        for request in requests:
            run = held.get(request.exec_id)
            if run is not None:
                run.obey(Control(request.cancel, request.pause))


def _stack_of(run: Run) -> str:
    if run.thread is not None:
        return run.thread.stack
    return "" if run.task is None else coroutine_stack(run.task)
