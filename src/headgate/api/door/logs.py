"""One log line for each request: who asked for what, and how that ended. Never a key, a query or a body."""

import logging
from typing import Any

from headgate.environment import monotonic
from headgate.events.log_lines import FIELDS
from headgate.events.telemetry import RequestOrigin, request_origin, subject

log = logging.getLogger("headgate.api")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
AGENT_PATHS = "/api/agents"  # agents ask all the time, and what they change is in the audit
LONGEST_PATH = 200


class RequestLog:
    """The line of one request; from when it is made, other lines written for the request carry its id."""

    __slots__ = ("_request", "began", "status")

    def __init__(self, request_id: str, headers: dict[bytes, bytes]) -> None:
        self.began = monotonic()
        self._request: RequestOrigin = request_origin(
            request_id,
            headers.get(b"x-correlation-id", b"").decode("latin-1"),
            headers.get(b"traceparent", b"").decode("latin-1"),
        )
        self.status = 0  # no answer was sent: the client is gone, or there is a bug
        subject.set(self._request)

    def authenticated(self, user: str) -> None:
        """It is known who asks."""
        self._request.user = user

    def write(self, scope: Any) -> None:
        """What was asked and answered; at `info` if it changed something or went wrong here, else at `debug`."""
        method, path, status = scope["method"], scope["path"][:LONGEST_PATH], self.status
        changed = method not in SAFE_METHODS and 0 < status < 400 and not path.startswith(AGENT_PATHS)
        level = logging.INFO if changed or status >= 500 else logging.DEBUG
        if not log.isEnabledFor(level):
            return
        milliseconds = round(1000 * (monotonic() - self.began), 1)
        who = scope["state"].get("principal")
        fields = {
            "method": method,
            "path": path,
            "status": status,
            "milliseconds": milliseconds,
            "tenant_id": None if who is None else who.tenant_id,
        }
        log.log(level, "%s %s %d %g ms", method, path, status, milliseconds, extra={FIELDS: fields})
