"""How full each lane is: for the people who look at it, by command or over HTTP."""

from dataclasses import dataclass
from datetime import datetime

from headgate.core.forecast import Forecast
from headgate.core.gates import Room
from headgate.core.states import HELD, State
from headgate.store.base import Store
from headgate.store.reports import EXACT_UP_TO, Count


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane. `as_of` is when what is blocked and what comes later was counted; None: not yet."""

    name: str
    capacity: int | None
    running: int
    queued: int
    queued_exact: bool
    blocked: int
    later: int
    as_of: datetime | None
    paused: bool
    drained: Forecast | None = None  # when what runs and waits will likely have ended; None: there is nothing


def lanes_of(store: Store) -> list[Lane]:
    """Every lane. What runs is exact, as is what is queued up to 10,000; the rest is as last sampled."""
    counts, drains = store.counts(), store.forecasts.drains()
    rooms = sorted(store.lanes(), key=lambda room: room.name)
    return [
        _lane(store, room, [count for count in counts if count.lane == room.name], drains.get(room.name))
        for room in rooms
    ]


def _lane(store: Store, room: Room, counts: list[Count], drained: Forecast | None) -> Lane:
    sampled = [count for count in counts if count.as_of is not None]
    queued = store.depth(room.name)
    if queued > EXACT_UP_TO:
        queued = max(queued, _sum(sampled, State.QUEUED))
    return Lane(
        room.name,
        room.capacity,
        running=_sum(counts, *HELD),
        queued=queued,
        queued_exact=queued <= EXACT_UP_TO,
        blocked=_sum(sampled, State.BLOCKED),
        later=_sum(sampled, State.PENDING, State.RETRYING),
        as_of=max((count.as_of for count in sampled if count.as_of), default=None),
        paused=room.paused,
        drained=drained,
    )


def _sum(counts: list[Count], *states: State) -> int:
    return sum(count.count for count in counts if count.status in states)
