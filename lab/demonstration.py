"""`headgate up` with the demonstration's tasks, in a folder that is gone afterwards, and somebody who keeps it busy."""

import json
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from lab.server import free_port

SETTINGS = 'callback_allow = "127.0.0.0/8"\nsecret = "{secret}"\n'
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"type": "hello", "cron_expressions": "*/5 * * * *", "ext": {"name": "the clock"}, "status": "online"},
    {
        "type": "album", "cron_expressions": "30 2 * * MON-FRI", "timezone": "Europe/Berlin", "status": "online",
        "missed": "once", "overlap": "skip", "category": "nightly",
    },
    {"type": "tidy", "cron_expressions": "0 6 * * MON", "timezone": "Asia/Shanghai", "ext": {"shelf": 2}},
    {
        "type": "report", "cron_expressions": "0 18 LW * *", "status": "offline",
        "http": {"url": "https://reports.example.org/month", "method": "POST"},
    },
)  # fmt: skip


class Demonstration:
    def __init__(self, folder: str) -> None:
        port, site_port = free_port(), free_port()
        self.address = f"http://127.0.0.1:{port}"
        self._site = f"http://127.0.0.1:{site_port}"
        self._key = ""
        self._draw = random.Random(7)
        Path(folder, "headgate.toml").write_text(SETTINGS.format(secret=self._draw.randbytes(24).hex()))
        headgate = Path(sys.executable).with_name("headgate")
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "headgate.packs.media.demo", "--bare", "--port", str(site_port),
                headgate, "up", "headgate.demo", "--pack", "media", "--port", str(port),
            ],
            cwd=folder,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def begin(self, receiver: str) -> None:
        """Something for every page; `receiver` is told how the tasks of two types end."""
        while True:
            try:
                self.ask("PUT", "/api/lanes/demo-downloads", {"capacity": 2})
                break
            except OSError:
                time.sleep(0.2)
        for schedule in SCHEDULES:
            self.ask("POST", "/api/periodic-tasks", schedule)
        self._call_back("tidy", {"success": {"url": f"{receiver}/shelves"}})
        self._call_back("album", {"success": {"url": f"{receiver}/gone"}})
        self.ask("POST", "/api/tasks", {"type": "count", "ext": {"to": 2000, "pause": 0.5}, "name": "the long one"})
        for name in ("birds-4", "boats-6", "slow-3", "archive-40"):
            made = self.ask("POST", "/api/subscriptions", {"name": name, "url": f"{self._site}/list/{name}"})
            self.ask("POST", f"/api/subscriptions/{made['id']}/download")

    def _call_back(self, type_code: str, callback: dict[str, Any]) -> None:
        task_type = self.ask("GET", f"/api/task-types/{type_code}")
        del task_type["code"]
        task_type["config"]["callback"] = callback
        self.ask("PUT", f"/api/task-types/{type_code}", task_type)

    def live(self, seconds: float) -> None:
        """Work comes in, as it does: mostly small, sometimes failing."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.ask("POST", "/api/tasks/bulk", {"tasks": [self._some_task() for _ in range(self._draw.randint(1, 4))]})
            time.sleep(self._draw.uniform(0.1, 0.5))

    def _some_task(self) -> dict[str, Any]:
        weighted: list[tuple[float, dict[str, Any]]] = [
            (50, {"type": "hello", "ext": {"name": self._draw.choice(["Ann", "Bo", "Cy"])}}),
            (25, {"type": "fetch", "ext": {"item": self._draw.randint(1, 99), "seconds": 0.8}}),
            (10, {"type": "flaky", "ext": {"failures": self._draw.choice([1, 2, 5])}}),
            (10, {"type": "tidy", "ext": {"shelf": 1, "seconds": 0.3}, "mutex": "shelf:1"}),
            (4, {"type": "album", "ext": {"tracks": 4}}),
            (1, {"type": "invoice", "ext": {"number": self._draw.randint(1000, 9999)}}),
        ]
        return self._draw.choices([task for _, task in weighted], [weight for weight, _ in weighted])[0]

    def held_up(self) -> int:
        """A task that waits for its lane."""
        task = {"type": "fetch", "ext": {"item": 7, "seconds": 600}, "correlation_id": "order-7", "priority": 9}
        made = self.ask("POST", "/api/tasks/bulk", {"tasks": [task] * 4})
        return int(made["tasks"][-1]["id"])

    def newest(self, type_code: str) -> int:
        return int(self.ask("GET", f"/api/tasks?type={type_code}&limit=1")["items"][0]["id"])

    def lock(self) -> str:
        """Shut to whoever has no key from now on; an administrator's."""
        self._key = str(self.ask("POST", "/api/keys", {"name": "ann", "role": "admin"})["key"])
        for name, role, tenant in (
            ("importer", "submit", 3),
            ("dashboard", "read", None),
            ("night shift", "operator", None),
        ):
            self.ask("POST", "/api/keys", {"name": name, "role": role, "tenant_id": tenant})
        return self._key

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


@contextmanager
def receiver() -> Iterator[str]:
    """An address that takes callbacks, except below `/gone`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(410 if self.path.startswith("/gone") else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
