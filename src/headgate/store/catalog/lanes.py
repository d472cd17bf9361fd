"""Lanes: how many tasks of each may run at once."""

from datetime import datetime

from headgate.core.gates import CapacityLimit
from headgate.core.limits import check_capacity
from headgate.core.pause import EVERYTHING_PAUSED, PauseKey, PauseScope, check_pause
from headgate.core.task import check_lane, check_name
from headgate.store.catalog.pauses import end_pause, set_pause
from headgate.store.catalog.version import announce_limit
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, changed

BY_PERSON = "person"  # the source of a limit that no declaration changes
ADD_LANE = Statement("INSERT INTO headgate_lane (name) VALUES (:name) ON CONFLICT (name) DO NOTHING")
LANES = Statement("SELECT name, capacity FROM headgate_lane WHERE name <> '*' ORDER BY name")
LANE_SOURCES = Statement("SELECT name, capacity, source FROM headgate_lane")
SET_CAPACITY = Statement(
    """
    UPDATE headgate_lane SET capacity = :capacity, source = :source
     WHERE name = :name AND name <> '*' AND (source <> 'person' OR :source = 'person') RETURNING name
    """
)


class Lanes(Noun):
    """Every lane. An edit holds from the moment it returns: nothing that it forbids starts afterwards."""

    @reads
    def all(self, db: Db) -> list[CapacityLimit]:
        """Every lane by name, with its capacity."""
        return read_lanes(db)

    @writes
    def set_capacity(self, db: Db, lane: str, capacity: int | None, *, actor: str = PERSON) -> None:
        """Set how many tasks of a lane may run at once; None lifts the limit. What runs already runs on."""
        check_name("lane", lane)
        check_lane(lane)
        if capacity is not None:
            check_capacity(capacity)
        put_lane(db, lane, capacity, BY_PERSON, actor)

    @writes
    def pause(
        self, db: Db, lane: str | None = None, *, reason: str = "", until: datetime | None = None, actor: str = PERSON
    ) -> bool:
        """Start nothing more of a lane, or nothing at all (None), as `Pauses.set` does; a lane is made if need be."""
        key = _pause_key(lane)
        if lane is not None:
            db.send(ADD_LANE, name=lane)
        return set_pause(db, key, reason, until, actor)

    @writes
    def resume(self, db: Db, lane: str | None = None, *, actor: str = PERSON) -> bool:
        """Undo `pause`; False if it was not paused."""
        return end_pause(db, _pause_key(lane), actor)


def read_lanes(db: Db) -> list[CapacityLimit]:
    return [CapacityLimit(name, capacity) for name, capacity in db.rows(LANES)]


def _pause_key(lane: str | None) -> PauseKey:
    key = EVERYTHING_PAUSED if lane is None else (PauseScope.LANE, lane)
    check_pause(PauseScope(key[0]), key[1])
    return key


def put_lane(db: Db, lane: str, capacity: int | None, source: str, actor: str) -> None:
    """Set a lane's capacity; no declaration overwrites a person's."""
    db.send(ADD_LANE, name=lane)
    before = next((held for name, held, _ in db.rows(LANE_SOURCES) if name == lane), None)
    if db.rows(SET_CAPACITY, name=lane, capacity=capacity, source=source):
        detail = {"lane": lane, "capacity": capacity} | changed(capacity=(before, capacity))
        announce_limit(db, "capacity_changed", actor, detail)
