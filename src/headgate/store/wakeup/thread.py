"""A thread that listens for news of other processes until it is closed."""

import logging
import os
import select
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from headgate.store.wakeup.message import News, decode

CLOSE_SECONDS = 1.0
Hear = Callable[[News], None]
log = logging.getLogger("headgate.store")


class Listener(ABC):
    """Listens from `start` to `close`; it never raises errors to callers."""

    def __init__(self, token: str, hear: Hear) -> None:
        self._token = token
        self._hear = hear
        self._closing = False
        self._bell, self._button = os.pipe()
        self._thread = threading.Thread(target=self._run, name="headgate listener", daemon=True)

    def start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:  # too many threads, or the interpreter is going down
            log.debug("wake-ups not received: error=%s", error)

    def close(self) -> None:
        """End the thread; one that waits for a server that does not answer ends as soon as it can."""
        if self._closing:
            return
        self._closing = True
        os.close(self._button)  # the bell rings for good
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            self._listen()
        finally:
            os.close(self._bell)

    @abstractmethod
    def _listen(self) -> None:
        """Receive news until this is closed."""

    def _wait(self, *, of: int | None = None, seconds: float | None = None) -> None:
        """Wait until there is something to read of a file, the time is up, or this is closed."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        if of is not None:
            poll.register(of, select.POLLIN)
        poll.poll(None if seconds is None else seconds * 1000)

    def _take(self, news: News, text: bytes) -> None:
        """Add news of other processes; ignore our own, and text that is not news."""
        try:
            token, message = decode(text)
        except (ValueError, RecursionError) as error:
            log.debug("wake-up not understood: error=%s", error)
        else:
            if token != self._token:
                news.add(message)
