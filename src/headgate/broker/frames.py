"""Messages as AMQP 0-9-1 has them on the wire. Most of what a message costs is spent here: it is written for speed."""

import struct
from functools import lru_cache
from typing import Any, NamedTuple

from headgate.broker.topology import Message
from headgate.broker.wire import (
    BASIC,
    BODY,
    HEADER,
    METHOD,
    PUBLISH,
    call,
    find_value,
    frame,
    number,
    read_long,
    read_short,
    short,
    table,
)
from headgate.core.queues import MOST_BYTES

MANDATORY = 1
PERSISTENT = b"\x02"
# Which properties follow; they stand in this order.
CONTENT_TYPE, CONTENT_ENCODING, HEADERS, DELIVERY_MODE, PRIORITY, CORRELATION_ID, REPLY_TO, EXPIRATION, MESSAGE_ID = (
    1 << bit for bit in range(15, 6, -1)
)
APP_ID = 1 << 3
_HEADER = struct.Struct(">HHQH")
_DELIVERED = struct.Struct(">Q?")
_JSON, _HEADGATE = short("application/json"), short("headgate")


class Delivered(NamedTuple):
    """A message that the broker delivered; what names its task is whatever the sender has put there."""

    delivery_tag: int
    redelivered: bool
    message_id: str | None
    task_id: Any


def encode(channel: int, message: Message, most_bytes: int) -> bytes:
    """The frames that publish a persistent message on a channel; no body frame has more than `most_bytes`.

    A correlation id that AMQP cannot take, for its length, is left out.
    """
    body, method = message.body, _method(channel, message.exchange, message.routing_key, message.mandatory)
    frames = method + frame(HEADER, channel, _header(message))
    for start in range(0, len(body), most_bytes):
        frames += frame(BODY, channel, body[start : start + most_bytes])
    return frames


@lru_cache(1024)  # there are few, and every message has one
def _method(channel: int, exchange: str, routing_key: str, mandatory: bool) -> bytes:
    flags = number(1, MANDATORY if mandatory else 0)
    return frame(METHOD, channel, call(PUBLISH, number(2, 0), short(exchange), short(routing_key), flags))


def _header(message: Message) -> bytes:
    flags = HEADERS | DELIVERY_MODE | MESSAGE_ID | APP_ID
    content_type = correlation_id = b""
    if message.body:
        flags, content_type = flags | CONTENT_TYPE, _JSON
    if message.correlation_id is not None and len(message.correlation_id.encode()) <= MOST_BYTES:
        flags, correlation_id = flags | CORRELATION_ID, short(message.correlation_id)
    headers, message_id = table(message.headers), short(message.message_id)
    fixed = _HEADER.pack(BASIC, 0, len(message.body), flags)
    return b"".join((fixed, content_type, headers, PERSISTENT, correlation_id, message_id, _HEADGATE))


def read_delivery(payload: bytes) -> tuple[str, int, bool]:
    """The consumer that a message was delivered to, its delivery tag, and whether it comes again."""
    consumer_tag, at = read_short(payload, 4)
    tag, redelivered = _DELIVERED.unpack_from(payload, at)
    return consumer_tag, tag, redelivered


def body_size(header: bytes) -> int:
    return int(_HEADER.unpack_from(header)[2])


def read_ids(header: bytes) -> tuple[str | None, Any]:
    """The message id and the header `task_id` of a message, as far as it has them."""
    flags, at = _HEADER.unpack_from(header)[3], _HEADER.size
    message_id = task_id = None
    for known in (CONTENT_TYPE, CONTENT_ENCODING):
        if flags & known:
            at += 1 + header[at]
    if flags & HEADERS:
        headers, at = read_long(header, at)
        task_id = find_value(headers, "task_id")
    at += bool(flags & DELIVERY_MODE) + bool(flags & PRIORITY)
    for known in (CORRELATION_ID, REPLY_TO, EXPIRATION):
        if flags & known:
            at += 1 + header[at]
    if flags & MESSAGE_ID:
        message_id, at = read_short(header, at)
    return message_id, task_id
