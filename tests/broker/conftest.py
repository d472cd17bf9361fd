"""A real RabbitMQ for each file of tests; an app on each database in turn, and its processes."""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.app import Headgate
from headgate.duties import Dispatcher, Relay
from headgate.duties.duty import Duty
from headgate.settings import Settings
from headgate.store.store import configured_store
from headgate.threads import Threads
from lab.rabbitmq import RabbitMQ


@pytest.fixture(scope="module")
def server() -> Iterator[RabbitMQ]:
    """The broker of a file of tests: what one leaves broken is not the next one's. A test may stop and start it."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-rabbitmq-test-"))
    with RabbitMQ(folder) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def broker(server: RabbitMQ) -> str:
    """The URL of the broker. What earlier tests left there is stale, and does nothing."""
    return server.url


@pytest.fixture
def resend() -> float:
    """After how many seconds a message is sent again; a test may have another figure."""
    return 10.0


@pytest.fixture
def prefetch() -> int:
    """How many messages a consumer may hold; a test may have another figure."""
    return 1


@pytest.fixture
def settings(url: str, broker: str, resend: float, prefetch: int) -> Settings:
    return Settings(
        url=url, broker=broker, broker_resend_seconds=resend, broker_prefetch=prefetch,
        beat_seconds=0.5, lease_seconds=5.0, poll_seconds=0.2,
    )  # fmt: skip


@pytest.fixture
def app(settings: Settings) -> Iterator[Headgate]:
    """An app that knows no task yet."""
    made = Headgate(settings=settings)
    yield made
    made.close()


@contextmanager
def doing(
    settings: Settings, duties: Sequence[type[Duty]] = (Dispatcher, Relay), **changed: Any
) -> Iterator[list[Duty]]:
    """Duties meanwhile, as in a process of their own: with a store and an event loop of theirs."""
    ready, over = threading.Event(), threading.Event()
    found: list[Duty] = []
    failed: list[BaseException] = []

    async def live() -> None:
        own = replace(settings, **changed)
        with configured_store(own) as store:
            threads = Threads("duties under test", 4)
            found.extend(duty(store, own, threads) for duty in duties)
            for duty in found:
                duty.start()
            ready.set()
            await asyncio.to_thread(over.wait)
            for duty in found:
                await duty.stop()
            threads.close()

    def serve() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=serve, name="duties under test")
    thread.start()
    ready.wait()
    try:
        if failed:
            raise failed[0]
        yield found
    finally:
        over.set()
        thread.join(60)
        assert not thread.is_alive(), "the duties did not end"
        if failed:
            raise failed[0]
