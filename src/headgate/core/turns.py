"""Whose turn it is where tenants share something: the slots of workers, a lane, a resource, a rate limit.

Start-time fair queueing. Each tenant has a place in the order of each thing that it shares with others, and the lowest
place goes first. A start moves its tenant on by 1/weight. A tenant that was away comes back where the first of the
others stands now: it has lost nothing, and has saved up nothing.

Each claiming process has its own `Turns`. They decide in which order tenants are served, never what may start.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from headgate.core.errors import Invalid

SLOTS = "slots"  # of workers; what else is shared goes by the name of its gate
DEFAULT_WEIGHT = 1.0
MOST_KNOWN = 1000  # things, and tenants of each

LEAST_WEIGHT = 0.01
MOST_WEIGHT = 1000.0

Weights = Mapping[int, float]  # by tenant; one that is missing has `DEFAULT_WEIGHT`


def check_weight(weight: float) -> None:
    """Raise `Invalid` unless this may be the weight of a tenant."""
    if isinstance(weight, bool) or not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise Invalid(f"the weight of a tenant is between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}, not {weight!r}")


class Standing(NamedTuple):
    """Where a tenant stands; the lowest goes first.

    At the same place, the one served longest ago goes first; among those never served, the lowest rank.
    """

    place: float
    served: int  # the number of its last start; 0: none
    rank: float
    tenant_id: int


class Turn(NamedTuple):
    """One start, as it counts for a thing that tenants share."""

    thing: str
    tenant_id: int
    place: float  # of the tenant
    step: float
    first: float  # the lowest place of all tenants that could have started something


class Turns:
    """The standings that one process knows.

    Ranks are drawn by each process for itself, or processes that start one task each would all begin with the same
    tenant. Without `random_number` the lower id goes first.
    """

    def __init__(self, random_number: Callable[[], float] = lambda: 0.0) -> None:
        self.random_number = random_number
        self._first: dict[str, float] = {}  # by thing
        self._places: dict[str, dict[int, tuple[float, int]]] = {}  # by thing and tenant: place, number of the start
        self._draws: dict[int, float] = {}
        self.starts = 0  # counted so far

    def standing(self, thing: str, tenant_id: int, weight: float) -> Standing:
        """Where a tenant stands now."""
        place, served = self._places.get(thing, {}).get(tenant_id, (0.0, 0))
        rank = 0.0 if served else self._draw(tenant_id) / weight
        return Standing(max(place, self._first.get(thing, 0.0)), served, rank, tenant_id)

    def _draw(self, tenant_id: int) -> float:
        """Exponential: divided by weights, each tenant has the lowest with a chance in proportion to its weight."""
        if (draw := self._draws.get(tenant_id)) is None:
            if len(self._draws) >= MOST_KNOWN:
                self._draws.clear()
            draw = self._draws[tenant_id] = -math.log(1.0 - self.random_number())
        return draw

    def use(self, turns: Iterable[Turn]) -> None:
        """Count starts. What claims made side by side adds up, whichever is counted first."""
        for thing, tenant_id, place, step, first in turns:
            self.starts += 1
            if len(self._places) >= MOST_KNOWN and thing not in self._places:
                self._places.clear()
                self._first.clear()
            places = self._places.setdefault(thing, {})
            if len(places) >= MOST_KNOWN and tenant_id not in places:
                places.clear()
            self._first[thing] = max(self._first.get(thing, 0.0), first)
            before, _ = places.get(tenant_id, (place, 0))
            places[tenant_id] = max(before, place) + step, self.starts
