"""AMQP 0-9-1 as bytes: frames, strings, tables, and the calls we make. Only what is needed here.

A method is named by its class and number in one integer, as its first four bytes have it.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

GREETING = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8  # kinds of frames
CONNECTION, CHANNEL, EXCHANGE, QUEUE, BASIC, CONFIRM = 10, 20, 40, 50, 60, 85
START, START_OK, TUNE, TUNE_OK = (CONNECTION << 16 | number for number in (10, 11, 30, 31))
OPEN, OPEN_OK, CLOSE, CLOSE_OK = (CONNECTION << 16 | number for number in (40, 41, 50, 51))
CHANNEL_OPEN, CHANNEL_OPEN_OK = (CHANNEL << 16 | number for number in (10, 11))
CHANNEL_FLOW, CHANNEL_FLOW_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (CHANNEL << 16 | number for number in (20, 21, 40, 41))
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK = (EXCHANGE << 16 | number for number in (10, 11))
QUEUE_DECLARE, QUEUE_DECLARE_OK, QUEUE_BIND, QUEUE_BIND_OK = (QUEUE << 16 | number for number in (10, 11, 20, 21))
QUEUE_DELETE, QUEUE_DELETE_OK = (QUEUE << 16 | number for number in (40, 41))
QOS, QOS_OK, CONSUME, CONSUME_OK, CANCEL, CANCEL_OK = (BASIC << 16 | number for number in (10, 11, 20, 21, 30, 31))
PUBLISH, RETURN, DELIVER, ACK, REJECT, NACK = (BASIC << 16 | number for number in (40, 50, 60, 80, 90, 120))
SELECT, SELECT_OK = (CONFIRM << 16 | number for number in (10, 11))

FRAME = struct.Struct(">BHI")  # kind, channel, size; then the payload and one byte more
OVERHEAD = FRAME.size + 1
END = b"\xce"
NUMBER = struct.Struct(">cq")
TEXT = struct.Struct(">cI")
LONG = struct.Struct(">I")
# Values of a table that have a fixed size, by their letter.
_FIXED = {
    letter: struct.Struct(">" + code)
    for letter, code in (
        (b"t", "?"), (b"b", "b"), (b"B", "B"), (b"s", "h"), (b"u", "H"), (b"I", "i"), (b"i", "I"), (b"l", "q"),
        (b"L", "q"), (b"f", "f"), (b"d", "d"), (b"D", "BI"), (b"T", "Q"), (b"V", ""),
    )
}  # fmt: skip


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return FRAME.pack(kind, channel, len(payload)) + payload + END


def short(text: str) -> bytes:
    encoded = text.encode()
    return bytes((len(encoded),)) + encoded


def long(content: bytes) -> bytes:
    return LONG.pack(len(content)) + content


_name = lru_cache(256)(short)  # there are few


def table(values: Mapping[str, Any]) -> bytes:
    """A table of numbers, texts, tables, flags and Nones."""
    parts = []
    for name, value in values.items():
        parts.append(_name(name))
        if isinstance(value, str):
            text = value.encode()
            parts += (TEXT.pack(b"S", len(text)), text)
        elif value is None:
            parts.append(b"V")
        elif value is True or value is False:
            parts.append(b"t\x01" if value else b"t\x00")
        elif isinstance(value, Mapping):
            parts += (b"F", table(value))
        else:
            parts.append(NUMBER.pack(b"l", value))
    return long(b"".join(parts))


def read_short(data: bytes, at: int) -> tuple[str, int]:
    """A short text, and where it ends."""
    end = at + 1 + data[at]
    return data[at + 1 : end].decode("utf-8", "replace"), end


def read_long(data: bytes, at: int) -> tuple[bytes, int]:
    [size] = LONG.unpack_from(data, at)
    return data[at + 4 : at + 4 + size], at + 4 + size


def read_table(content: bytes) -> dict[str, Any]:
    """What a table says; lists and bytes in it are left as they are."""
    found, at = {}, 0
    while at < len(content):
        name, at = read_short(content, at)
        found[name], at = _read_value(content, at)
    return found


def find_value(content: bytes, name: str) -> Any:
    """One value of a table; None if it has none of that name. What lies behind it is not read."""
    wanted, at = _name(name), 0
    while at < len(content):
        behind = at + 1 + content[at]
        is_wanted = content[at:behind] == wanted
        value, at = _read_value(content, behind)
        if is_wanted:
            return value
    return None


def _read_value(content: bytes, at: int) -> tuple[Any, int]:
    letter, at = content[at : at + 1], at + 1
    fixed = _FIXED.get(letter)
    if fixed is not None:
        values = fixed.unpack_from(content, at)
        return values[0] if values else None, at + fixed.size
    inner, at = read_long(content, at)
    match letter:
        case b"S":
            return inner.decode("utf-8", "replace"), at
        case b"F":
            return read_table(inner), at
        case b"A" | b"x":
            return inner, at
    raise ValueError(f"a table has no values of the kind {letter!r}")


def call(method: int, *parts: bytes) -> bytes:
    """The payload of a method's frame."""
    return LONG.pack(method) + b"".join(parts)


def number(size: int, value: int) -> bytes:
    return value.to_bytes(size)
