"""A real server on a port of its own, in a thread: for tests that need no process of its own to kill."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from headgate.cli.serving import Api, listen_on
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.settings import Settings
from headgate.store.store import open_store

PATIENCE = 60.0


class Served:
    """A server that runs, as a client sees it."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the answer."""
        answer = httpx.request(method, self.address + path, json=body, headers=headers, timeout=PATIENCE, verify=False)
        return answer.status_code, answer.json()

    def submit(self, type_code: str, **fields: Any) -> int:
        status, task = self.ask("POST", "/api/tasks", {"type": type_code, **fields})
        assert status == 201, task
        return int(task["id"])


@contextmanager
def serving_here(url: str, **settings: Any) -> Iterator[Served]:
    """A server with connections of its own to the store at `url`, for a while; it stops in good order."""
    ready, address, failed = threading.Event(), [""], list[BaseException]()
    stop: list[Any] = []
    configured = Settings(url=url, **settings)

    async def serve() -> None:
        with open_store(url) as store:
            set_up(store, find_packs(configured.pack_names), migrate=True)
            api = Api(store, configured, listen_on("127.0.0.1", 0))
            ended = asyncio.Event()
            await api.start(ended.set)
            stop.extend([asyncio.get_running_loop(), ended])
            address[0] = api.address
            ready.set()
            await ended.wait()
            await api.ended()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="server under test")
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        if failed:
            raise failed[0]
        yield Served(address[0])
    finally:
        if stop:
            loop, ended = stop
            loop.call_soon_threadsafe(ended.set)
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the server did not end"
