"""Lanes: how many tasks of each may run at once, and whether one, or everything, is paused."""

import json

from headgate.core.errors import Invalid
from headgate.core.gates import CapacityLimit
from headgate.core.task import EVERYTHING, check_lane, check_name
from headgate.store.catalog.version import announce_limit
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, record_system

MAX_CAPACITY = 1_000_000
ADD_LANE = Statement("INSERT INTO headgate_lane (name) VALUES (:name) ON CONFLICT (name) DO NOTHING")
LANES = Statement("SELECT name, capacity, paused FROM headgate_lane WHERE name <> '*' ORDER BY name")
SET_CAPACITY = Statement("UPDATE headgate_lane SET capacity = :capacity WHERE name = :name AND name <> '*'")
SET_PAUSED = Statement(
    "UPDATE headgate_lane SET paused = :paused WHERE name = :name AND paused <> :paused RETURNING name"
)
IS_PAUSED = Statement("SELECT name FROM headgate_lane WHERE paused AND name {in names text}")


class Lanes(Noun):
    """Every lane. An edit holds from the moment it returns: nothing that it forbids starts afterwards."""

    @reads
    def all(self, db: Db) -> list[CapacityLimit]:
        """Every lane by name: capacity, and whether it is paused."""
        return read_lanes(db)

    @writes
    def set_capacity(self, db: Db, lane: str, capacity: int | None, *, actor: str = PERSON) -> None:
        """Set how many tasks of a lane may run at once; None lifts the limit. What runs already runs on."""
        check_name("lane", lane)
        check_lane(lane)
        if capacity is not None:
            check_capacity(capacity)
        db.send(ADD_LANE, name=lane)
        db.send(SET_CAPACITY, name=lane, capacity=capacity)
        record_system(db, "capacity_changed", actor, json.dumps({"lane": lane, "capacity": capacity}))
        announce_limit(db)

    @writes
    def pause(self, db: Db, lane: str | None = None, *, actor: str = PERSON) -> bool:
        """Start nothing more of a lane, or nothing at all (None); False if it was paused already."""
        return _set_paused(db, lane, True, actor)

    @writes
    def resume(self, db: Db, lane: str | None = None, *, actor: str = PERSON) -> bool:
        """Undo `pause`; False if it was not paused."""
        return _set_paused(db, lane, False, actor)

    @reads
    def everything_paused(self, db: Db) -> bool:
        """Whether `pause` without a lane holds everything."""
        return everything_paused(db)


def read_lanes(db: Db) -> list[CapacityLimit]:
    return [CapacityLimit(name, capacity, bool(paused)) for name, capacity, paused in db.rows(LANES)]


def everything_paused(db: Db) -> bool:
    return bool(db.rows(IS_PAUSED, names=[EVERYTHING]))


def _set_paused(db: Db, scope: str | None, paused: bool, actor: str) -> bool:
    lane = EVERYTHING if scope is None else scope
    check_name("lane", lane)
    db.send(ADD_LANE, name=lane)
    if not db.rows(SET_PAUSED, name=lane, paused=paused):
        return False
    record_system(db, "paused" if paused else "resumed", actor, json.dumps({"lane": lane}))
    announce_limit(db, loosened=not paused)
    return True


def check_capacity(capacity: int) -> None:
    """Raise `Invalid` unless so many may run at once."""
    if type(capacity) is not int or not 0 <= capacity <= MAX_CAPACITY:
        raise Invalid(f"a capacity is a whole number from 0 to {MAX_CAPACITY}")
