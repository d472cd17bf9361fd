"""A worker: claims tasks for its slots, runs their handlers, keeps its lease, and goes in good order."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from typing import Any, ParamSpec, TypeVar

import msgspec

from headgate.core.errors import HeadgateError, Invalid
from headgate.core.task import Execution
from headgate.environment import monotonic
from headgate.pauses import wait
from headgate.registry import Isolation, Registry
from headgate.settings import Settings
from headgate.store.claim.contract import Control
from headgate.store.execution.workers import Request
from headgate.store.store import Store
from headgate.threads import Threads
from headgate.worker.beat import Beat
from headgate.worker.executor import Executor
from headgate.worker.pool import Pool
from headgate.worker.run import Run, Stop
from headgate.worker.usage import current_usage

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("headgate.worker")
CONCURRENCY = 100
THREADS = 16
GIVE_BACK_SECONDS = 5.0
RETRY_SECONDS = 1.0
SAFE_SHARE, WATCH_SHARE = 0.8, 0.05  # of a lease: who could not renew it for so long stops by itself


class Worker:
    """Executes the tasks of a registry's types until it is stopped."""

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
        beat: type[Beat] = Beat,
    ) -> None:
        if not len(registry):
            raise Invalid("there is no task to work on: a module declares some with @app.task")
        self.id = 0
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.settings = settings
        self.store = store
        self._registry = registry
        self._calls = Threads("headgate store", 16)
        self._beat = beat(
            store,
            settings.beat_seconds,
            held=lambda: {
                run.execution.id: run.execution.exec_id for pool in self.pools for run in [*pool.held.values()]
            },
            on_requests=lambda requests: self._call_soon(self._obey_requests, requests),
            on_revoked=lambda exec_ids: self._call_soon(self._stop_revoked, exec_ids),
            on_lost=lambda: self._call_soon(self._sign_on_again),
            detail=self._detail,
        )
        self._executor = Executor(store, settings, self.in_thread, self._call_soon, threads)
        slots = {Isolation.LOOP: concurrency, Isolation.THREAD: threads, Isolation.PROCESS: children or os.cpu_count()}
        self.pools = [
            self._pool(types, slots[isolation] or 1)
            for isolation in Isolation
            if (types := [handler.code for handler in registry if handler.isolation is isolation])
        ]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signing_on: asyncio.Task[None] | None = None
        self.signed_on = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    def _pool(self, types: Collection[str], slots: int) -> Pool:
        def launch(execution: Execution) -> Run:
            run = Run(execution, self._registry[execution.type])
            self._executor.start(run, pool.ended)
            return run

        pool = Pool(self.store, self.in_thread, types, slots, launch, self.settings.poll_seconds, self._beat.now)
        return pool

    async def in_thread(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread."""
        return await self._calls(work, *args, **kwargs)

    # its life

    async def run(self) -> None:
        """Work until `stop`; then finish what runs, or hand it back when the time for that is up."""
        self._loop = asyncio.get_running_loop()
        self.store.wakeups.on_work(lambda wakes: self._call_soon(self._wake))
        self.store.wakeups.on_requests(lambda workers: self._beat.now() if self.id in workers else None)
        self.store.wakeups.listen()
        await self._sign_on()
        feeding = [asyncio.create_task(pool.serve()) for pool in self.pools]
        watching = asyncio.create_task(self._watch_lease())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*feeding, stopping], return_when=asyncio.FIRST_COMPLETED)
            await self._drain()
        finally:
            for task in (*feeding, stopping, watching):
                task.cancel()
            ends = await asyncio.gather(*feeding, stopping, watching, return_exceptions=True)
            await self.in_thread(self._beat.stop)
            await self._sign_off()
        for end in ends:
            if isinstance(end, Exception):  # a feeder that broke is not a worker that went in good order
                raise end

    def stop(self) -> None:
        """Go in good order; asked a second time, at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        for pool in self.pools:
            pool.stop_claiming()

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
                log.warning("cannot sign on, trying again: %s", error)
                await wait(self._stopping, RETRY_SECONDS)
                continue
            if self._stopping.is_set():  # meanwhile: nothing more is claimed
                return
            self._beat.signed_on(self.id, begun)
            for pool in self.pools:
                pool.begin_claiming(self.id)
            self.signed_on.set()
            log.info("worker %d (%s) serves %s", self.id, self.name, ", ".join(sorted(types)))
            return

    def _register(self, types: list[str]) -> int:
        return self.store.workers.register(
            self.name, types=types, lease_seconds=self.settings.lease_seconds, detail=self._detail()
        )

    def _detail(self) -> str:
        """What it says of itself: what it uses of its machine, and how many tasks of which types it runs at once."""
        pools = [{"types": sorted(pool.types), "slots": pool.slots} for pool in self.pools]
        return msgspec.json.encode(asdict(current_usage()) | {"pools": pools}).decode()

    async def _drain(self) -> None:
        if await self._wait_until_empty(self.settings.shutdown_seconds, unless=self._hurry):
            return
        self._stop_all(Stop.DRAIN)
        if not await self._wait_until_empty(GIVE_BACK_SECONDS):
            for pool in self.pools:  # a thread in C will not listen: it ends with the process, which is soon
                pool.give_back_all()
            await self._wait_until_empty(GIVE_BACK_SECONDS)

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
        try:
            await self.in_thread(self.store.workers.leave, self.id)
        except HeadgateError as error:
            log.warning("could not sign off: %s", error)
        self._executor.close()
        self._calls.close(wait=False)

    # what happens to it

    def _call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call on the event loop, from any thread."""
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop has ended, and with it whoever would have listened
            log.debug("nobody was told: the worker has ended")

    def _wake(self) -> None:
        for pool in self.pools:
            pool.wake()

    def _sign_on_again(self) -> None:
        log.error("worker %d was declared lost: it stops everything and signs on anew", self.id)
        self._stop_all(Stop.LOST)
        self._signing_on = asyncio.create_task(self._sign_on())

    async def _watch_lease(self) -> None:
        """Stop whatever runs when the lease could not be renewed for too long, be it that a beat hangs."""
        lease = self.settings.lease_seconds
        while True:
            await asyncio.sleep(WATCH_SHARE * lease)
            if monotonic() - self._beat.renewed_at > SAFE_SHARE * lease:
                self._stop_all(Stop.DRAIN)

    def _stop_revoked(self, exec_ids: set[str]) -> None:
        """Stop what was taken from outside: past its deadline, or its mutex held too long."""
        for run in self.held.values():
            if run.execution.exec_id in exec_ids:
                run.stop(Stop.LOST)

    def _stop_all(self, reason: Stop) -> None:
        for pool in self.pools:
            pool.stop_all(reason)

    @property
    def held(self) -> dict[int, Run]:
        return {task_id: run for pool in self.pools for task_id, run in pool.held.items()}

    def _obey_requests(self, requests: Iterable[Request]) -> None:
        """Cancel or pause running tasks as requested."""
        held = self.held
        for request in requests:
            run = held.get(request.task_id)
            if run is not None and run.execution.exec_id == request.exec_id:
                run.obey(Control(request.cancel, request.pause))
