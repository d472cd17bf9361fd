"""How many tasks may be handed to the broker, so that each finds a free slot behind it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Budget(NamedTuple):
    """Free slots of consumers that serve the same types."""

    types: frozenset[str]
    free: int


def budgets(slots: Iterable[tuple[frozenset[str], int]], in_broker: Mapping[str, int]) -> list[Budget]:
    """The free slots for each set of types, less the tasks that the broker holds already, by type.

    A task in the broker is counted against the smallest set that serves its type and has a slot left: what serves more
    types stays free for them. All budgets together never exceed the free slots.
    """
    free: Counter[frozenset[str]] = Counter()
    for types, count in slots:
        free[types] += max(count, 0)
    for type_code, count in sorted(in_broker.items()):
        for types in sorted(free, key=lambda types: (len(types), sorted(types))):
            if type_code in types:
                taken = min(free[types], count)
                free[types] -= taken
                count -= taken
    return [Budget(types, left) for types, left in free.items() if left > 0]
