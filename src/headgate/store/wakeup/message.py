"""What a commit tells those who wait: work to claim, room that was made, requests to running tasks.

News are hints: whoever misses them finds out at its next look. They travel between processes as one short JSON text.
"""

import json
from dataclasses import dataclass, field

Wakes = dict[int, tuple[int, int]]

MOST_BYTES = 7_900  # PostgreSQL takes less than 8,000
MOST_NAMED = 500


@dataclass(slots=True)
class News:
    """Streams that got something to claim, each with the first (priority, id) of it; and what else there is to know."""

    wakes: Wakes = field(default_factory=dict)
    room: dict[str, int] = field(default_factory=dict)  # places given up in each limit, less those taken again
    requested: set[int] = field(default_factory=set)  # workers of whose running tasks something is requested
    missed: bool = False  # there may have been anything
    callbacks_due: bool = False  # a callback is to be sent

    def __bool__(self) -> bool:
        return self.something_may_start or bool(self.requested) or self.callbacks_due

    @property
    def something_may_start(self) -> bool:
        return bool(self.wakes) or self.missed or self.has_room

    @property
    def has_room(self) -> bool:
        return bool(self.room) and max(self.room.values()) > 0

    def wake(self, stream_id: int, priority: int, task_id: int) -> None:
        """Note that a claim of this stream may find this task."""
        known = self.wakes.get(stream_id)
        if known is None or (priority, task_id) < known:
            self.wakes[stream_id] = (priority, task_id)

    def add(self, other: "News") -> None:
        """Take up what others tell as well."""
        for stream_id, (priority, task_id) in other.wakes.items():
            self.wake(stream_id, priority, task_id)
        if other.has_room:
            self.room["any"] = 1
        self.requested |= other.requested
        self.missed = self.missed or other.missed
        self.callbacks_due = self.callbacks_due or other.callbacks_due


def encode(news: News, token: str) -> str:
    """The news as text, signed with its sender's token; what does not fit is sent as `missed`."""
    if not news.missed and len(news.wakes) + len(news.requested) <= MOST_NAMED:
        named = [[stream_id, *place] for stream_id, place in news.wakes.items()]
        parts = [token, named, news.has_room, sorted(news.requested)]
        text = json.dumps([*parts, True] if news.callbacks_due else parts, separators=(",", ":"))
        if len(text) <= MOST_BYTES:
            return text
    return json.dumps([token])


def decode(text: str | bytes) -> tuple[str, News]:
    """The sender's token and its news; `ValueError` for what is none."""
    match json.loads(text):
        case [str(token)]:
            return token, News(missed=True)
        case [str(token), list(named), bool(room), list(requested), *callbacks] if callbacks in ([], [True]):
            try:
                wakes = {int(stream_id): (int(priority), int(task_id)) for stream_id, priority, task_id in named}
                workers = {int(worker_id) for worker_id in requested}
                return token, News(wakes, {"any": 1} if room else {}, workers, callbacks_due=bool(callbacks))
            except TypeError as error:
                raise ValueError(f"no news: {error}") from error
    raise ValueError("no news")
