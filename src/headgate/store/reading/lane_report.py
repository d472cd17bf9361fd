"""How full each lane is: for the people who look at it, by command or over HTTP."""

from dataclasses import dataclass
from datetime import datetime

from headgate.core.forecast import Forecast
from headgate.core.gates import CapacityLimit
from headgate.core.pause import Pause, PauseScope
from headgate.core.states import HELD, State
from headgate.store.catalog.lanes import Lanes
from headgate.store.catalog.pauses import Pauses
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.reading.forecasts import Forecasts
from headgate.store.reading.statistics import Count, Statistics


@dataclass(frozen=True, slots=True)
class LaneReport:
    """A lane. `as_of` is when what is blocked and what comes later was counted; None: not yet."""

    name: str
    capacity: int | None
    running: int
    queued: int
    queued_exact: bool
    blocked: int
    later: int
    as_of: datetime | None
    pause: Pause | None  # that holds it; a pause of everything is none of a lane's
    drained: Forecast | None = None  # when what runs and waits will likely have ended; None: there is nothing


class LaneReports:
    """How full every lane is."""

    def __init__(self, lanes: Lanes, pauses: Pauses, statistics: Statistics, forecasts: Forecasts) -> None:
        self._lanes = lanes
        self._pauses = pauses
        self._statistics = statistics
        self._forecasts = forecasts

    def all(self) -> list[LaneReport]:
        """Every lane. What runs is exact, as is what is queued up to 10,000; the rest is as last sampled."""
        counts, drains = self._statistics.counts(), self._forecasts.drains()
        pauses = {pause.name: pause for pause in self._pauses.active() if pause.scope is PauseScope.LANE}
        return [
            self._report(
                room,
                pauses.get(room.name),
                [count for count in counts if count.lane == room.name],
                drains.get(room.name),
            )
            for room in sorted(self._lanes.all(), key=lambda room: room.name)
        ]

    def _report(
        self, room: CapacityLimit, pause: Pause | None, counts: list[Count], drained: Forecast | None
    ) -> LaneReport:
        sampled = [count for count in counts if count.as_of is not None]
        queued = self._statistics.depth(room.name)
        if queued > EXACT_UP_TO:
            queued = max(queued, _sum(sampled, State.QUEUED))
        return LaneReport(
            room.name,
            room.capacity,
            running=_sum(counts, *HELD),
            queued=queued,
            queued_exact=queued <= EXACT_UP_TO,
            blocked=_sum(sampled, State.BLOCKED),
            later=_sum(sampled, State.PENDING, State.RETRYING),
            as_of=max((count.as_of for count in sampled if count.as_of), default=None),
            pause=pause,
            drained=drained,
        )


def _sum(counts: list[Count], *states: State) -> int:
    return sum(count.count for count in counts if count.status in states)
