"""Threads for handlers that are plain functions, and a way to end one of them in the middle."""

import ctypes
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from headgate.worker.context import Interrupted

Body = Callable[[], Any]
Then = Callable[[Any, BaseException | None], None]
AGAIN_SECONDS = 0.01
_BENEATH = ("headgate.worker.threads", "headgate.worker.executor")  # every body


class Job:
    """A body in a thread. What came of it is handed to `then`, in that thread."""

    def __init__(self, body: Body, then: Then) -> None:
        self._body = body
        self._then = then
        self._door = threading.Lock()
        self._thread_id: int | None = None
        self._stopped = False

    def run(self) -> None:
        answer, error = None, None
        try:
            with self._door:
                self._thread_id = threading.get_ident()
            if self._stopped:
                raise Interrupted
            answer = self._body()
        except BaseException as raised:
            error = raised
        with self._door:
            self._thread_id = None
        self._then(answer, error)

    def interrupt(self) -> None:
        """Raise `Interrupted` in the body, at its next step in Python; a call into C is not cut short.

        While the body is inside Headgate (it reports, it submits) this waits: nothing of ours is left half done.
        """
        with self._door:
            self._stopped = True
            if self._thread_id is None:
                return
            if not _is_inside(self._thread_id):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread_id), ctypes.py_object(Interrupted)
                )
                return
        again = threading.Timer(AGAIN_SECONDS, self.interrupt)
        again.daemon = True
        again.start()


def _is_inside(thread_id: int) -> bool:
    """Whether a thread is in Headgate's own code. It cannot move meanwhile: whoever asks holds the interpreter."""
    frame = sys._current_frames().get(thread_id)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("headgate.") and name not in _BENEATH:
            return True
        frame = frame.f_back
    return False


class Threads:
    """Up to `most` threads, each made when it is first needed. They do not keep a process from ending."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._made = 0

    def start(self, body: Body, then: Then) -> Job:
        """Run `body` as soon as a thread is free."""
        job = Job(body, then)
        if not self._idle.acquire(blocking=False) and self._made < self._most:
            self._made += 1
            threading.Thread(target=self._serve, name=f"headgate task {self._made}", daemon=True).start()
        self._jobs.put(job)
        return job

    def close(self) -> None:
        for _ in range(self._made):
            self._jobs.put(None)

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get()
                if job is None:
                    return
                job.run()
            except Interrupted:  # meant for a body that had just ended
                pass
            self._idle.release()
