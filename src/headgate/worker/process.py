"""A task in a process of its own: started, listened to, watched for its memory, and killed as a tree."""

import asyncio
import contextlib
import os
import signal
import socket
from typing import Any

import msgspec
import psutil

from headgate.client import RunLender
from headgate.core.errors import HeadgateError, StaleExecution
from headgate.core.machine import Event, GivenBack, LeaseLost
from headgate.core.task import NewTask, TaskType
from headgate.core.usage import Usage, greater, total_usage
from headgate.registry import Isolation
from headgate.settings import Settings
from headgate.store.store import Store
from headgate.worker.child import EVENTS, Order
from headgate.worker.context import Paused
from headgate.worker.memory_kills import MemoryKills
from headgate.worker.orphans import ORPHANS
from headgate.worker.process_starter import HandlerProcess, ProcessStarter
from headgate.worker.process_tree import descendants_of
from headgate.worker.reports import ExecutionReports
from headgate.worker.run import Run, Stop, event_of_error, raised

WATCH_SECONDS = 0.2
GRACE_SECONDS = 2.0
HOLD_SECONDS = 0.02  # the handler's process does nothing else meanwhile
LONGEST_LINE = 4 * 1024 * 1024


async def execute(
    run: Run,
    rules: TaskType,
    reports: ExecutionReports,
    store: Store,
    settings: Settings,
    lender: RunLender,
    starter: ProcessStarter,
) -> Event | None:
    """Run the handler in a new process, on the store of these settings; what happened."""
    saved = await reports.in_thread(store.executions.checkpoints, run.execution.id) if run.execution.attempt > 1 else {}
    process, connection = await starter.start(run.execution.exec_id, run.handler.function.__module__)
    with ORPHANS.awaited(process.pid), contextlib.ExitStack() as lent:
        child = Child(run, process, reports, lender, lent)
        event = await _supervise(child, connection, Order.of(run, rules, saved, settings))
        await process.wait()
    run.usage = child.usage
    ORPHANS.kill_marked(run.execution.exec_id)
    ORPHANS.reap(child.tree)
    await child.let_go()  # not before: what it started may still use what it held
    if run.stopped is None and (breach := child.memory_breach):
        return raised(run, breach, MemoryError(breach), rules)
    if run.stopped is not None and (event is None or isinstance(event, GivenBack)):
        return event_of_error(run, RuntimeError("its process was ended"), rules)
    return event or child.loss()


async def _supervise(child: "Child", connection: socket.socket, order: Order) -> Event | None:
    """Give the child its order, serve it until it says what happened, and see to it that it ends."""
    child.run.interrupt = child.interrupt
    if child.run.stopped is not None:  # meanwhile
        child.interrupt()
    reader, writer = await asyncio.open_connection(sock=connection, limit=LONGEST_LINE)
    watch = asyncio.create_task(child.watch_memory())
    try:
        writer.write(msgspec.json.encode(order) + b"\n")
        return await child.listen(reader, writer)
    finally:
        watch.cancel()
        child.end()
        writer.close()


class Child:
    """The process of one execution, seen from outside."""

    def __init__(
        self,
        run: Run,
        process: HandlerProcess,
        reports: ExecutionReports,
        lender: RunLender,
        lent: contextlib.ExitStack,
    ) -> None:
        self.run = run
        self._process = process
        self._reports = reports
        self._in_thread = reports.in_thread
        self._taking: dict[str, asyncio.Task[None]] = {}  # by resource: what the handler waits to hold
        self._lender = lender
        self._lent = lent
        self._seen: dict[int, psutil.Process] = {}
        self._megabytes_when_killed = 0.0
        self._killed = False  # by us
        self._memory_kills = MemoryKills(process.pid)
        self.usage: Usage | None = None  # its tree's: as it said at its end or as was seen, whichever is more
        limited = run.handler.isolation is Isolation.PROCESS  # else it is here on suspicion only
        self._most = run.handler.memory_megabytes if limited else float("inf")
        with contextlib.suppress(psutil.Error):
            self._seen[process.pid] = psutil.Process(process.pid)

    @property
    def tree(self) -> list[psutil.Process]:
        """Every process that was seen below it."""
        return [process for pid, process in self._seen.items() if pid != self._process.pid]

    def interrupt(self) -> None:
        """Ask it to stop; it is killed if it does not do so soon."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # `terminate` might see its end first, and asyncio never
                os.kill(self._process.pid, signal.SIGTERM)
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self.kill)

    def kill(self) -> None:
        """Kill it before its time, with everything it started."""
        self._killed = self._killed or self._process.returncode is None
        self.end()

    def end(self) -> None:
        """Make sure that it ends, with everything it started; it may have died a moment ago."""
        if self._process.returncode is None:
            self._measure()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for process in self._seen.values():
            with contextlib.suppress(psutil.Error):  # psutil notices a reused pid
                process.kill()

    @property
    def memory_breach(self) -> str | None:
        """How it exceeded its memory limit, for a moment or until the system killed it; None if it did not."""
        peak = max(self._megabytes_when_killed, (self.usage.memory_bytes or 0) / 1e6 if self.usage else 0.0)
        if peak > self._most:
            return f"killed: memory: its process used {peak:.0f} MB, {self._most:g} at most"
        if self._process.returncode == -signal.SIGKILL and not self._killed and self._memory_kills.happened():
            return "killed: memory: the system had none left"
        return None

    def loss(self) -> LeaseLost:
        """Why it ended without a report."""
        code = self._process.returncode or 0
        if code < 0:
            return LeaseLost(f"its process was killed by {signal.Signals(-code).name}")
        return LeaseLost(f"its process ended with exit code {code} and without a word")

    async def watch_memory(self) -> None:
        most = self._most
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            used = self._measure() / 1e6
            if used > most:
                self._megabytes_when_killed = used
                self.kill()
                return

    def _measure(self) -> int:
        """Note every process of the tree and what they have used; the memory they hold."""
        self._seen |= {found.pid: found for found in descendants_of(self._process.pid)}
        alive = [used for used in map(_usage_of, self._seen.values()) if used is not None]
        if not alive:
            return 0
        now = total_usage(alive)
        self.usage = greater(self.usage, now)
        return now.memory_bytes or 0

    async def listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Event | None:
        """Do what the child asks for until it says what happened; None if it ends without that."""
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                kind, payload = msgspec.json.decode(line)
                if kind == "usage":
                    self.usage = greater(self.usage, msgspec.convert(payload, Usage))
                    continue
                if kind == "last_progress":
                    self.run.progress = payload
                    continue
                if kind in EVENTS:
                    return msgspec.convert(payload, EVENTS[kind])
                writer.write(msgspec.json.encode(await self._serve(kind, payload)) + b"\n")
        return None

    async def _serve(self, kind: str, payload: Any) -> dict[str, Any]:
        try:
            if kind == "submit":
                made = await self._in_thread(self._reports.submit_tasks, msgspec.convert(payload, list[NewTask]))
                return {"made": [(done.id, done.created) for done in made]}
            if kind == "wait":
                self._lent.close()
                for task_id in payload:
                    self._lent.enter_context(self._lender.lend(task_id))
                return {}
            if kind == "waiters":
                return {"waiters": sorted(self._lender.waiters_of(payload))}
            if kind == "hold":
                return await self._hold(*payload)
            if kind == "release":
                await self._release(payload)
                return {}
            self.run.obey(await self._in_thread(self._reports.report, kind, payload))
        except StaleExecution as error:
            self.run.stop(Stop.LOST)
            return _refusal(error)
        except HeadgateError as error:
            return _refusal(error)
        return {"pausing": self.run.pausing}

    async def _hold(self, resource: str, timeout_seconds: float | None, keeps: list[str]) -> dict[str, Any]:
        """Whether the handler holds a resource yet. The child asks until it does, so that its process can do other
        things meanwhile; the waiting itself is done here."""
        if resource not in self._taking:
            taking = self._reports.holds.take(resource, timeout_seconds, keeps)
            self._taking[resource] = asyncio.create_task(taking)
        taken, _ = await asyncio.wait([self._taking[resource]], timeout=HOLD_SECONDS)
        if not taken:
            return {"held": False}
        try:
            await self._taking.pop(resource)
        except Paused:
            return {"held": False, "paused": True}
        except TimeoutError as error:
            return {"held": False, "late": str(error)}
        return {"held": True}

    async def _release(self, resource: str) -> None:
        if (taking := self._taking.pop(resource, None)) is not None:  # it gave up
            taking.cancel()
            await asyncio.wait([taking])
        await self._reports.holds.release(resource)

    async def let_go(self) -> None:
        """Release what the process held when it ended, whatever it ended by."""
        for taking in self._taking.values():
            taking.cancel()
        if self._taking:
            await asyncio.wait(self._taking.values())
        await self._reports.close()


def _refusal(error: HeadgateError) -> dict[str, Any]:
    return {"error": str(error), "kind": error.kind, "code": error.code, "params": dict(error.params)}


def _usage_of(process: psutil.Process) -> Usage | None:
    """What a process has used, its ended children's with it, and the memory it holds; None if it is gone."""
    try:
        times, held = process.cpu_times(), process.memory_info().rss
    except psutil.Error:
        return None
    cpu = times.user + times.system + times.children_user + times.children_system
    try:
        disk = process.io_counters()
    except (psutil.Error, AttributeError):  # not everywhere, and not of everybody's processes
        return Usage(cpu, held)
    return Usage(cpu, held, disk.read_bytes, disk.write_bytes)
