"""How full each lane is: for the people who look at it, by command or over HTTP."""

from dataclasses import dataclass
from datetime import datetime

from headgate.core.states import HELD, State
from headgate.store.base import Store
from headgate.store.reports import EXACT_UP_TO, Count


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane in use. `as_of` is when what is blocked and what comes later was counted; None: not yet."""

    name: str
    capacity: int | None
    running: int
    queued: int
    queued_exact: bool
    blocked: int
    later: int
    as_of: datetime | None
    paused: bool


def lanes_of(store: Store) -> list[Lane]:
    """Every lane. What runs is exact, as is what is queued up to 10,000; the rest is as last sampled."""
    counts = store.counts()
    return [
        _lane(store, room.name, room.capacity, room.paused, [count for count in counts if count.lane == room.name])
        for room in sorted(store.lanes(), key=lambda room: room.name)
    ]


def _lane(store: Store, name: str, capacity: int | None, paused: bool, counts: list[Count]) -> Lane:
    sampled = [count for count in counts if count.as_of is not None]
    queued = store.depth(name)
    if queued > EXACT_UP_TO:
        queued = max(queued, _sum(sampled, State.QUEUED))
    return Lane(
        name,
        capacity,
        running=_sum(counts, *HELD),
        queued=queued,
        queued_exact=queued <= EXACT_UP_TO,
        blocked=_sum(sampled, State.BLOCKED),
        later=_sum(sampled, State.PENDING, State.RETRYING),
        as_of=max((count.as_of for count in sampled if count.as_of), default=None),
        paused=paused,
    )


def _sum(counts: list[Count], *states: State) -> int:
    return sum(count.count for count in counts if count.status in states)
