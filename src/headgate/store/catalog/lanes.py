"""Lanes: how many tasks of each may run at once."""

import difflib
from dataclasses import dataclass
from datetime import datetime

from headgate.core.errors import NotFound, Refused
from headgate.core.limits import LimitSource, check_capacity
from headgate.core.pause import EVERYTHING_PAUSED, PauseKey, PauseScope, Unchanged, check_pause
from headgate.core.states import FINAL, State
from headgate.core.task import check_lane, check_name
from headgate.store.catalog.pauses import drop_pause, end_pause, set_pause
from headgate.store.catalog.version import announce_limit
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.indexes import BY_STATUS, LIVE, READY, RUNNING
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, changed

ADD_LANE = Statement("INSERT INTO headgate_lane (name) VALUES (:name) ON CONFLICT (name) DO NOTHING")
LANES = Statement("SELECT name, capacity, source FROM headgate_lane WHERE name <> '*' ORDER BY name")
PUT_LANE = Statement(
    """
    INSERT INTO headgate_lane (name, capacity, source) VALUES (:name, :capacity, :source)
    ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity, source = excluded.source
     WHERE headgate_lane.source {in replaced text}
    RETURNING name
    """
)
RESET = Statement("UPDATE headgate_lane SET source = 'default' WHERE name = :name RETURNING name")
REMOVE_LANE = Statement("DELETE FROM headgate_lane WHERE name = :name RETURNING capacity, source")
OF_LANE = Statement("SELECT id FROM headgate_stream WHERE lane = :lane")
# Each uses the index of such tasks (`db/indexes.py`).
HELD = Statement(f"SELECT id FROM headgate_task WHERE {RUNNING.only} AND lane = :lane LIMIT :most")
QUEUED = Statement(f"SELECT id FROM headgate_task WHERE {READY.only} AND stream_id {{in streams}} LIMIT :most")
STOPPED = Statement(
    f"""
    SELECT id FROM headgate_task
     WHERE {BY_STATUS[LIVE].only} AND status {{in states text}} AND stream_id {{in streams}} LIMIT :most
    """
)
LISTED = 10  # names of lanes in a refusal
_NOT_ENDED = sorted(set(State) - FINAL)


@dataclass(frozen=True, slots=True)
class Lane:
    """How many tasks of a lane may run at once (None: no limit), and who set it."""

    name: str
    capacity: int | None = None
    source: str = LimitSource.DEFAULT


class Lanes(Noun):
    """Every lane. An edit holds from the moment it returns: nothing that it forbids starts afterwards."""

    @reads
    def all(self, db: Db) -> list[Lane]:
        """Every lane by name."""
        return read_lanes(db)

    @reads
    def check_known(self, db: Db, name: str) -> None:
        """`NotFound`, with the names there are, the nearest first, if there is no such lane."""
        known = [lane.name for lane in read_lanes(db)]
        if name not in known:
            near = difflib.get_close_matches(name, known)
            listed = [*near, *(each for each in known if each not in near)][:LISTED]
            raise NotFound.of("no-lane", lane=name, known=", ".join(listed))

    @writes
    def set_capacity(self, db: Db, lane: str, capacity: int | None, *, actor: str = PERSON) -> None:
        """Set how many tasks of a lane may run at once; None lifts the limit. What runs already runs on."""
        _check(lane)
        if capacity is not None:
            check_capacity(capacity)
        put_lane(db, lane, capacity, LimitSource.PERSON, actor)

    @writes
    def reset(self, db: Db, lane: str, *, actor: str = PERSON) -> None:
        """Keep the capacity, but let the next program or settings that declare one replace it."""
        _check(lane)
        if not db.rows(RESET, name=lane):
            raise NotFound.of("no-lane", lane=lane, known=None)
        announce_limit(db, "limit_reset", actor, {"lane": lane}, loosened=False)

    @writes
    def remove(self, db: Db, lane: str, *, actor: str = PERSON) -> None:
        """Remove a lane with its capacity and its pause; `Refused` while it has open tasks.

        What has ended keeps its lane. The next submit to the lane makes it again, without a capacity.
        """
        _check(lane)
        if lane not in {found.name for found in read_lanes(db)}:
            raise NotFound.of("no-lane", lane=lane, known=None)
        if count := _count_open(db, lane):
            raise Refused.of("lane-in-use", lane=lane, open=min(count, EXACT_UP_TO), more=count > EXACT_UP_TO)
        drop_pause(db, (PauseScope.LANE, lane))
        for capacity, source in db.rows(REMOVE_LANE, name=lane):
            detail = {"lane": lane} | changed(capacity=(capacity, None), source=(source, None))
            announce_limit(db, "lane_removed", actor, detail)

    @writes
    def pause(
        self, db: Db, lane: str | None = None, *, reason: str | Unchanged = "",
        until: datetime | Unchanged | None = None, actor: str = PERSON,
    ) -> bool:  # fmt: skip
        """Start nothing more of a lane, or nothing at all (None), as `Pauses.set` does; a lane is made if need be."""
        key = _pause_key(lane)
        if lane is not None:
            db.send(ADD_LANE, name=lane)
        return set_pause(db, key, reason, until, actor)

    @writes
    def resume(self, db: Db, lane: str | None = None, *, actor: str = PERSON) -> bool:
        """Undo `pause`; False if it was not paused."""
        return end_pause(db, _pause_key(lane), actor)


def read_lanes(db: Db) -> list[Lane]:
    return [Lane(*row) for row in db.rows(LANES)]


def put_lane(db: Db, lane: str, capacity: int | None, source: LimitSource, actor: str) -> None:
    """Set a lane's capacity, unless a stronger source set it."""
    before = next((found.capacity for found in read_lanes(db) if found.name == lane), None)
    if db.rows(PUT_LANE, name=lane, capacity=capacity, source=source, replaced=source.replaces):
        detail = {"lane": lane, "capacity": capacity} | changed(capacity=(before, capacity))
        announce_limit(db, "capacity_changed", actor, detail)


def _check(lane: str) -> None:
    check_name("lane", lane)
    check_lane(lane)


def _pause_key(lane: str | None) -> PauseKey:
    key = EVERYTHING_PAUSED if lane is None else (PauseScope.LANE, lane)
    check_pause(PauseScope(key[0]), key[1])
    return key


def _count_open(db: Db, lane: str) -> int:
    """How many tasks of a lane have not ended; 10,001 stands for anything above 10,000."""
    streams = [stream_id for (stream_id,) in db.rows(OF_LANE, lane=lane)]
    most = EXACT_UP_TO + 1
    count = len(db.rows(HELD, lane=lane, most=most))
    count += len(db.rows(QUEUED, streams=streams, most=most - count))
    return count + len(db.rows(STOPPED, streams=streams, states=_NOT_ENDED, most=most - count))
