"""The names of the broker's queues: one for each lane and type."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

PREFIX = "headgate.tasks"
MOST_QUEUES = 500  # tasks of further lanes share one queue for each type
SHARED_FROM = MOST_QUEUES * 9 // 10  # pairs, from which on the shared queues are consumed
MOST_BYTES = 255  # of a name, as AMQP has it
_DIGEST = 16
_PLAIN = re.compile(r"[A-Za-z0-9_-]")

Pair = tuple[str, str]  # a lane and a type


def queue_name(lane: str, type_code: str) -> str:
    """The queue of a lane's tasks of a type. Two pairs never have the same name."""
    return cut(f"{PREFIX}.{escape(lane)}.{escape(type_code)}")


def shared_queue_name(type_code: str) -> str:
    """The queue of all tasks of a type whose lane has no queue of its own."""
    return cut(f"{PREFIX}.#.{escape(type_code)}")


def routes(pairs: Iterable[Pair]) -> dict[Pair, str]:
    """The queue of every pair, for those who publish. Of too many pairs the later ones share the queue of their type:
    when pairs come and go, one may move there or back."""
    found: dict[Pair, str] = {}
    for lane, type_code in pairs:
        if (lane, type_code) not in found:
            own = len(found) < MOST_QUEUES
            found[lane, type_code] = queue_name(lane, type_code) if own else shared_queue_name(type_code)
    return found


def queues_of(types: Iterable[str], routed: Mapping[Pair, str]) -> set[str]:
    """The queues that tasks of these types may be in, for those who consume.

    A pair that moves to or from a shared queue is found on both: the shared ones are consumed before they are needed,
    and as long as pairs may go back to them.
    """
    wanted = frozenset(types)
    found = {queue for (_, type_code), queue in routed.items() if type_code in wanted}
    return found | {shared_queue_name(type_code) for type_code in wanted if len(routed) >= SHARED_FROM}


def escape(text: str, keep: str = "") -> str:
    """The text with every character but letters, digits, `_`, `-` and those to `keep` as @XX.

    Not as %XX: client libraries refuse that in the name of a queue.
    """
    return "".join(
        char if _PLAIN.fullmatch(char) or char in keep else "".join(f"@{byte:02X}" for byte in char.encode())
        for char in text
    )


def cut(name: str) -> str:
    """A name of ASCII that AMQP can take: what is too long ends with a digest of the whole."""
    if len(name) <= MOST_BYTES:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: MOST_BYTES - _DIGEST - 1]}:{digest}"
