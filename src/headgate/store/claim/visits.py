"""Which streams a claim visits where there are too many to look into each of them.

Once a second a process asks which streams have anything queued, and which lanes and resources are full: what is empty
or shut takes no other stream's place. If there are still too many, each claim goes on behind the last one.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from headgate.core.turns import DEFAULT_WEIGHT, SLOTS, Weights
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.contract import READY_STREAMS, ClaimRequest
from headgate.store.claim.cursors import LOOK_AGAIN_SECONDS, Cursors, Places
from headgate.store.claim.holds import free_resources
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Statement

MOST_STREAMS = 300
SOONEST_VISIT = 0.1  # after the last one: each goes through all that is remembered of every stream
EVERY_TENANT = None  # the place behind which to go on among the tenants

FULL_LANES = Statement(
    f"""
    SELECT l.name FROM headgate_lane l
     WHERE l.capacity <= (SELECT count(*) FROM headgate_task t WHERE t.lane = l.name AND t.status IN {HELD_STATES})
    """
)
STREAMS_OF = Statement("SELECT DISTINCT stream_id FROM headgate_task WHERE id {in ids}")


class Visit(NamedTuple):
    """The streams to look into; if others were left out, when to look again unless these have enough."""

    streams: list[Stream]
    again_in: float | None = None

    def token_in(self, enough: bool, *waits: float | None) -> float | None:
        """`Claimed.token_in`, of these waits and one's own."""
        known = [wait for wait in (*waits, None if enough else self.again_in) if wait is not None]
        return min(known, default=None)


def worth_a_visit(db: Db, catalog: Catalog, request: ClaimRequest, cursors: Cursors) -> Visit:
    """The streams that may have something for this request, as far as we remember; `MOST_STREAMS` of them.

    Whoever follows `again_in` visits all of a tenant's in about a second, or `SOONEST_VISIT` for each 300 of them.
    """
    with cursors.lock:
        few = len(cursors.served(catalog, request)) <= MOST_STREAMS
    if few:
        return Visit(cursors.open_streams(catalog, request))
    if cursors.survey_is_due():
        _survey(db, catalog, cursors)
    streams = cursors.open_streams(catalog, request)
    if request.ids is not None:
        wanted = {stream_id for (stream_id,) in db.rows(STREAMS_OF, ids=sorted(request.ids))}
        streams = [stream for stream in streams if stream.id in wanted]
    again_in = None
    shut = cursors.shut_gates() - db.news.room.keys()  # what this transaction has given up is not known to others yet
    if shut:
        found, streams = streams, [stream for stream in streams if shut.isdisjoint(catalog.gates(stream))]
        if len(streams) < len(found):  # news of room may have come before we knew the gate to be shut
            again_in = LOOK_AGAIN_SECONDS
    if len(streams) <= MOST_STREAMS:
        return Visit(streams, again_in)
    again_in = max(LOOK_AGAIN_SECONDS * MOST_STREAMS / len(streams), SOONEST_VISIT)
    with cursors.lock:
        return Visit(_rotate(streams, cursors.places(request), cursors, catalog.weights), again_in)


def _survey(db: Db, catalog: Catalog, cursors: Cursors) -> None:
    woken = cursors.begin_survey(catalog)
    queued = db.send(READY_STREAMS)
    lanes = db.send(FULL_LANES)
    used = sorted({name for kind in catalog.types.values() for name in kind.uses})
    free = free_resources(db, used)[0] if used else {}
    full = {f"lane {name}" for (name,) in lanes.rows()} | {gate for gate, left in free.items() if not left}
    cursors.end_survey({stream_id for (stream_id,) in queued.rows()}, woken)
    cursors.shut_for(dict.fromkeys(full, LOOK_AGAIN_SECONDS))


def _rotate(streams: Sequence[Stream], places: Places, cursors: Cursors, weights: Weights) -> list[Stream]:
    """One of each tenant before a second one of any, in the order of their turns, and of each those behind its place.

    If there are too many tenants, half of those visited are the ones behind the last of the half before.
    """
    of_tenant: dict[int, dict[int, Stream]] = defaultdict(dict)
    for stream in streams:
        of_tenant[stream.tenant_id][stream.id] = stream
    turns = cursors.turns
    tenants = sorted(
        of_tenant, key=lambda tenant_id: turns.standing(SLOTS, tenant_id, weights.get(tenant_id, DEFAULT_WEIGHT))
    )
    if len(tenants) > MOST_STREAMS:
        first, others = tenants[: MOST_STREAMS // 2], tenants[MOST_STREAMS // 2 :]
        tenants = [*first, *_behind(places, EVERY_TENANT, others, cursors)][:MOST_STREAMS]
        places[EVERY_TENANT] = tenants[-1]
    lines = [_behind(places, tenant_id, of_tenant[tenant_id], cursors) for tenant_id in tenants]
    in_turn = (stream_id for stream_id in chain.from_iterable(zip_longest(*lines)) if stream_id is not None)
    known = {stream.id: stream for stream in streams}
    visited = [known[stream_id] for stream_id in islice(in_turn, MOST_STREAMS)]
    places |= {stream.tenant_id: stream.id for stream in visited}
    return visited


def _behind(places: Places, of: int | None, ids: Sequence[int] | dict[int, Stream], cursors: Cursors) -> list[int]:
    """Go on where the last visit ended; a first one begins anywhere."""
    line = sorted(ids)
    place = places.get(of)
    begin = int(cursors.turns.random_number() * len(line)) if place is None else bisect_right(line, place)
    return line[begin:] + line[:begin]
