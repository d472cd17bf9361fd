"""How full each lane is: for the people who look at it, by command or over HTTP. A tenant sees its own part."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from headgate.core.forecast import Forecast
from headgate.core.pause import Pause, PauseScope
from headgate.core.states import HELD, State
from headgate.store.catalog.lanes import Lane, Lanes
from headgate.store.catalog.names import Names
from headgate.store.catalog.pauses import Pauses
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.reading.forecasts import Forecasts
from headgate.store.reading.statistics import Count, Statistics


@dataclass(frozen=True, slots=True)
class LaneReport:
    """A lane. `as_of` is when what is blocked and what comes later was counted; None: not yet.

    One tenant's report counts that tenant's tasks, and in `others` those of all others that run within a capacity.
    """

    name: str
    capacity: int | None
    source: str  # who set the capacity
    running: int
    others: int
    queued: int
    queued_exact: bool
    blocked: int
    later: int
    as_of: datetime | None
    pause: Pause | None  # that holds it; a pause of everything is none of a lane's
    drained: Forecast | None = None  # when what runs and waits will likely have ended; None: there is nothing


class LaneReports:
    """How full every lane is."""

    def __init__(
        self, lanes: Lanes, names: Names, pauses: Pauses, statistics: Statistics, forecasts: Forecasts
    ) -> None:
        self._lanes = lanes
        self._names = names
        self._pauses = pauses
        self._statistics = statistics
        self._forecasts = forecasts

    def all(self, tenant_id: int | None = None) -> list[LaneReport]:
        """Every lane, or those that a tenant may see. What runs is exact, as is what is queued up to 10,000; the rest
        is as last sampled."""
        drains, depths = self._forecasts.drains(tenant_id), self._statistics.depths(tenant_id)
        counts = _by_lane(self._statistics.counts(tenant_id))
        held = counts if tenant_id is None else _by_lane(self._statistics.running())
        pauses = {pause.name: pause for pause in self._pauses.active() if pause.scope is PauseScope.LANE}
        names = self._names.visible_to(tenant_id)
        lanes = {lane.name: lane for lane in self._lanes.all() if names.has_lane(lane.name)}
        for name in counts.keys() - lanes.keys():  # removed, perhaps while a task came in
            if depths.get(name) or any(count.as_of is None for count in counts[name]):
                lanes[name] = Lane(name)
        return [
            _report(lanes[name], pauses.get(name), counts[name], held[name], depths.get(name, 0), drains.get(name))
            for name in sorted(lanes)
        ]


def _by_lane(counts: list[Count]) -> defaultdict[str, list[Count]]:
    found: defaultdict[str, list[Count]] = defaultdict(list)
    for count in counts:
        found[count.lane].append(count)
    return found


def _report(
    lane: Lane, pause: Pause | None, counts: list[Count], held: list[Count], queued: int, drained: Forecast | None
) -> LaneReport:
    running = _sum(counts, *HELD)
    sampled = [count for count in counts if count.as_of is not None]
    if queued > EXACT_UP_TO:
        queued = max(queued, _sum(sampled, State.QUEUED))
    return LaneReport(
        lane.name,
        lane.capacity,
        lane.source,
        running=running,
        others=0 if lane.capacity is None else _sum(held, *HELD) - running,
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
