"""Who in this process is woken by a commit, its own or another process's."""

import logging
from collections.abc import Callable
from typing import TypeVar

from headgate.store.wakeup.message import News, Wakes

T = TypeVar("T")
log = logging.getLogger("headgate.store")


class Wakeups:
    """Listeners of one process. Each must neither wait nor fail; what it raises is logged."""

    def __init__(self, listen: Callable[[], None], first: Callable[[News], None]) -> None:
        """`first` gets all news before the others, so that a woken claim already uses it."""
        self.workers: set[int] = set()  # registered by this process: where news was missed, all of them are asked
        self._listen = listen
        self._first = first
        self._work: list[Callable[[Wakes], None]] = []
        self._resources: list[Callable[[set[str] | None], None]] = []
        self._requests: list[Callable[[set[int]], None]] = []
        self._callbacks: list[Callable[[None], None]] = []

    def on_work(self, listener: Callable[[Wakes], None]) -> None:
        """Call `listener` after each commit that made something claimable: of this process, or of any (`listen`).

        It gets the first (priority, id) of each stream as far as that is known.
        """
        self._work.append(listener)

    def on_resources(self, listener: Callable[[set[str] | None], None]) -> None:
        """Call `listener` with the names of resources in which there is room again; with None if it may be in any."""
        self._resources.append(listener)

    def on_requests(self, listener: Callable[[set[int]], None]) -> None:
        """Call `listener` with the ids of workers that hold a running task with a new request to cancel or pause."""
        self._requests.append(listener)

    def on_callbacks(self, listener: Callable[[None], None]) -> None:
        """Call `listener` after each commit that made a callback due."""
        self._callbacks.append(listener)

    def listen(self) -> None:
        """Receive other processes' commits too; every listener is called once when this begins.

        News are hints: what is missed costs the time until the next look. Behind a pooler or in memory none arrive.
        """
        self._listen()

    def hear(self, news: News) -> None:
        """Pass news on."""
        self._first(news)
        if news.something_may_start:
            for work in self._work:
                _call(work, news.wakes)
        if news.missed or news.resources:
            for resources in self._resources:
                _call(resources, None if news.missed else news.resources)
        if news.callbacks_due or news.missed:
            for callbacks in self._callbacks:
                _call(callbacks, None)
        workers = news.requested | self.workers if news.missed else news.requested
        if workers:
            for requests in self._requests:
                _call(requests, workers)


def _call(listener: Callable[[T], None], argument: T) -> None:
    try:
        listener(argument)
    except Exception:
        log.exception("wake-up could not be delivered")
