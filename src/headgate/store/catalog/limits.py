"""The limits that programs, their packs and settings declare."""

from collections.abc import Mapping

from headgate.core.limits import DeclaredLimits, LimitSource, Rate
from headgate.store.catalog.lanes import put_lane, read_lanes
from headgate.store.catalog.rate_limits import put_rate, read_rate_limits
from headgate.store.catalog.resources import put_resource, read_resources
from headgate.store.db.database import Noun, writes
from headgate.store.db.statement import Db
from headgate.store.events.audit import SYSTEM

Limited = tuple[str, str]  # what a limit is for: "lane", "resource" or "rate limit", and its name
Value = int | Rate | None


class Limits(Noun):
    """Lanes, resources and rate limits as they are declared. What a stronger source set stays as it is."""

    def declare(self, declared: DeclaredLimits, source: LimitSource) -> dict[str, str]:
        """Set what is declared, unless it is set already; returns what a stronger source set otherwise, and which."""
        wanted: dict[Limited, Value] = {("lane", name): value for name, value in declared.lanes.items()}
        wanted |= {("resource", name): value for name, value in declared.resources.items()}
        wanted |= {("rate limit", name): value for name, value in declared.rates.items()}
        if not wanted:
            return {}
        known = self._database.read(_known)
        stays = {what: known[what] for what in wanted if what in known and known[what][1] not in source.replaces}
        new = {
            what: value for what, value in wanted.items() if what not in stays and known.get(what) != (value, source)
        }
        if new:
            self._put(new, source)
        return {" ".join(what): held_by for what, (value, held_by) in stays.items() if value != wanted[what]}

    @writes
    def _put(self, db: Db, limits: Mapping[Limited, Value], source: LimitSource) -> None:
        for (noun, name), value in limits.items():
            if isinstance(value, int | None) and noun == "lane":
                put_lane(db, name, value, source, SYSTEM)
            elif isinstance(value, int):
                put_resource(db, name, value, source, SYSTEM)
            else:
                put_rate(db, name, value, source, SYSTEM)


def _known(db: Db) -> dict[Limited, tuple[Value, str]]:
    found: dict[Limited, tuple[Value, str]] = {
        ("lane", each.name): (each.capacity, each.source) for each in read_lanes(db)
    }
    found |= {("resource", each.name): (each.capacity, each.source) for each in read_resources(db)}
    return found | {("rate limit", each.name): (each.limit, each.source) for each in read_rate_limits(db)}
