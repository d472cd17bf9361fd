"""Limits beside those of lanes: how many tasks may use a resource at once, and how often tasks may start."""

import json

from headgate.core.errors import Invalid, NotFound
from headgate.core.gates import Bucket, CapacityLimit
from headgate.core.limits import Rate
from headgate.core.task import check_name
from headgate.store.catalog.lanes import check_capacity
from headgate.store.catalog.version import announce_limit
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, record_system

PREFIXES = ("lane:", "type:", "key:")  # how a rate limit's name begins
RATES = Statement("SELECT name, rate, burst, tat FROM headgate_rate_limit ORDER BY name")
PUT_RATE = Statement(
    """
    INSERT INTO headgate_rate_limit (name, rate, burst) VALUES (:name, :rate, :burst)
    ON CONFLICT (name) DO UPDATE SET rate = excluded.rate, burst = excluded.burst
    """
)
REMOVE_RATE = Statement("DELETE FROM headgate_rate_limit WHERE name = :name RETURNING name")
ADD_RESOURCE = Statement(
    "INSERT INTO headgate_resource (name, capacity) VALUES (:name, 1) ON CONFLICT (name) DO NOTHING"
)
RESOURCES = Statement("SELECT name, capacity FROM headgate_resource ORDER BY name")
PUT_RESOURCE = Statement(
    """
    INSERT INTO headgate_resource (name, capacity) VALUES (:name, :capacity)
    ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity
    """
)


class Resources(Noun):
    """Every resource."""

    @reads
    def all(self, db: Db) -> list[CapacityLimit]:
        """Every resource by name, with its capacity."""
        return read_resources(db)

    @writes
    def set(self, db: Db, name: str, capacity: int, *, actor: str = PERSON) -> None:
        """Set how many tasks may use a resource at once."""
        check_name("resource", name)
        if name.startswith(PREFIXES):
            raise Invalid(
                f"{name} is the name of a rate limit, which has a rate and a burst; a resource has a plain name"
            )
        check_capacity(capacity)
        db.send(PUT_RESOURCE, name=name, capacity=capacity)
        record_system(db, "capacity_changed", actor, json.dumps({"resource": name, "capacity": capacity}))
        announce_limit(db)


def read_resources(db: Db) -> list[CapacityLimit]:
    return [CapacityLimit(name, capacity) for name, capacity in db.rows(RESOURCES)]


class RateLimits(Noun):
    """Every rate limit, with its bucket: how many tasks of a lane, a type or a key may start in a time."""

    @reads
    def all(self, db: Db) -> list[Bucket]:
        """Every rate limit by name."""
        return read_rate_limits(db)

    @writes
    def set(self, db: Db, name: str, limit: Rate | None, *, actor: str = PERSON) -> None:
        """Limit the starts of `lane:NAME`, `type:CODE` or `key:NAME`; None lifts the limit."""
        check_name("rate limit", name)
        if not name.startswith(PREFIXES) or not name.partition(":")[2]:
            raise Invalid("a rate limit is named lane:NAME, type:CODE or key:NAME")
        if limit is not None:
            db.send(PUT_RATE, name=name, rate=limit.rate, burst=limit.burst)
        elif not db.rows(REMOVE_RATE, name=name):
            raise NotFound(f"no rate limit {name}")
        values = None if limit is None else {"rate": limit.rate, "burst": limit.burst}
        record_system(db, "rate_changed", actor, json.dumps({"name": name, "limit": values}))
        announce_limit(db)


def read_rate_limits(db: Db) -> list[Bucket]:
    return [Bucket(name, Rate(rate, burst), tat) for name, rate, burst, tat in db.rows(RATES)]
