"""Names that a tenant may see: those of its own tasks, and those that no tenant made up.

The caller of a submit names its lane and its rate key, often after a customer, and a handler may name a resource so.
Types, packs, programs and settings name things for everybody. A capacity, a limit or a pause that an operator sets for
a name does not make the name everybody's.
"""

from dataclasses import dataclass

from headgate.core.limits import LimitSource
from headgate.core.pause import Pause, PauseScope
from headgate.core.task import DEFAULT_LANE
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.lanes import read_lanes
from headgate.store.catalog.rate_limits import read_rate_limits
from headgate.store.catalog.resources import read_resources
from headgate.store.db.database import Database, Noun, reads
from headgate.store.db.statement import Db

DECLARED = frozenset({LimitSource.PACK, LimitSource.PROGRAM, LimitSource.SETTINGS})
EVERY_KEY = "*"  # of `key:*`


@dataclass(frozen=True, slots=True)
class VisibleNames:
    """The names that one tenant may see; `tenant_id` None: every name."""

    tenant_id: int | None
    lanes: frozenset[str] = frozenset()
    rate_keys: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()

    def has_lane(self, name: str) -> bool:
        return self.tenant_id is None or name in self.lanes

    def has_resource(self, name: str) -> bool:
        return self.tenant_id is None or name in self.resources

    def has_rate_limit(self, name: str) -> bool:
        kind, _, of = name.partition(":")
        return self.tenant_id is None or kind == "type" or of in (self.lanes if kind == "lane" else self.rate_keys)

    def has_pause(self, pause: Pause) -> bool:
        if self.tenant_id is None:
            return True
        named = {
            PauseScope.LANE: self.lanes,
            PauseScope.KEY: self.rate_keys,
            PauseScope.TENANT: {str(self.tenant_id)},
        }
        return pause.scope not in named or pause.name in named[pause.scope]


class Names(Noun):
    """Which names a tenant may see."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        super().__init__(database)
        self._catalog = catalog

    @reads
    def visible_to(self, db: Db, tenant_id: int | None) -> VisibleNames:
        """The names that a tenant may see (None: every name)."""
        if tenant_id is None:
            return VisibleNames(None)
        catalog = self._catalog.fresh(db)
        own = [stream for stream in catalog.streams.values() if stream.tenant_id == tenant_id]
        lanes = {DEFAULT_LANE} | {stream.lane for stream in own} | {kind.lane for kind in catalog.types.values()}
        rate_keys = {EVERY_KEY} | {stream.rate_key for stream in own}
        resources = {name for kind in catalog.types.values() for name in kind.uses}
        lanes |= {each.name for each in read_lanes(db) if each.source in DECLARED}
        resources |= {each.name for each in read_resources(db) if each.source in DECLARED}
        for limit in read_rate_limits(db):
            if limit.source in DECLARED:
                kind, _, name = limit.name.partition(":")
                (lanes if kind == "lane" else rate_keys).add(name)
        return VisibleNames(tenant_id, frozenset(lanes), frozenset(rate_keys), frozenset(resources))
