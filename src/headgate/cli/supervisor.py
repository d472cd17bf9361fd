"""Workers as processes of their own, kept alive: python -m headgate.cli.supervisor PLAN

A worker that cannot end a handler, or that dies, leaves executions behind. Only the parent process knows for sure that
it is dead: the parent ends what the worker held, and no sooner.
"""

import asyncio
import importlib
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

import headgate.cli.logs as logs
from headgate.cli.descendants import adopt_orphans, kill_orphans
from headgate.cli.exits import DONE, USAGE
from headgate.cli.plan import WORKER_MODULE, ProcessPlan, command_line, plan_from_argv
from headgate.core.errors import HeadgateError
from headgate.pauses import Backoff, wait
from headgate.settings import Settings
from headgate.worker.parent import SETTINGS, STUCK, UNFIT, WORKER
from headgate.worker.pulse import PulseWatch
from headgate.worker.stage import make_stage, on_stage

if TYPE_CHECKING:
    from headgate.store.store import Store

log = logging.getLogger("headgate")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
RESTARTS = Backoff(0.5, 30.0)
LONG_LIFE_SECONDS = 60.0
BEGIN_SECONDS = 10.0
LAST_SECONDS = 15.0  # what a worker may take to end besides what its settings allow
BURY_AGAIN_SECONDS = 1.0
HEAR_SECONDS = 1.0  # its last messages are there when it has ended, but another process may have inherited its pipe
ACTOR = "system:supervisor"


@dataclass(slots=True, eq=False)
class Life:
    """One worker process, from its start to its end, and what it said."""

    number: int
    process: Process
    stage: int  # a file that tells of which tasks it runs code
    settings: Settings | None = None
    loaded: asyncio.Event = field(default_factory=asyncio.Event)  # its modules; the settings are known
    working: bool = False
    worker_ids: list[int] = field(default_factory=list)  # its last is the one it works under
    stuck: list[str] = field(default_factory=list)  # exec_ids that it could not end
    killed: bool = False  # by us
    stood_still: bool = False  # and was killed for it

    def hear(self, line: bytes) -> None:
        what, value = msgspec.json.decode(line)
        if what == SETTINGS:
            self.settings = msgspec.convert(value, Settings)
            self.loaded.set()
        elif what == WORKER:
            self.working = True
            self.worker_ids += [] if value is None else [value]
        elif what == STUCK:
            self.stuck = value

    @property
    def cause(self) -> str | None:
        """What it died of by itself; None if it was ended."""
        code = self.process.returncode or 0
        if self.stuck or self.killed or code == UNFIT:
            return None
        if self.stood_still:
            return "its worker process stood still and was killed"
        if code < 0:
            return f"its worker process was killed by {signal.Signals(-code).name}"
        return f"its worker process ended with exit code {code}"


class Supervisor:
    """Starts the worker processes of a plan, passes signals on, and starts another for one that dies.

    A worker waits, once its modules are loaded, for `release`. What a dead worker held is ended in
    `store`; without one it is opened when it is needed.
    """

    def __init__(self, plan: ProcessPlan) -> None:
        self.store: Store | None = None
        self._plan = plan
        self._lives: set[Life] = set()
        self._stopping = asyncio.Event()
        self._released = asyncio.Event()
        self._begun = asyncio.Event()
        self._loaded: asyncio.Future[Settings | None] = asyncio.get_running_loop().create_future()
        self._signals: list[signal.Signals] = []
        self._burials: set[asyncio.Task[None]] = set()
        self._code = DONE
        self._starting = asyncio.Lock()  # so that a process that is being started is not mistaken for an orphan
        self._keeping: list[asyncio.Task[None]] = []

    async def start(self) -> Settings | None:
        """Start the processes; returns the settings of their modules once loaded, or None if they cannot be loaded."""
        self._keeping = [asyncio.create_task(self._keep_alive(n)) for n in range(1, self._plan.processes + 1)]
        for keeping in self._keeping:
            keeping.add_done_callback(lambda _: self._tell_loaded(None))
            keeping.add_done_callback(lambda _: self._begun.set())
        return await asyncio.shield(self._loaded)

    def release(self) -> None:
        """Let the workers begin."""
        self._released.set()

    async def wait_until_begun(self) -> bool:
        """Wait until a worker has signed on, so that its types are known, or until the log says why none has.

        False if none ever will.
        """
        if not await wait(self._begun, BEGIN_SECONDS):
            log.warning("no worker process has signed on in %g s: continuing without one", BEGIN_SECONDS)
        return not self._stopping.is_set()

    async def run(self) -> int:
        """Wait until all processes have ended after a signal, or one reports that it cannot work; the exit code."""
        await asyncio.gather(*self._keeping)
        await asyncio.gather(*self._burials)
        if self._plan.processes > 1:
            log.info("all processes have ended")
        return self._code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Pass a signal on; nothing is started any more."""
        self._stopping.set()
        self._released.set()
        self._begun.set()
        self._signals.append(number)
        for life in self._lives:
            _send_signal(life.process, number)
            allowed = life.settings.shutdown_seconds if life.settings is not None and len(self._signals) == 1 else 0.0
            asyncio.get_running_loop().call_later(allowed + LAST_SECONDS, self._kill, life)

    def _kill(self, life: Life) -> None:
        """Kill a process that does not end."""
        if life in self._lives:
            log.error("worker process %d does not end: killing it", life.number)
            life.killed = True
            _send_signal(life.process, signal.SIGKILL)

    async def _keep_alive(self, number: int) -> None:
        quick_ends, worked = 0, False
        while not self._stopping.is_set():
            started = time.monotonic()
            life = await self._run_once(number)
            code = life.process.returncode or 0
            self._look_after(life, code)
            if self._stopping.is_set():
                return
            if code == USAGE or (code >= 0 and not (worked or life.worker_ids)):  # a restart would fail the same way
                self._code = code
                self.stop()
                return
            worked = worked or bool(life.worker_ids)
            if code == UNFIT:  # no crash: it did what it should
                log.warning("worker process %d could not stop a handler: starting another", number)
                continue
            if time.monotonic() - started > LONG_LIFE_SECONDS:
                quick_ends = 0
            pause = RESTARTS.pause(quick_ends)
            log.warning("worker process %d ended with exit code %d: starting another in %g s", number, code, pause)
            self._begun.set()
            await wait(self._stopping, pause)
            quick_ends += 1

    async def _run_once(self, number: int) -> Life:
        """One life of a process, to its end."""
        name = f"{self._plan.name}-{number}" if self._plan.name and self._plan.processes > 1 else self._plan.name
        (ours, theirs), stage = os.pipe(), make_stage()
        arguments = command_line(WORKER_MODULE, replace(self._plan, name=name, parent=theirs, stage=stage))
        adopt_orphans()
        async with self._starting:
            # A session of its own: Ctrl-C in a terminal is for us, and we pass it on once.
            process = await asyncio.create_subprocess_exec(
                *arguments, stdin=PIPE, pass_fds=[theirs, stage], start_new_session=True
            )
            life = Life(number, process, stage)
            self._lives.add(life)
        os.close(theirs)
        for received in self._signals:  # while it was being started; the others know, and a second time means "at once"
            _send_signal(process, received)
        listening = asyncio.create_task(self._listen(life, ours))
        watching = asyncio.create_task(self._watch(life))
        try:
            await process.wait()
            return life
        finally:
            watching.cancel()
            self._lives.discard(life)
            if process.returncode:
                async with self._starting:
                    known = {other.process.pid for other in self._lives}
                    await asyncio.to_thread(kill_orphans, process.pid, known)
            await asyncio.wait([listening], timeout=HEAR_SECONDS)
            listening.cancel()

    async def _listen(self, life: Life, descriptor: int) -> None:
        """Hear what a worker says until its end."""
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        try:
            async for line in reader:
                life.hear(line)
                if life.working:
                    self._begun.set()
                elif life.settings is not None:
                    await self._let_begin(life)
        finally:
            transport.close()

    async def _watch(self, life: Life) -> None:
        """Kill a process that stands still before its lease is over: if it woke later, others would have its tasks."""
        await life.loaded.wait()
        assert life.settings is not None
        watch = PulseWatch(life.stage, life.settings.lease_seconds)
        while not watch.stands_still(time.monotonic()):  # noqa: ASYNC110 a process that stands still sends no event
            await asyncio.sleep(watch.pause)
        log.error("worker process %d (pid %d) is not responding: killing it", life.number, life.process.pid)
        life.stood_still = True
        _send_signal(life.process, signal.SIGKILL)

    async def _let_begin(self, life: Life) -> None:
        """Its modules are loaded: it may begin once what runs beside it has begun."""
        self._tell_loaded(life.settings)
        await self._released.wait()
        if self._plan.processes > 1 and not self._stopping.is_set():
            log.info("worker process %d started (pid %d)", life.number, life.process.pid)
        assert life.process.stdin is not None
        with suppress(ConnectionError):
            life.process.stdin.write(b"\n")
            await life.process.stdin.drain()

    def _tell_loaded(self, settings: Settings | None) -> None:
        if not self._loaded.done():
            self._loaded.set_result(settings)

    def _look_after(self, life: Life, code: int) -> None:
        """End what a process that died held, now that it is dead."""
        seen = on_stage(life.stage)
        os.close(life.stage)
        if code != DONE and life.worker_ids and life.settings is not None:
            burial = asyncio.create_task(self._bury(life, life.settings, seen))
            self._burials.add(burial)
            burial.add_done_callback(self._burials.discard)

    async def _bury(self, life: Life, settings: Settings, seen: set[int]) -> None:
        """Try until it is done or the lease is over: then any reaper does it."""
        over = time.monotonic() + settings.lease_seconds
        while time.monotonic() < over:
            try:
                ended = await asyncio.to_thread(self._bury_once, life, settings, seen)
            except HeadgateError as error:
                log.warning("cannot end the executions of worker process %d, retrying: %s", life.number, error)
                await asyncio.sleep(BURY_AGAIN_SECONDS)
            else:
                if ended:
                    log.warning("worker process %d left %d executions behind: ending them", life.number, ended)
                return

    def _bury_once(self, life: Life, settings: Settings, seen: set[int]) -> int:
        if self.store is not None:
            return _bury_all(self.store, life, seen)
        # Only here: a supervisor without a store is small.
        with importlib.import_module("headgate.store.store").configured_store(settings) as store:
            return _bury_all(store, life, seen)


def _bury_all(store: "Store", life: Life, seen: set[int]) -> int:
    death = importlib.import_module("headgate.store.execution.revoke").Death(life.cause, life.stuck, seen)
    return sum(len(store.executions.bury(each, death, actor=ACTOR)) for each in life.worker_ids)


def _send_signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # not by `send_signal`: that might see its end first, and asyncio never
        os.kill(process.pid, number)


async def _supervise(plan: ProcessPlan) -> int:
    supervisor = Supervisor(plan)
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, partial(supervisor.stop, number))
    supervisor.release()
    await supervisor.start()
    return await supervisor.run()


def main() -> None:
    plan = plan_from_argv()
    logs.set_up(plan.log_json)
    sys.exit(asyncio.run(_supervise(plan)))


if __name__ == "__main__":
    main()
