"""Tenants as operators see them: the weight by which each takes its turn."""

from typing import NamedTuple

from headgate.core.task import check_tenant
from headgate.core.turns import DEFAULT_WEIGHT, check_weight
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.version import announce_limit
from headgate.store.db.database import Database, Noun, reads, writes
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, changed

WEIGHT = Statement("SELECT weight FROM headgate_tenant_weight WHERE tenant_id = :tenant_id")
PUT_WEIGHT = Statement(
    """
    INSERT INTO headgate_tenant_weight (tenant_id, weight) VALUES (:tenant_id, :weight)
    ON CONFLICT (tenant_id) DO UPDATE SET weight = excluded.weight
    """
)
REMOVE_WEIGHT = Statement("DELETE FROM headgate_tenant_weight WHERE tenant_id = :tenant_id")


class Tenant(NamedTuple):
    """A tenant, and its weight: 1 unless an operator set another."""

    id: int
    weight: float = DEFAULT_WEIGHT


class Tenants(Noun):
    """Every tenant. Tenants are not created: one is known once it has submitted, or has a weight."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        super().__init__(database)
        self._catalog = catalog

    @reads
    def all(self, db: Db) -> list[Tenant]:
        """Every tenant that has a weight, or has submitted to a stream that is still there."""
        catalog = self._catalog.fresh(db)
        known = {stream.tenant_id for stream in catalog.streams.values()} | catalog.weights.keys()
        return [Tenant(tenant_id, catalog.weights.get(tenant_id, DEFAULT_WEIGHT)) for tenant_id in sorted(known)]

    @reads
    def get(self, db: Db, tenant_id: int) -> Tenant:
        """A tenant, whether it is known or not."""
        check_tenant(tenant_id)
        return Tenant(tenant_id, _weight(db, tenant_id))

    @writes
    def set_weight(self, db: Db, tenant_id: int, weight: float, *, actor: str = PERSON) -> bool:
        """Set by which weight a tenant takes its turn, from now on; False if it has that weight already."""
        check_tenant(tenant_id)
        check_weight(weight)
        before = _weight(db, tenant_id)
        if before == weight:
            return False
        if weight == DEFAULT_WEIGHT:
            db.send(REMOVE_WEIGHT, tenant_id=tenant_id)
        else:
            db.send(PUT_WEIGHT, tenant_id=tenant_id, weight=float(weight))
        detail = {"tenant": tenant_id} | changed(weight=(before, float(weight)))
        announce_limit(db, "weight_changed", actor, detail, loosened=False)
        return True


def _weight(db: Db, tenant_id: int) -> float:
    return next((weight for (weight,) in db.rows(WEIGHT, tenant_id=tenant_id)), DEFAULT_WEIGHT)
