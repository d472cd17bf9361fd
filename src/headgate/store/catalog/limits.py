"""Limits beside those of lanes: how many tasks may use a resource at once, and how often tasks may start."""

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.errors import NotFound
from headgate.core.limits import DEFAULT_KEY, DeclaredLimits, Rate, check_capacity, check_rate_name, check_resource
from headgate.store.catalog.lanes import BY_PERSON, LANE_SOURCES, put_lane
from headgate.store.catalog.version import announce_limit, bump
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, SYSTEM, changed

RATES = Statement(
    "SELECT name, rate, burst, lifted, source FROM headgate_rate_limit WHERE tenant_id IS NULL ORDER BY name"
)
PUT_RATE = Statement(
    """
    INSERT INTO headgate_rate_limit (name, rate, burst, lifted, source)
    VALUES (:name, :rate, :burst, :lifted, :source)
    ON CONFLICT (name) DO UPDATE
       SET rate = excluded.rate, burst = excluded.burst, lifted = excluded.lifted, source = excluded.source
     WHERE headgate_rate_limit.source <> 'person' OR excluded.source = 'person'
    RETURNING name
    """
)
IS_RATE = Statement("SELECT 1 FROM headgate_rate_limit WHERE name = :name")
# Beside the row of its name, `key:*` is in every bucket that it holds for, so that a claim reads one row.
SET_BUCKETS = Statement(
    "UPDATE headgate_rate_limit SET rate = :rate, burst = :burst, lifted = :lifted WHERE tenant_id IS NOT NULL"
)
ADD_RESOURCE = Statement(
    "INSERT INTO headgate_resource (name, capacity) VALUES (:name, 1) ON CONFLICT (name) DO NOTHING"
)
RESOURCES = Statement("SELECT name, capacity, source FROM headgate_resource ORDER BY name")
PUT_RESOURCE = Statement(
    """
    INSERT INTO headgate_resource (name, capacity, source) VALUES (:name, :capacity, :source)
    ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity, source = excluded.source
     WHERE headgate_resource.source <> 'person' OR excluded.source = 'person'
    RETURNING name
    """
)

Limited = tuple[str, str]  # what a limit is for: "lane", "resource" or "rate limit", and its name


@dataclass(frozen=True, slots=True)
class Resource:
    """How many tasks may use a resource at once, and who set it."""

    name: str
    capacity: int
    source: str


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How often tasks may start (None: no limit), and who set it."""

    name: str
    limit: Rate | None
    source: str


class Limits(Noun):
    """The limits that programs and settings declare. What a person set stays as it is."""

    def declare(self, declared: DeclaredLimits, source: str) -> list[str]:
        """Set what is declared, unless it is set already; returns the limits that a person set otherwise."""
        wanted: dict[Limited, int | Rate | None] = {("lane", name): value for name, value in declared.lanes.items()}
        wanted |= {("resource", name): value for name, value in declared.resources.items()}
        wanted |= {("rate limit", name): value for name, value in declared.rates.items()}
        if not wanted:
            return []
        known = self._database.read(_known)
        by_person = {what: value for what, (value, whose) in known.items() if whose == BY_PERSON}
        new = {
            what: value
            for what, value in wanted.items()
            if what not in by_person and known.get(what) != (value, source)
        }
        if new:
            self._put(new, source)
        return [" ".join(what) for what in by_person.keys() & wanted.keys() if by_person[what] != wanted[what]]

    @writes
    def _put(self, db: Db, limits: Mapping[Limited, int | Rate | None], source: str) -> None:
        for (noun, name), value in limits.items():
            if isinstance(value, int | None) and noun == "lane":
                put_lane(db, name, value, source, SYSTEM)
            elif isinstance(value, int):
                _put_resource(db, name, value, source, SYSTEM)
            else:
                _put_rate(db, name, value, source, SYSTEM)


def _known(db: Db) -> dict[Limited, tuple[int | Rate | None, str]]:
    found: dict[Limited, tuple[int | Rate | None, str]] = {
        ("lane", name): (capacity, source) for name, capacity, source in db.rows(LANE_SOURCES)
    }
    found |= {("resource", each.name): (each.capacity, each.source) for each in read_resources(db)}
    return found | {("rate limit", each.name): (each.limit, each.source) for each in read_rate_limits(db)}


class Resources(Noun):
    """Every resource."""

    @reads
    def all(self, db: Db) -> list[Resource]:
        """Every resource by name, with its capacity."""
        return read_resources(db)

    @writes
    def set(self, db: Db, name: str, capacity: int, *, actor: str = PERSON) -> None:
        """Set how many tasks may use a resource at once."""
        check_resource(name)
        check_capacity(capacity)
        _put_resource(db, name, capacity, BY_PERSON, actor)


def _put_resource(db: Db, name: str, capacity: int, source: str, actor: str) -> None:
    before = next((each.capacity for each in read_resources(db) if each.name == name), None)
    if db.rows(PUT_RESOURCE, name=name, capacity=capacity, source=source):
        detail = {"resource": name, "capacity": capacity} | changed(capacity=(before, capacity))
        announce_limit(db, "capacity_changed", actor, detail)


def read_resources(db: Db) -> list[Resource]:
    return [Resource(*row) for row in db.rows(RESOURCES)]


class RateLimits(Noun):
    """Every rate limit: how many tasks of a lane, a type or a key may start in a time.

    A key that has none of its own has that of `key:*`, with a bucket for each tenant.
    """

    @reads
    def all(self, db: Db) -> list[RateLimit]:
        """Every rate limit by name."""
        return read_rate_limits(db)

    @writes
    def set(self, db: Db, name: str, limit: Rate | None, *, actor: str = PERSON) -> None:
        """Limit the starts of `lane:NAME`, `type:CODE` or `key:NAME`; None lifts the limit."""
        check_rate_name(name)
        if limit is None and not name.startswith("key:") and not db.rows(IS_RATE, name=name):
            raise NotFound.of("no-rate-limit", rate_limit=name)
        _put_rate(db, name, limit, BY_PERSON, actor)


def _put_rate(db: Db, name: str, limit: Rate | None, source: str, actor: str) -> None:
    stored, lifted = limit or Rate(), limit is None
    if name == DEFAULT_KEY:
        bump(db)  # first: whoever makes a bucket just now is done, or waits
    before = next((_values(each.limit) for each in read_rate_limits(db) if each.name == name), None)
    if not db.rows(PUT_RATE, name=name, rate=stored.rate, burst=stored.burst, lifted=lifted, source=source):
        return
    if name == DEFAULT_KEY:
        db.send(SET_BUCKETS, rate=stored.rate, burst=stored.burst, lifted=lifted)
    detail = {"name": name, "limit": _values(limit)} | changed(limit=(before, _values(limit)))
    announce_limit(db, "rate_changed", actor, detail)


def _values(limit: Rate | None) -> dict[str, float] | None:
    return None if limit is None else {"rate": limit.rate, "burst": limit.burst}


def read_rate_limits(db: Db) -> list[RateLimit]:
    rows = db.rows(RATES)
    return [
        RateLimit(name, None if lifted else Rate(rate, burst), source) for name, rate, burst, lifted, source in rows
    ]
