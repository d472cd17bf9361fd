"""Who asks: a key's name, its tenant and its role; on an open server on this machine, the person at it."""

from dataclasses import dataclass

from litestar.exceptions import PermissionDeniedException

from headgate.core.keys import Key
from headgate.core.keys import Role as Role


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody, with what they may see and do. `tenant_id` None: every tenant's."""

    name: str
    tenant_id: int | None
    role: Role
    key_id: int | None = None  # None: no key was needed
    session: str | None = None  # signed in at the console, under this digest

    @property
    def actor(self) -> str:
        """As the audit names them."""
        return self.name

    def tenant(self, asked: int | None) -> int:
        """The tenant that something new belongs to: the key's own; another one's is refused."""
        if self.tenant_id is None:
            return asked or 0
        if asked not in (None, self.tenant_id):
            raise PermissionDeniedException("the key is another tenant's")
        return self.tenant_id

    def sees(self, tenant_id: int) -> bool:
        """Whether a tenant's things are there for them at all."""
        return self.tenant_id in (None, tenant_id)

    def sees_all(self) -> None:
        """Refuse who sees one tenant only what is told of all of them together."""
        if self.tenant_id is not None:
            raise PermissionDeniedException("these figures are of all tenants: they need a key of no tenant")

    def looks_at(self, asked: int | None) -> int | None:
        """The tenant whose things are looked at: the one that was asked for, or all that may be seen (None: all)."""
        return self.tenant_id if asked is None else self.tenant(asked)


ANYBODY = Principal("person", None, Role.ADMIN)
NOBODY = Principal("nobody", None, Role.READ)  # who asks whether the server lives


def holder_of(key: Key, session: str | None = None) -> Principal:
    return Principal(f"key:{key.id} {key.name}", key.tenant_id, key.role, key.id, session)
