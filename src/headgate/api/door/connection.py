"""One connection of a client: what it sends is bounded while it is read, before there is a request to judge."""

from typing import Any, Literal, NoReturn

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from headgate.api.door.address import network_of
from headgate.api.door.connections import Connections
from headgate.api.door.safe_headers import with_safe_headers
from headgate.api.door.visit import HUNG_UP
from headgate.api.problems import Rejected, problem_response
from headgate.environment import monotonic, new_uuid7

MOST_HEAD_BYTES = 32 * 1024  # of the target and the headers, trailers included
MOST_PIPELINED = 32  # requests that wait behind one that is being answered
LINGER_SECONDS = 2.0  # time to read the refusal: a socket closed on unread data would drop it
HEALTH = frozenset({b"/livez", b"/readyz"})
HEAD_TOO_LARGE = f"the head of a request holds at most {MOST_HEAD_BYTES // 1024} KiB"
TOO_MANY = "too many connections, or requests on this one; try again later"


class Connection(HttpToolsProtocol):
    """uvicorn's protocol, with bounds. What breaks one is answered with a problem, and the connection is closed."""

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self.address = self.network = ""
        self.served = True
        self._all = connections
        self._limits = connections.limits
        self._closing = False
        self._refusal: Rejected | None = None
        self._awaited: Literal["head", "body", "nothing"] = "head"
        self._awaited_since = monotonic()
        self._head_bytes = 0
        self._unparsed_bytes = 0  # read since the parser last came to the end of something
        self._unsent_bytes = 0
        self._sent_at = 0.0

    def connection_made(self, transport: Any) -> None:  # uvloop's own is none of asyncio's classes
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.network = network_of(self.address)
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self)
        if self.cycle is not None:
            self.cycle.scope["state"][HUNG_UP] = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._awaited == "nothing" and self.cycle.response_complete:  # line breaks before a head are part of none
            self._await("head")
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > MOST_HEAD_BYTES:  # one header, chunk size or trailer without an end
            self.refuse(Rejected(431, HEAD_TOO_LARGE))

    def send_400_response(self, msg: str) -> None:
        """Called when the parser gave up, or one of our callbacks made it."""
        self.refuse(self._refusal or Rejected(400, "the request is not HTTP/1.1"))

    def refuse(self, refusal: Rejected) -> None:
        """Answer with a problem, unless an answer has begun, and close."""
        if self._closing:
            return
        self._closing = True
        cycle: RequestResponseCycle | None = self.cycle
        answering = False
        if cycle is not None and not cycle.response_complete:  # it is refused itself only while its body is read
            answering = cycle.response_started or self._awaited != "body"
        if cycle is not None:  # a handler that waits for the rest of the body learns that there is none
            cycle.disconnected = True
            cycle.message_event.set()
        if answering or self.pipeline or self.transport.is_closing():
            self.transport.abort()
            return
        self.transport.write(_answer(refusal))
        self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def drop(self) -> None:
        """Close, whatever was to be sent."""
        self._closing = True
        self.transport.abort()

    # Deadlines

    def check_deadlines(self, now: float) -> None:
        """Give up on a client that is too slow with a head or a body, or in taking an answer."""
        self._check_sending(now)
        if self._closing or self._awaited == "nothing":
            return
        cycle: RequestResponseCycle | None = self.cycle
        is_next = self._awaited == "head" and cycle is not None and not cycle.response_complete
        if self.flow.read_paused or is_next:  # reading is paused, or it has no turn yet: that is our doing
            self._awaited_since = now
        limit = self._limits.head_seconds if self._awaited == "head" else self._limits.body_seconds
        if now - self._awaited_since < limit:
            return
        if cycle is None and not self._unparsed_bytes:  # it never said anything
            self.drop()
        else:
            self.refuse(Rejected(408, f"the {self._awaited} of the request did not arrive within {limit:g} s"))

    def _check_sending(self, now: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        cycle: RequestResponseCycle | None = self.cycle
        may_grow = not self.flow.write_paused and cycle is not None and not cycle.response_complete
        if not unsent or unsent < self._unsent_bytes or may_grow:
            self._sent_at = now
        elif now - self._sent_at >= self._limits.answer_seconds:
            self.drop()
        self._unsent_bytes = unsent

    def _await(self, awaited: Literal["head", "body", "nothing"]) -> None:
        self._awaited = awaited
        self._awaited_since = monotonic()
        self._unparsed_bytes = 0

    # What the parser found. An exception makes it give up.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._awaited != "head":
            self._await("head")
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        if self._awaited == "head":  # a trailer comes after the checks of the headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._await("body")
        self._all.note_request(self)
        if len(self.pipeline) >= MOST_PIPELINED or (not self.served and self.url not in HEALTH):
            self._give_up(503, TOO_MANY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._await("nothing")
        super().on_message_complete()

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            self._give_up(431, HEAD_TOO_LARGE)

    def _give_up(self, status: int, detail: str) -> NoReturn:
        self._refusal = Rejected(status, detail)
        raise self._refusal


def _answer(refusal: Rejected) -> bytes:
    """A refusal as it is sent to who got no further than the connection."""
    request_id = new_uuid7()
    response = problem_response(refusal, request_id)
    headers = [*with_safe_headers(response.raw_headers, request_id), (b"connection", b"close")]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    return STATUS_LINE[refusal.status] + lines + b"\r\n" + bytes(response.body)
