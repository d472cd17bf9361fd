"""Threads for handlers that are plain functions, and a way to end one of them in the middle."""

import ctypes
import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import starmap
from types import FrameType
from typing import Any, TypeVar

from headgate.worker.context import Interrupted
from headgate.worker.stacks import thread_stack

T = TypeVar("T")
Body = Callable[[], None]
OnDone = Callable[[BaseException | None], None]
RETRY_SECONDS = 0.01
log = logging.getLogger("headgate.worker")
_CRITICAL_PACKAGE = "headgate.store"  # a transaction, or the turn of everybody in this process
_OWN_PACKAGE = "headgate.worker"


def call_handler(results: list[T], handler: Callable[..., T], arguments: dict[str, Any]) -> None:
    """Call a handler and append what it returns; a job is interrupted only during this call.

    All in C: between the return and the append nothing can be raised in this thread. `Interrupted` may still be raised
    after that, since a thread moves on while another looks where it is. Then the result is there, and counts.
    """
    results.extend(starmap(partial(handler, **arguments), ((),)))


class Job:
    """A body in a thread. Its error, or None, goes to `on_done`, in that thread, whatever happens."""

    def __init__(self, body: Body, on_done: OnDone) -> None:
        self._body = body
        self._on_done: OnDone | None = on_done
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._stopped = False

    def run(self) -> None:
        error = None
        try:
            with self._lock:
                self._thread_id = threading.get_ident()
            if self._stopped:
                raise Interrupted
            self._body()
        except BaseException as raised:
            error = raised
        self.finish(error)

    def finish(self, error: BaseException | None) -> None:
        """Call `on_done`, once; nothing is raised in this thread any more."""
        with self._lock:
            self._thread_id = None
            _raise_in(threading.get_ident(), None)  # what was still on its way
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(error)

    @property
    def in_store(self) -> bool:
        """Whether the body is with the store."""
        thread_id = self._thread_id
        return thread_id is not None and _CRITICAL_PACKAGE in map(_package, _frames(thread_id))

    @property
    def stack(self) -> str:
        """Where the body is; empty while it waits for a thread."""
        return "" if self._thread_id is None else thread_stack(self._thread_id)

    def interrupt(self) -> None:
        """Raise `Interrupted` in the body's handler, at its next step in Python; a call into C is not cut short.

        While the handler is with the store (it reports, it submits) this waits: nothing is left half done.
        """
        with self._lock:
            self._stopped = True
            if self._thread_id is None:
                return
            if _in_handler(self._thread_id):
                _raise_in(self._thread_id, Interrupted)
                return
        again = threading.Timer(RETRY_SECONDS, self.interrupt)
        again.daemon = True
        again.start()


def _raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    """Raise `error` in a thread at its next step in Python; None withdraws an error that was not raised yet."""
    exception = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), exception)


def _in_handler(thread_id: int) -> bool:
    """Whether a thread is in a handler, and not with the store or in code of ours that the handler called."""
    above: list[str] = []
    for frame in _frames(thread_id):
        if frame.f_code is call_handler.__code__:
            return bool(above) and above[0] != _OWN_PACKAGE and _CRITICAL_PACKAGE not in above
        above.append(_package(frame))
    return False


def _frames(thread_id: int) -> Iterator[FrameType]:
    """From the innermost."""
    frame = sys._current_frames().get(thread_id)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _package(frame: FrameType) -> str:
    """`headgate.store` for every module below it."""
    return ".".join(str(frame.f_globals.get("__name__", "")).split(".")[:2])


class Threads:
    """A thread for each job at once, kept for later ones. They do not keep a process from ending."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def start(self, body: Body, on_done: OnDone) -> Job:
        """Run `body` in a thread; the caller limits how many run at once."""
        job = Job(body, on_done)
        if not self._idle.acquire(blocking=False):
            self._count += 1
            threading.Thread(target=self._serve, name=f"headgate task {self._count}", daemon=True).start()
        self._jobs.put(job)
        return job

    def close(self) -> None:
        for _ in range(self._count):
            self._jobs.put(None)

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get()
                if job is None:
                    return
                try:
                    job.run()
                except Interrupted as late:  # raised between two lines of ours, when the body had just ended
                    job.finish(late)
            except Interrupted:
                continue
            except Exception:
                log.exception("the result of a handler could not be reported")
            self._idle.release()
