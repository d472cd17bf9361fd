"""Starts the processes of handlers: by a fork of one that has Headgate loaded, or anew where that cannot be."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from typing import Protocol, TypeAlias

import msgspec

from headgate.environment import monotonic
from headgate.pauses import Backoff
from headgate.worker.child import MARK
from headgate.worker.fork_server import NO_MARK, ForkRequest
from headgate.worker.orphans import ORPHANS

log = logging.getLogger("headgate.worker")
ANSWER_SECONDS = 30.0
IDLE_SECONDS = 300.0
LONGEST_ANSWER = 1024
UNKNOWN_EXIT = 255
RESTARTS = Backoff(1.0, 300.0)


class HandlerProcess(Protocol):
    """A process that one handler runs in, with a session of its own."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...


Started: TypeAlias = tuple[HandlerProcess, socket.socket]


class ProcessStarter:
    """Starts a process for each execution. It keeps a fork server while there is something to start (Linux)."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._server: ForkServer | None = None
        self._forking = asyncio.Lock()
        self._failures = 0
        self._server_at = 0.0 if _can_fork() else float("inf")  # no fork server before that

    async def start(self, exec_id: str, module: str) -> Started:
        """A process for an execution whose handler is in that module, and the socket to it."""
        async with self._forking:
            forked = await self._fork(ForkRequest(exec_id, module)) if monotonic() >= self._server_at else None
        return forked or await _start_python("headgate.worker.child", exec_id)

    async def close(self) -> None:
        """End the fork server; processes of handlers stay."""
        server, self._server = self._server, None
        if server is not None:
            await server.end()

    async def _fork(self, request: ForkRequest) -> Started | None:
        """The process that was forked for a request; None if there is no fork server that answers."""
        if self._server is not None and self._server.is_outdated:
            await self.close()
        for _ in range(1 if self._server is None else 2):  # one that was there may have ended at this moment
            try:
                started = await self._fork_by_server(request)
            except OSError as error:  # a `TimeoutError` is one
                problem = error
            else:
                self._failures = 0
                return started
        self._server_at = monotonic() + RESTARTS.pause(self._failures)
        self._failures += 1
        log.warning("processes of handlers are started without a fork server for now: error=%s", problem)
        return None

    async def _fork_by_server(self, request: ForkRequest) -> Started:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._server = self._server or await ForkServer.start(self._idle_seconds)
                async with asyncio.timeout(ANSWER_SECONDS):
                    return ForkedProcess(await self._server.fork(request, theirs)), ours
        except BaseException:
            ours.close()
            await self.close()  # a late answer would look like the answer to the next request
            raise


class ForkServer:
    """A process to fork from, seen from outside. It ends by itself when nothing is asked of it for a while."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._environment = dict(os.environ)

    @classmethod
    async def start(cls, idle_seconds: float) -> "ForkServer":
        process, control = await _start_python("headgate.worker.fork_server", NO_MARK, str(idle_seconds))
        control.setblocking(False)
        return cls(process, control)

    @property
    def is_outdated(self) -> bool:
        """Whether it has ended, or was started with another environment than this process has now."""
        return self._process.returncode is not None or self._environment != os.environ

    async def fork(self, request: ForkRequest, connection: socket.socket) -> int:
        """The id of a new process, which has this connection; `OSError` if there is none."""
        socket.send_fds(self._control, [msgspec.json.encode(request)], [connection.fileno()])
        answer = await asyncio.get_running_loop().sock_recv(self._control, LONGEST_ANSWER)
        if not answer:
            raise OSError("the fork server has ended")
        try:
            return int(answer)
        except ValueError:
            raise OSError(answer.decode().strip()) from None

    async def end(self) -> None:
        self._control.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        ORPHANS.reap_session(self._process.pid)  # of forks that were never reported


class ForkedProcess:
    """A child of this process that something else has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        try:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:  # it ended before its id was known, and was reaped as an orphan
            self.returncode = UNKNOWN_EXIT
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


async def _start_python(module: str, mark: str, *arguments: str) -> tuple[asyncio.subprocess.Process, socket.socket]:
    """A new Python that runs a module, in a session of its own, and the socket to it."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, str(theirs.fileno()), str(os.getpid()), *arguments,
                stdin=asyncio.subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
                env=os.environ | {MARK: mark},
            )  # fmt: skip
    except BaseException:
        ours.close()
        raise
    return process, ours


def _can_fork() -> bool:
    """Whether this system lets us adopt a process that another one has forked, and wait for it."""
    if not ORPHANS.adopts:
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return False
    return True
