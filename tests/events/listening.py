"""Somebody who listens to server-sent events, as a browser does: it keeps the id of the last one it heard."""

import json
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any, Self

import httpx

PATIENCE = 120.0


@dataclass(frozen=True)
class Message:
    """What is between two empty lines."""

    event: str
    id: str | None
    data: Any
    comment: bool = False


class Listener:
    """A connection; `last_id` is what to come back with."""

    def __init__(self, address: str, path: str = "/api/events", last_id: str | None = None, **headers: str) -> None:
        self.last_id = last_id
        self.retry: int | None = None
        self._messages: queue.Queue[Message | None] = queue.Queue()
        all_headers = headers | ({} if last_id is None else {"Last-Event-ID": last_id})
        self._client = httpx.Client(timeout=PATIENCE)
        self._stream = self._client.stream("GET", address + path, headers=all_headers)

    def __enter__(self) -> Self:
        self.response = self._stream.__enter__()
        if self.response.status_code == 200:
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()
            first = self._messages.get(timeout=PATIENCE)  # the id to begin with
            assert first is not None
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self._client.close()

    def next(self, count: int = 1, event: str = "message") -> list[Any]:
        """The data of the next messages; comes back sooner only if the server ends the stream."""
        found: list[Any] = []
        end = time.monotonic() + PATIENCE
        while len(found) < count:
            message = self._messages.get(timeout=max(end - time.monotonic(), 0.01))  # whatever else is heard meanwhile
            assert message is not None, f"the stream ended after {found}"
            if message.data is not None:
                assert message.event == event, message
                found.append(message.data)
                self.last_id = message.id or self.last_id
            elif message.id is not None:
                self.last_id = message.id
        return found

    def until(self, done: Any) -> list[Any]:
        """Messages up to the first for which `done` holds."""
        found: list[Any] = []
        while not found or not done(found[-1]):
            found += self.next()
        return found

    def rest(self) -> list[Message]:
        """Everything up to the end of the stream."""
        found = []
        while (message := self._messages.get(timeout=PATIENCE)) is not None:
            found.append(message)
        return found

    def _read(self) -> None:
        fields: dict[str, str] = {}
        comment = False
        try:
            for line in self.response.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    comment = comment or line.startswith(":")
                    fields[name] = value
                    continue
                if "retry" in fields:
                    self.retry = int(fields["retry"])
                    self.last_id = self.last_id or fields.get("id")
                data = json.loads(fields["data"]) if "data" in fields else None
                self._messages.put(Message(fields.get("event", "message"), fields.get("id"), data, comment))
                fields, comment = {}, False
        except httpx.HTTPError:
            pass
        finally:
            self._messages.put(None)
