"""Which task stands where in a mutex queue.

At most one task per (mutex, stream) is `queued`: the head of that stream. The rest are `blocked`, where they cost a
claim nothing. While a task holds the mutex there is no head; while a family holds it, only its members can be heads.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class QueuePlace:
    """A task in a mutex queue; places sort in the order of the queue."""

    priority: int
    id: int
    stream_id: int
    root_id: int
    seq: int


def rearrange(
    held: bool, families: Collection[int], queued: Iterable[QueuePlace], blocked: Iterable[QueuePlace]
) -> tuple[list[QueuePlace], list[QueuePlace]]:
    """Which heads go back and which tasks come forward; `blocked` needs only the first of each stream, and the
    first of each holding family in each stream."""
    if held:
        return list(queued), []
    by_stream: dict[int, list[tuple[QueuePlace, bool]]] = defaultdict(list)
    back: list[QueuePlace] = []
    for place in queued:
        if families and place.root_id not in families:
            back.append(place)
        else:
            by_stream[place.stream_id].append((place, True))
    for place in blocked:
        if not families or place.root_id in families:
            by_stream[place.stream_id].append((place, False))
    forward: list[QueuePlace] = []
    for places in by_stream.values():
        first = min(places)
        back += [place for place, is_head in places if is_head and place is not first[0]]
        if not first[1]:
            forward.append(first[0])
    return back, forward
