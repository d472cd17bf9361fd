"""`/api/tenants`: the weight by which each tenant takes its turn."""

from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import Integer
from headgate.core.turns import LEAST_WEIGHT, MOST_WEIGHT
from headgate.store.catalog.tenants import Tenant


class TenantOut(msgspec.Struct):
    """A tenant. Of two that have work for the same executors, the one of twice the `weight` starts twice as many."""

    id: int
    weight: float


class TenantsOut(msgspec.Struct):
    """Every tenant that has a weight other than 1, or has submitted lately."""

    items: list[TenantOut]


class TenantIn(msgspec.Struct, forbid_unknown_fields=True):
    """`weight` 1 is the default."""

    weight: Annotated[float, Meta(ge=LEAST_WEIGHT, le=MOST_WEIGHT)]


routes = Routes("tenants", shared=True)


@routes.get("/api/tenants", Role.READ, "Every tenant, and its weight")
async def list_tenants(server: Server, who: Principal) -> TenantsOut:
    """A key of one tenant sees that one."""
    if who.tenant_id is not None:
        own = await server.in_thread(server.store.tenants.get, who.tenant_id)
        return TenantsOut([_out(own)])
    found = await server.in_thread(server.store.tenants.all)
    return TenantsOut([_out(tenant) for tenant in found])


@routes.put("/api/tenants/{tenant_id}", Role.OPERATOR, "Set a tenant's weight, from now on", errors=(404, 507))
async def put_tenant(tenant_id: Integer, data: TenantIn, server: Server, who: Principal) -> TenantOut:
    """The tenant need not have submitted anything yet."""
    await server.in_thread(server.store.tenants.set_weight, tenant_id, data.weight, actor=who.actor)
    return _out(await server.in_thread(server.store.tenants.get, tenant_id))


@routes.delete("/api/tenants/{tenant_id}", Role.OPERATOR, "Give a tenant the weight of 1 again", errors=(404, 507))
async def reset_tenant(tenant_id: Integer, server: Server, who: Principal) -> None:
    """Its tasks stay as they are."""
    await server.in_thread(server.store.tenants.set_weight, tenant_id, 1.0, actor=who.actor)


def _out(tenant: Tenant) -> TenantOut:
    return TenantOut(tenant.id, tenant.weight)
