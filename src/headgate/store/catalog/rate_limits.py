"""Rate limits: how many tasks of a lane, a type or a key may start in a time."""

from dataclasses import dataclass

from headgate.core.errors import NotFound
from headgate.core.limits import DEFAULT_KEY, LimitSource, Rate, check_rate_name
from headgate.store.catalog.version import announce_limit, bump
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, changed

RATES = Statement(
    "SELECT name, rate, burst, lifted, source FROM headgate_rate_limit WHERE tenant_id IS NULL ORDER BY name"
)
PUT_RATE = Statement(
    """
    INSERT INTO headgate_rate_limit (name, rate, burst, lifted, source)
    VALUES (:name, :rate, :burst, :lifted, :source)
    ON CONFLICT (name) DO UPDATE
       SET rate = excluded.rate, burst = excluded.burst, lifted = excluded.lifted, source = excluded.source
     WHERE headgate_rate_limit.source {in replaced text}
    RETURNING name
    """
)
# Beside the row of its name, `key:*` is in every bucket that it holds for, so that a claim reads one row.
SET_BUCKETS = Statement(
    "UPDATE headgate_rate_limit SET rate = :rate, burst = :burst, lifted = :lifted WHERE tenant_id IS NOT NULL"
)
RESET = Statement("UPDATE headgate_rate_limit SET source = 'default' WHERE name = :name RETURNING name")
REMOVE_RATE = Statement("DELETE FROM headgate_rate_limit WHERE name = :name")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How often tasks may start (None: no limit), and who set it."""

    name: str
    limit: Rate | None
    source: str


class RateLimits(Noun):
    """Every rate limit. An edit holds from the moment it returns.

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
        if limit is None and not name.startswith("key:"):
            _found(db, name)
        put_rate(db, name, limit, LimitSource.PERSON, actor)

    @writes
    def reset(self, db: Db, name: str, *, actor: str = PERSON) -> None:
        """Keep the limit, but let the next program or settings that declare one replace it."""
        check_rate_name(name)
        if not db.rows(RESET, name=name):
            raise NotFound.of("no-rate-limit", rate_limit=name)
        announce_limit(db, "limit_reset", actor, {"name": name}, loosened=False)

    @writes
    def remove(self, db: Db, name: str, *, actor: str = PERSON) -> None:
        """Remove a rate limit: a key has that of `key:*` again, and `key:*` itself is what it was at first."""
        check_rate_name(name)
        before = _found(db, name)
        if name == DEFAULT_KEY:
            put_rate(db, name, Rate(), LimitSource.PERSON, actor)
            db.send(RESET, name=name)
            return
        db.send(REMOVE_RATE, name=name)
        detail = {"name": name} | changed(limit=(_values(before.limit), None), source=(before.source, None))
        announce_limit(db, "rate_limit_removed", actor, detail)


def put_rate(db: Db, name: str, limit: Rate | None, source: LimitSource, actor: str) -> None:
    """Set a rate limit, unless a stronger source set it."""
    stored, lifted = limit or Rate(), limit is None
    if name == DEFAULT_KEY:
        bump(db)  # first: a transaction that is making a bucket has committed, or waits
    before = next((_values(each.limit) for each in read_rate_limits(db) if each.name == name), None)
    values = {"rate": stored.rate, "burst": stored.burst, "lifted": lifted}
    if not db.rows(PUT_RATE, name=name, **values, source=source, replaced=source.replaces):
        return
    if name == DEFAULT_KEY:
        db.send(SET_BUCKETS, **values)
    detail = {"name": name, "limit": _values(limit)} | changed(limit=(before, _values(limit)))
    announce_limit(db, "rate_changed", actor, detail)


def read_rate_limits(db: Db) -> list[RateLimit]:
    rows = db.rows(RATES)
    return [
        RateLimit(name, None if lifted else Rate(rate, burst), source) for name, rate, burst, lifted, source in rows
    ]


def _found(db: Db, name: str) -> RateLimit:
    for found in read_rate_limits(db):
        if found.name == name:
            return found
    raise NotFound.of("no-rate-limit", rate_limit=name)


def _values(limit: Rate | None) -> dict[str, float] | None:
    return None if limit is None else {"rate": limit.rate, "burst": limit.burst}
