"""Who stands where in the line of a mutex.

At most one task per (mutex, stream) is `queued`: the head of that stream. The rest are `blocked`, where they cost a
claim nothing. While somebody holds the mutex there is no head; while a family holds it only its members may be.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A task in the line, in the order of the line."""

    priority: int
    id: int
    stream_id: int
    root_id: int
    seq: int


def rearrange(
    held: bool, families: Collection[int], queued: Iterable[Place], blocked: Iterable[Place]
) -> tuple[list[Place], list[Place]]:
    """Which heads go back and which tasks come forward; `blocked` needs only the first of each stream, and the
    first of each holding family in each stream."""
    if held:
        return list(queued), []
    line: dict[int, list[tuple[Place, bool]]] = defaultdict(list)
    back: list[Place] = []
    for place in queued:
        if families and place.root_id not in families:
            back.append(place)
        else:
            line[place.stream_id].append((place, True))
    for place in blocked:
        if not families or place.root_id in families:
            line[place.stream_id].append((place, False))
    forward: list[Place] = []
    for places in line.values():
        first = min(places)
        back += [place for place, is_head in places if is_head and place is not first[0]]
        if not first[1]:
            forward.append(first[0])
    return back, forward
