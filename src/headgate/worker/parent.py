"""A worker's parent process, seen from the worker: it keeps a worker alive, and ends what a dead one held.

Each message is one JSON line over a pipe: [what, value]. The parent answers on the worker's stdin.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NoReturn

import msgspec

from headgate.settings import Settings

UNFIT = 75  # the exit code of a worker that cannot end a handler: it is to be replaced, at once
SETTINGS, WORKER, STUCK = "settings", "worker", "stuck"


class Parent:
    """The pipe to the parent. If the parent is gone, messages are dropped: the worker learns of it from its stdin."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def tell_settings(self, settings: Settings) -> None:
        """The modules are loaded; this is what they are set to."""
        self._tell(SETTINGS, asdict(settings))

    def tell_signed_on(self, worker_id: int | None) -> None:
        """It works from now on, under this id; None if there is nothing to execute."""
        self._tell(WORKER, worker_id)

    def tell_stuck(self, exec_ids: Collection[str]) -> None:
        """These executions did not end when told to: they end with this process."""
        self._tell(STUCK, sorted(exec_ids))

    def end_process(self) -> NoReturn:
        """End now, whatever still runs here: no thread and no coroutine is waited for."""
        os._exit(UNFIT)

    def _tell(self, what: str, value: Any) -> None:
        with suppress(BrokenPipeError):
            os.write(self._descriptor, msgspec.json.encode((what, value)) + b"\n")
