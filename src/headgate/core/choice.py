"""The choice among many: which tasks may start now, and in what order. Behind every claim.

A tenant's priorities order its own tasks and no others: next of a tenant is always the first, by priority, then id,
that every gate lets through. Tenants take turns, by weight, at each thing that several of them want next: the slots of
workers, and every lane, resource and rate limit with room. Where the tenant whose turn it is for a slot wants a lane in
which it is another's turn, the other one starts first: it has used its turn for a slot then, and the first has not.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from headgate.core.holds import Asked, came_before
from headgate.core.turns import DEFAULT_WEIGHT, SLOTS, Standing, Turn, Turns, Weights

Order = tuple[int, int]  # (priority, id)


class Candidate(NamedTuple):
    """A queued task at the head of its stream. `gates` names every limited thing it would take one of.

    A tuple, and in this order, because claims sort them by the hundred: its own order is (priority, id).
    """

    priority: int
    id: int
    stream_id: int
    tenant_id: int
    gates: tuple[str, ...] = ()
    mutex: str | None = None

    @property
    def order(self) -> Order:
        return self[:2]


Combination = tuple[int, tuple[str, ...]]  # a tenant, and all the gates of a task of its own


@dataclass(slots=True)
class Choice:
    """What may start now, in order, how much of each limited thing that takes, and the turns it uses, by task."""

    chosen: list[Candidate] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    turns: dict[int, list[Turn]] = field(default_factory=dict)
    next: dict[int, Candidate] = field(default_factory=dict)  # by tenant: what would have started next
    _numbers: dict[int, tuple[list[Order], list[int]]] = field(default_factory=dict)

    def drop(self, candidate: Candidate) -> None:
        """Take back a candidate that could not be started after all."""
        self.chosen.remove(candidate)
        self.turns.pop(candidate.id, None)
        for gate in candidate.gates:
            if self.taken.get(gate):
                self.taken[gate] -= 1

    def turns_of(self, started: Iterable[int]) -> list[Turn]:
        """The turns that these tasks used."""
        return [turn for task_id in started for turn in self.turns.get(task_id, ())] if self.turns else []

    def reached(self, tenant_id: int, behind: Order) -> int | None:
        """How many had been chosen when a task of the tenant right behind that place could have been its next, at the
        earliest; None if one before it still was when the choice ended."""
        if tenant_id in self.next and self.next[tenant_id].order <= behind:
            return None
        if not self._numbers:
            for number, candidate in enumerate(self.chosen, start=1):
                orders, numbers = self._numbers.setdefault(candidate.tenant_id, ([], []))
                orders.append(candidate.order)
                numbers.append(number)
        orders, numbers = self._numbers.get(tenant_id, ([], []))
        before = bisect_right(orders, behind)
        return numbers[before - 1] if before else 0


_NOBODY: Asked = {}
_ALIKE: Weights = {}


def choose(
    candidates: Iterable[Candidate],
    room: Mapping[str, int],
    limit: int,
    turns: Turns | None = None,
    weights: Weights = _ALIKE,
    asked: Asked = _NOBODY,
) -> Choice:
    """At most `limit` candidates for which every gate has room, each taking its share as it is chosen.

    A task that is shut out uses up no turn, and a tenant that is alone uses none at all. A gate missing from `room` has
    no limit. Running handlers that `asked` for a resource before a task was submitted get its room first.
    """
    ordered = sorted(candidates)
    combinations = {(candidate.tenant_id, candidate.gates, candidate.mutex is None) for candidate in ordered}
    tenants = {tenant_id for tenant_id, _, _ in combinations}
    if len(tenants) <= 1 and all(free and room.keys().isdisjoint(gates) for _, gates, free in combinations):
        choice = Choice(ordered[:limit])
        if len(ordered) > limit:
            choice.next[ordered[limit].tenant_id] = ordered[limit]
        return choice
    fitting = {(tenant, gates) for tenant, gates, _ in combinations if all(room.get(gate, 1) > 0 for gate in gates)}
    if len({tenant for tenant, _ in fitting}) <= 1:
        return _alone(ordered, _Room(room, asked), limit)
    making = _Round(ordered, fitting, _Room(room, asked), turns or Turns(), weights)
    while len(making.choice.chosen) < limit and making.start_next():
        pass
    return making.choice


class _Room:
    """What is left of every limited thing. It only ever shrinks."""

    def __init__(self, room: Mapping[str, int], asked: Asked) -> None:
        self._room = room
        self._asked = asked
        self._keys: set[tuple[int, str]] = set()
        self.taken: dict[str, int] = defaultdict(int)

    def fits(self, candidate: Candidate) -> bool:
        room, taken = self._room, self.taken
        for gate in candidate.gates:
            if gate in room and taken[gate] >= room[gate] - came_before(self._asked, gate, candidate.id):
                return False
        return candidate.mutex is None or (candidate.tenant_id, candidate.mutex) not in self._keys

    def take(self, candidate: Candidate) -> None:
        for gate in candidate.gates:
            if gate in self._room:
                self.taken[gate] += 1
        if candidate.mutex is not None:
            self._keys.add((candidate.tenant_id, candidate.mutex))

    def limits(self, gate: str) -> bool:
        return gate in self._room

    def may_shut_out(self, gate: str) -> bool:
        """Whether something that fitted before the last start may not fit now, because of this gate."""
        return self.taken[gate] >= self._room[gate] or gate in self._asked


def _alone(ordered: list[Candidate], room: _Room, limit: int) -> Choice:
    """The choice where one tenant at most has anything that could start."""
    choice = Choice(taken=room.taken)
    for candidate in ordered:
        if room.fits(candidate):
            if len(choice.chosen) >= limit:
                choice.next[candidate.tenant_id] = candidate
                break
            room.take(candidate)
            choice.chosen.append(candidate)
    return choice


class _Round:
    """A choice among several tenants in the making."""

    def __init__(
        self, ordered: list[Candidate], fitting: set[Combination], room: _Room, turns: Turns, weights: Weights
    ) -> None:
        self.choice = Choice(taken=room.taken)
        self._room = room
        self._starts = turns.starts
        tenants = {tenant for tenant, _ in fitting}
        wanted = {(tenant, gate) for tenant, gates in fitting for gate in gates if room.limits(gate)}
        wanting = Counter(gate for _, gate in wanted)
        self._steps = {tenant: 1 / weights.get(tenant, DEFAULT_WEIGHT) for tenant in tenants}
        self._standings = {
            (SLOTS, tenant): turns.standing(SLOTS, tenant, 1 / self._steps[tenant]) for tenant in tenants
        }
        for tenant, gate in wanted:
            if wanting[gate] > 1:
                self._standings[gate, tenant] = turns.standing(gate, tenant, 1 / self._steps[tenant])
        self._queues: dict[str, list[Standing]] = {thing: [] for thing, _ in self._standings}  # heaps; see `_first`
        self._waiting: dict[int, list[Candidate]] = {tenant: [] for tenant in tenants}  # the first of them last
        for candidate in reversed(ordered):
            if candidate.tenant_id in self._waiting:
                self._waiting[candidate.tenant_id].append(candidate)
        for tenant in tenants:
            self._find_next(tenant)

    def start_next(self) -> bool:
        """Choose one more; False if there is none."""
        if (first := self._first(SLOTS)) is None:
            return False
        tenant, passed = first.tenant_id, set[int]()
        while (other := self._other_with_turn(tenant)) is not None and other not in passed:
            passed.add(tenant)
            tenant = other
        candidate = self._waiting[tenant].pop()
        gates = self._contested(candidate)
        self.choice.turns[candidate.id] = [self._use(thing, tenant) for thing in (SLOTS, *gates)]
        self.choice.chosen.append(candidate)
        self._room.take(candidate)
        shut = [gate for gate in gates if self._room.may_shut_out(gate)]
        for other in {tenant, *(standing.tenant_id for gate in shut for standing in self._queues[gate])}:
            self._find_next(other)
        return True

    def _other_with_turn(self, tenant: int) -> int | None:
        """The tenant that goes before this one, because both want to pass a gate next and it is that one's turn."""
        for gate in self._contested(self.choice.next[tenant]):
            first = self._first(gate)
            if first is not None and first.tenant_id != tenant:
                return first.tenant_id
        return None

    def _contested(self, candidate: Candidate) -> list[str]:
        """The gates of a candidate that several tenants want to pass."""
        return [gate for gate in candidate.gates if gate in self._queues]

    def _use(self, thing: str, tenant: int) -> Turn:
        first, own, step = self._first(thing), self._standings[thing, tenant], self._steps[tenant]
        self._standings[thing, tenant] = Standing(
            own.place + step, self._starts + len(self.choice.chosen) + 1, 0, tenant
        )
        return Turn(thing, tenant, own.place, step, own.place if first is None else first.place)

    def _first(self, thing: str) -> Standing | None:
        """The lowest standing of a tenant that wants it next; standings that hold no more are dropped on the way."""
        queue = self._queues[thing]
        while queue:
            tenant = queue[0].tenant_id
            candidate = self.choice.next.get(tenant)
            wants_it = candidate is not None and (thing == SLOTS or thing in candidate.gates)
            if wants_it and queue[0] == self._standings[thing, tenant]:
                return queue[0]
            heappop(queue)
        return None

    def _find_next(self, tenant: int) -> None:
        """Drop what does not fit, for good, and put the tenant in line for what its next task takes."""
        waiting = self._waiting[tenant]
        while waiting and not self._room.fits(waiting[-1]):
            waiting.pop()
        self.choice.next.pop(tenant, None)
        if waiting:
            self.choice.next[tenant] = waiting[-1]
            for thing in (SLOTS, *self._contested(waiting[-1])):
                heappush(self._queues[thing], self._standings[thing, tenant])
