"""Who asks: a key's name, its tenant and its role; on an open server on this machine, the person at it."""

from dataclasses import dataclass

from headgate.api.problems import Rejected
from headgate.core.keys import Key
from headgate.core.keys import Role as Role
from headgate.store.events.audit import Actor


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody, with what they may see and do. `tenant_id` None: every tenant's."""

    name: str
    tenant_id: int | None
    role: Role
    key_id: int | None = None  # None: no key was needed
    session: str | None = None  # signed in at the console, under this digest
    address: str | None = None  # from which they ask

    @property
    def actor(self) -> str:
        """As the audit names them."""
        return Actor(self.name, self.address)

    def acting_as(self, agent_id: str) -> str:
        """As the audit names an agent: with the key it came with, if it needed one."""
        return f"agent:{agent_id}" if self.key_id is None else f"agent:{agent_id} key:{self.key_id}"

    def allowed_tenant(self, requested: int | None) -> int:
        """The tenant that was requested, or the key's own; a key of one tenant cannot name another."""
        if self.tenant_id is None:
            return requested or 0
        if requested not in (None, self.tenant_id):
            raise Rejected.because(403, "other-tenant")
        return self.tenant_id

    def can_see(self, tenant_id: int) -> bool:
        """Whether they may see what belongs to a tenant."""
        return self.tenant_id in (None, tenant_id)

    def require_all_tenants(self) -> None:
        """Refuse a key of one tenant: what follows tells of all tenants together."""
        if self.tenant_id is not None:
            raise Rejected(403, "these figures cover all tenants: use a key without a tenant")

    def tenant_filter(self, requested: int | None) -> int | None:
        """The tenant to filter by: the one that was requested, else the key's own; None for all."""
        return self.tenant_id if requested is None else self.allowed_tenant(requested)


LOCAL_PERSON = Principal("person", None, Role.ADMIN)


def local_person(address: str | None) -> Principal:
    """Who asks a server without keys."""
    return Principal(LOCAL_PERSON.name, None, Role.ADMIN, address=address)


ANONYMOUS = Principal("nobody", None, Role.READ)  # of health checks


def principal_of_key(key: Key, session: str | None = None, address: str | None = None) -> Principal:
    return Principal(f"key:{key.id} {key.name}", key.tenant_id, key.role, key.id, session, address)
