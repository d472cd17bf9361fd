"""What a commit announces: work to claim, free room, requests to running tasks.

News are hints: a process that misses them finds out at its next look. They travel between processes as a short JSON
text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Wakes = dict[int, tuple[int, int]]

MOST_BYTES = 7_900  # PostgreSQL takes less than 8,000
MOST_NAMED = 500
RESOURCE = "resource "  # begins the name of a resource's gate


@dataclass(slots=True)
class News:
    """Streams that got something to claim, each with the first (priority, id) of it; and what else there is to know."""

    wakes: Wakes = field(default_factory=dict)
    room: dict[str, int] = field(default_factory=dict)  # places given up in each limit, less those taken again
    requested: set[int] = field(default_factory=set)  # workers of whose running tasks something is requested
    missed: bool = False  # news was lost: anything may have happened
    callbacks_due: bool = False  # a callback is to be sent

    def __bool__(self) -> bool:
        return self.something_may_start or bool(self.requested) or self.callbacks_due

    @property
    def something_may_start(self) -> bool:
        return bool(self.wakes) or self.missed or self.has_room

    @property
    def has_room(self) -> bool:
        return bool(self.room) and max(self.room.values()) > 0

    @property
    def resources(self) -> set[str]:
        """The resources in which there is room again."""
        return {
            gate.removeprefix(RESOURCE)
            for gate, places in self.room.items()
            if places > 0 and gate.startswith(RESOURCE)
        }

    def wake(self, stream_id: int, priority: int, task_id: int) -> None:
        """Note that a claim of this stream may find this task."""
        known = self.wakes.get(stream_id)
        if known is None or (priority, task_id) < known:
            self.wakes[stream_id] = (priority, task_id)

    def add(self, other: "News") -> None:
        """Merge other news into this."""
        for stream_id, (priority, task_id) in other.wakes.items():
            self.wake(stream_id, priority, task_id)
        for gate, places in other.room.items():
            if places > 0:
                self.room[gate] = 1
        self.requested |= other.requested
        self.missed = self.missed or other.missed
        self.callbacks_due = self.callbacks_due or other.callbacks_due


def encode(news: News, token: str) -> str:
    """The news as text, signed with its sender's token; what does not fit is sent as `missed`."""
    if not news.missed and len(news.wakes) + len(news.requested) <= MOST_NAMED:
        named = [[stream_id, *place] for stream_id, place in news.wakes.items()]
        parts = [token, named, news.has_room, sorted(news.requested)]
        more: list[Any] = [True] if news.callbacks_due else []
        if freed := news.resources:
            more.append(sorted(freed))
        text = json.dumps([*parts, *more], separators=(",", ":"))
        if len(text) <= MOST_BYTES:
            return text
    return json.dumps([token])


def decode(text: str | bytes) -> tuple[str, News]:
    """The sender's token and its news; `ValueError` if the text is not news."""
    match json.loads(text):
        case [str(token)]:
            return token, News(missed=True)
        case [str(token), list(named), bool(room), list(requested)]:
            return token, _news(named, room, requested)
        case [str(token), list(named), bool(room), list(requested), True]:
            return token, _news(named, room, requested, callbacks_due=True)
        case [str(token), list(named), bool(room), list(requested), list(freed)]:
            return token, _news(named, room, requested, freed)
        case [str(token), list(named), bool(room), list(requested), True, list(freed)]:
            return token, _news(named, room, requested, freed, callbacks_due=True)
    raise ValueError("no news")


def _news(
    named: list[Any], room: bool, requested: list[Any], freed: Sequence[Any] = (), *, callbacks_due: bool = False
) -> News:
    wakes = {}
    for wake in named:
        match wake:
            case [stream_id, priority, task_id]:
                wakes[_number(stream_id)] = _number(priority), _number(task_id)
            case _:
                raise ValueError("no news")
    gates = {f"{RESOURCE}{name}": 1 for name in freed} or ({"any": 1} if room else {})
    return News(wakes, gates, set(map(_number, requested)), callbacks_due=callbacks_due)


def _number(value: object) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError("no news: a number is none that a store has")
    return value
