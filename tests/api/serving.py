"""A real server in a process of its own, on a port that nobody else has: `python -m tests.api.serving URL`."""

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import uvicorn

from headgate.api.app import create_app
from headgate.duties import light_duties
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.settings import Settings
from headgate.store.store import open_store

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class Uvicorn(uvicorn.Server):
    """Tells those who wait for long that it goes."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._stopping.set)


async def serve(url: str, told: str = "{}") -> None:
    """The API and the light duties over a store; the port is the first line that is printed."""
    settings = Settings(**{"url": url, "reap_seconds": 0.2} | json.loads(told))
    with open_store(url) as store:
        store.migrate()
        set_up(store, find_packs(settings.pack_names), migrate=True)
        listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        app = create_app(store, settings)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=10)
        duties = light_duties(store, settings, asyncio.to_thread)
        for duty in duties:
            duty.start()
        print(listening.getsockname()[1], flush=True)
        await Uvicorn(config, app.server.stopping).serve([listening])
        for duty in duties:
            await duty.stop()


class Served:
    """A server that runs, as a client sees it."""

    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self.process = psutil.Process(pid)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as problem:
            return problem.code, json.load(problem)

    def submit(self, type_code: str, ext: Any = None, **fields: Any) -> int:
        status, task = self.ask("POST", "/api/tasks", {"type": type_code, "ext": ext or {}, **fields})
        assert status == 201, task
        return int(task["id"])

    def task(self, task_id: int) -> dict[str, Any]:
        status, task = self.ask("GET", f"/api/tasks/{task_id}")
        assert status == 200, task
        return dict(task)

    def reached(self, task_id: int, *states: str) -> dict[str, Any]:
        """The task, as soon as it is in one of these states."""
        return self.when(task_id, lambda task: task["status"] in states)

    def when(self, task_id: int, holds: Any) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while not holds(task := self.task(task_id)):
            assert time.monotonic() < end, task
            time.sleep(0.02)
        return task


@contextmanager
def serving(url: str, **settings: Any) -> Iterator[Served]:
    """A server over the store at `url`, for a while."""
    command = [sys.executable, "-m", "tests.api.serving", url, json.dumps(settings)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Served(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
