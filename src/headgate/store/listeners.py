"""Who in this process is told of news, its own and those of others."""

import logging
from collections.abc import Callable
from typing import TypeVar

from headgate.store.memory import Memory
from headgate.store.news import News, Wakes

T = TypeVar("T")
log = logging.getLogger("headgate.store")


class Listeners:
    """One process's ears: its memory first, so that whoever is woken claims by what it knows."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.of_wakes: list[Callable[[Wakes], None]] = []
        self.of_requests: list[Callable[[set[int]], None]] = []
        self.of_callbacks: list[Callable[[None], None]] = []
        self.workers: set[int] = set()  # signed on by this process: asked of all of them where news were missed

    def tell(self, news: News) -> None:
        """Pass news on; what a listener raises is its own affair."""
        if news.missed:
            self._memory.forget()
        if news.wakes:
            self._memory.woken(news.wakes)
        if news.something_may_start:
            for woken in self.of_wakes:
                _call(woken, news.wakes)
        if news.owed or news.missed:
            for sending in self.of_callbacks:
                _call(sending, None)
        asked = news.asked | self.workers if news.missed else news.asked
        if asked:
            for hearing in self.of_requests:
                _call(hearing, asked)


def _call(listener: Callable[[T], None], told: T) -> None:
    try:
        listener(told)
    except Exception:
        log.exception("a listener failed")
