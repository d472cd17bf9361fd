"""An app on each database in turn, and workers that run it."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headgate.app import Headgate
from headgate.duties import light_duties
from headgate.settings import Settings
from headgate.worker.worker import Worker


@pytest.fixture
def app(url: str) -> Iterator[Headgate]:
    """An app that knows no task yet."""
    made = Headgate(settings=Settings(url=url, beat_seconds=0.5, lease_seconds=5.0, poll_seconds=0.2))
    yield made
    made.close()


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for something that nobody signals."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


@contextmanager
def working(app: Headgate, *, due: bool = False, **options: Any) -> Iterator[Worker]:
    """A worker that serves the app's tasks meanwhile, on an event loop of its own, with the duties if asked."""
    ready = threading.Event()
    found: list[Worker] = []
    failed: list[BaseException] = []

    async def work() -> None:
        worker = Worker(app.store, app._registry, app._settings, **options)
        services = light_duties(app.store, app._settings, worker.in_thread) if due else []
        for service in services:
            service.start()
        found.append(worker)
        asyncio.get_running_loop().call_soon(ready.set)  # once it runs: before, it cannot be stopped from a thread
        try:
            await worker.run()
        finally:
            for service in services:
                await service.stop()

    def serve() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=serve, name="worker under test")
    thread.start()
    ready.wait()
    try:
        if failed:
            raise failed[0]
        yield found[0]
    finally:
        if not found[0].stopping:
            found[0].stop_from_thread()
        thread.join(120)
        assert not thread.is_alive(), "the worker did not end"
        if failed:
            raise failed[0]
