"""A small agent: fetches tasks of a server by HTTP and runs them, one at a time, without a store of its own."""

import json
import logging
import threading
import time
import traceback
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from headgate.core.retry import ErrorClass, classify, error_names
from headgate.core.task import MAX_ERROR_NAMES, clip_error
from headgate.environment import new_ids, utc_now
from headgate.pauses import Backoff

log = logging.getLogger("headgate.agent")
RETRIES = Backoff(0.5, 30.0, jitter=1.0)


class Stopped(Exception):
    """Raised in a handler by `Work`'s methods: somebody asked for the task to be cancelled or paused."""


class ServerProblem(Exception):
    """The server's answer to a call that it did not take."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Work:
    """One task under way. `control` is none, cancel, pause, or gone when another agent has the task."""

    def __init__(self, agent: "Agent", task: dict[str, Any]) -> None:
        self._agent = agent
        self.id: int = task["id"]
        self.exec_id: str = task["exec_id"]
        self.ext: Any = task["ext"]
        self.attempt: int = task["attempt"]
        self.checkpoints: dict[str, Any] = task["checkpoints"]
        self.deadline = datetime.fromisoformat(task["executing_deadline"])
        self.control = "none"

    def progress(
        self, done: float | None = None, total: float | None = None, note: str | None = None, *, data: Any = None
    ) -> None:
        """Report progress; `data` is any JSON to go with it."""
        self.report("progress", done=done, total=total, note=note, data=data)
        self._stop_if_asked("cancel")

    def log(self, message: str, level: str = "info") -> None:
        """Add a log line to the task."""
        self.report("log", lines=[{"message": message, "level": level}])
        self._stop_if_asked("cancel")

    def checkpoint(self, name: str, state: Any) -> None:
        """Save a state that the next execution finds; a task that is to pause ends here."""
        self.report("checkpoint", name=name, state=state)
        self._stop_if_asked("cancel", "pause")

    def check(self) -> None:
        """Raise `Stopped` if the task is to end: for long work that reports nothing."""
        self._stop_if_asked("cancel")

    def report(self, route: str, **fields: Any) -> None:
        """Send a report to one of the task's routes; the answer says what is asked of the task."""
        body = {"exec_id": self.exec_id, **fields}
        answer = self._agent.call_until_answered(f"tasks/{self.id}/{route}", body, self.deadline)
        self.control = answer["control"]

    def _stop_if_asked(self, *reasons: str) -> None:
        if self.control in (*reasons, "gone"):
            raise Stopped(self.control)


Handler = Callable[[Work], Any]


class Agent:
    """Serves the types that it has handlers for. `name` is its own on this server; a key comes from `headgate keys`."""

    def __init__(self, server: str, name: str, *, key: str | None = None, lease_seconds: float = 30.0) -> None:
        self._path = f"/api/agents/{quote(name, safe='')}/"
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._connections = Connections(server.rstrip("/"))
        self._lease = lease_seconds
        self._instance = new_ids(1)[0]
        self._handlers: dict[str, Handler] = {}
        self._stopping = threading.Event()

    def handles(self, type_code: str) -> Callable[[Handler], Handler]:
        """Declare the handler of a type; what it returns is the task's result, as JSON."""

        def declare(handler: Handler) -> Handler:
            self._handlers[type_code] = handler
            return handler

        return declare

    def stop(self) -> None:
        """End after the task at hand, or when the wait for one is over. May be called from a signal handler."""
        self._stopping.set()

    def run(self, wait_seconds: float = 20.0) -> None:
        """Fetch and run tasks until `stop`."""
        try:
            while not self._stopping.is_set():
                self.turn(wait_seconds)
        finally:
            self.close()

    def close(self) -> None:
        """Close the connections; later calls open new ones."""
        self._connections.close()

    def turn(self, wait_seconds: float = 20.0) -> int:
        """Wait for tasks once and run those that came; returns how many."""
        wanted = {
            "types": sorted(self._handlers), "wait_seconds": wait_seconds, "lease_seconds": self._lease,
            "instance": self._instance,
            "claim_id": new_ids(1)[0],  # kept until there is an answer: claimed tasks are not lost with a lost answer
        }  # fmt: skip
        tasks: list[dict[str, Any]] = self.call_until_answered("claim", wanted, timeout=wait_seconds + 20)["tasks"]
        for task in tasks:
            try:
                self._run(Work(self, task), task)
            except ServerProblem as problem:  # another agent has the task: our reports do not count
                log.warning("report refused: task=%d error=%s", task["id"], problem)
        return len(tasks)

    def _run(self, work: Work, task: dict[str, Any]) -> None:
        if task["status"] == "scheduling":  # assigned to this agent: it runs when its start is confirmed
            work.report("start")
        done = threading.Event()
        beating = threading.Thread(target=self._beat, args=(work, done), daemon=True)
        beating.start()
        try:
            result = self._handlers[task["type"]](work)
            json.dumps(result)
        except Stopped:
            if work.control != "gone":
                work.report("cancelled" if work.control == "cancel" else "paused")
        except ServerProblem:
            raise
        except Exception as error:
            retryable = {ErrorClass.RETRYABLE: True, ErrorClass.FATAL: False}.get(classify(error))
            names = error_names(type(error))[:MAX_ERROR_NAMES]
            info = clip_error(traceback.format_exc())
            work.report("fail", error_info=info, retryable=retryable, error_names=names)
        else:
            self._complete(work, result)
        finally:
            done.set()
            beating.join()

    def _complete(self, work: Work, result: Any) -> None:
        try:
            work.report("complete", result=result)
        except ServerProblem as problem:
            if problem.status == 409:
                raise
            work.report("fail", error_info=f"its result was not taken: {problem}", retryable=False)

    def _beat(self, work: Work, done: threading.Event) -> None:
        while not done.wait(self._lease / 6):
            try:
                answer = self._call(f"tasks/{work.id}/beat", {"exec_id": work.exec_id}, self._lease / 3)
                work.control = answer["control"]
            except ServerProblem as problem:
                if problem.status in (404, 409):
                    work.control = "gone"
            except (OSError, ValueError, HTTPException) as error:
                log.warning("heartbeat failed: task=%d error=%s", work.id, error)

    def call_until_answered(self, path: str, body: Any, until: datetime | None = None, timeout: float = 20.0) -> Any:
        """Make a call, with growing pauses between tries, until the server answers or it is too late."""
        for pause in RETRIES.pauses():
            try:
                return self._call(path, body, timeout)
            except ServerProblem as problem:
                if problem.status < 500 and problem.status != 429:
                    raise
                log.warning("call failed, retrying: path=%s error=%s", path, problem)
            except (OSError, ValueError, HTTPException) as error:
                if until is not None and utc_now() > until:
                    raise ServerProblem(0, f"no answer before the deadline: {error}") from error
                log.warning("call failed, retrying: path=%s error=%s", path, error)
            time.sleep(pause)

    def _call(self, path: str, body: Any, timeout: float) -> Any:
        status, answer = self._connections.post(self._path + path, json.dumps(body).encode(), self._headers, timeout)
        if not 200 <= status < 300:
            raise ServerProblem(status, _detail(answer))
        return json.loads(answer)


class Connections:
    """Connections to one server, kept open from one call to the next; through the environment's proxy, if it names one.

    Every request must be safe to repeat: a connection that the server has closed meanwhile is noticed only when it is
    used.
    """

    def __init__(self, server: str) -> None:
        target = urlsplit(server)
        secure, host = target.scheme == "https", target.hostname or ""
        proxy = None if proxy_bypass(host) else getproxies().get(target.scheme)
        self._connection_class = HTTPSConnection if secure else HTTPConnection
        self._first = urlsplit(proxy) if proxy else target
        self._tunnel = (host, target.port) if proxy and secure else None
        self._prefix = server if proxy and not secure else target.path
        self._proxy_headers = _proxy_authorization(self._first.username, self._first.password) if proxy else {}
        self._idle: list[HTTPConnection] = []

    def post(self, path: str, body: bytes, headers: dict[str, str], timeout: float) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        if self._tunnel is None:
            headers = headers | self._proxy_headers
        while True:
            reused = self._idle.pop() if self._idle else None
            connection = reused or self._make()
            try:
                return self._post(connection, path, body, headers, timeout)
            except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                if reused is None:
                    raise

    def _post(
        self, connection: HTTPConnection, path: str, body: bytes, headers: dict[str, str], timeout: float
    ) -> tuple[int, bytes]:
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            connection.request("POST", self._prefix + path, body, headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return response.status, content

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _make(self) -> HTTPConnection:
        connection = self._connection_class(self._first.hostname or "", self._first.port)
        if self._tunnel is not None:
            connection.set_tunnel(*self._tunnel, headers=self._proxy_headers)
        return connection


def _proxy_authorization(name: str | None, password: str | None) -> dict[str, str]:
    """The header that authorizes us at a proxy, if its URL names a user."""
    if name is None:
        return {}
    credentials = b64encode(f"{unquote(name)}:{unquote(password or '')}".encode()).decode()
    return {"Proxy-Authorization": f"Basic {credentials}"}


def _detail(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["detail"])
    except (ValueError, LookupError, TypeError):
        return answer[:200].decode(errors="replace")
