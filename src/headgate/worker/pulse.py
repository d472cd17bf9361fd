"""Signs of life of a worker process, for its parent: when it last ran at all, and when it last renewed its lease.

A process that is stopped (SIGSTOP, a debugger, a frozen container, a C call that keeps the interpreter's lock) cannot
stop its handlers before its lease is over; its parent can still kill it.
"""

import os
import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

from headgate.environment import monotonic
from headgate.worker.stage import PULSE_OFFSET

PULSE_SHARE = 0.05  # of a lease: how often there is a sign, and how often the parent looks
SILENT_SHARE = 0.2  # of a lease, without a sign
LOST_SHARE = 0.8  # of a lease, without a renewal: a worker that runs stops its handlers by then
_FORMAT = struct.Struct("dd")


class Signs(NamedTuple):
    """Both by the monotonic clock, which all processes of a machine share; 0: none yet, or the worker has left."""

    alive_at: float
    renewed_at: float


class Pulse:
    """Writes the signs, in a thread of its own: neither a blocked event loop nor a slow store holds it up.

    Without a descriptor it writes nothing.
    """

    def __init__(self, descriptor: int | None, renewed_at: Callable[[], float], lease_seconds: float) -> None:
        self._descriptor = descriptor
        self._renewed_at = renewed_at
        self._pause = PULSE_SHARE * lease_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate pulse", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._write(Signs(0.0, 0.0))

    def _run(self) -> None:
        while not self._ended.wait(self._pause):
            self._write(Signs(monotonic(), self._renewed_at()))

    def _write(self, signs: Signs) -> None:
        if self._descriptor is not None:
            os.pwrite(self._descriptor, _FORMAT.pack(*signs), PULSE_OFFSET)


class PulseWatch:
    """Looks for the signs of one process, every `pause` seconds; in its parent."""

    def __init__(self, descriptor: int, lease_seconds: float) -> None:
        self.pause = PULSE_SHARE * lease_seconds
        self._descriptor = descriptor
        self._lease_seconds = lease_seconds
        self._alive_at = 0.0
        self._silent_seconds = 0.0
        self._looked_at: float | None = None

    def stands_still(self, now: float) -> bool:
        """Whether the process shows no sign of life and its lease is about to end."""
        signs = Signs._make(_FORMAT.unpack(os.pread(self._descriptor, _FORMAT.size, PULSE_OFFSET)))
        # A parent that stood still itself saw nothing meanwhile.
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, 2 * self.pause)
        self._silent_seconds = self._silent_seconds + passed if signs.alive_at == self._alive_at else 0.0
        self._alive_at, self._looked_at = signs.alive_at, now
        if not signs.renewed_at or self._silent_seconds <= SILENT_SHARE * self._lease_seconds:
            return False
        return now - signs.renewed_at > LOST_SHARE * self._lease_seconds
