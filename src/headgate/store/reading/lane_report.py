"""How full each lane is: for the people who look at it, by command or over HTTP."""

from dataclasses import dataclass
from datetime import datetime

from headgate.core.forecast import Forecast
from headgate.core.pause import Pause, PauseScope
from headgate.core.states import HELD, State
from headgate.store.catalog.lanes import Lane, Lanes
from headgate.store.catalog.pauses import Pauses
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.reading.forecasts import Forecasts
from headgate.store.reading.statistics import Count, Statistics


@dataclass(frozen=True, slots=True)
class LaneReport:
    """A lane. `as_of` is when what is blocked and what comes later was counted; None: not yet."""

    name: str
    capacity: int | None
    source: str  # who set the capacity
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
        lanes = {lane.name: lane for lane in self._lanes.all()}
        for name in {count.lane for count in counts} - lanes.keys():  # removed, perhaps while a task came in
            if self._statistics.depth(name) or any(c.lane == name and c.as_of is None for c in counts):
                lanes[name] = Lane(name)
        return [
            self._report(
                lanes[name], pauses.get(name), [count for count in counts if count.lane == name], drains.get(name)
            )
            for name in sorted(lanes)
        ]

    def _report(self, lane: Lane, pause: Pause | None, counts: list[Count], drained: Forecast | None) -> LaneReport:
        sampled = [count for count in counts if count.as_of is not None]
        queued = self._statistics.depth(lane.name)
        if queued > EXACT_UP_TO:
            queued = max(queued, _sum(sampled, State.QUEUED))
        return LaneReport(
            lane.name,
            lane.capacity,
            lane.source,
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
