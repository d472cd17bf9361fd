"""`/api/keys`: who may come in."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import INT64, Cursor, Integer, Limit, Name, copied
from headgate.core.errors import Invalid
from headgate.core.keys import ROLES, secret_key
from headgate.environment import utc_now

RoleWord = Literal["read", "submit", "agent", "operator", "admin"]
KeyId = Annotated[int, Meta(description="ID of the key.", ge=1, le=INT64)]


class NewKeyIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A key to be made: of one tenant, or of none and so of all."""

    name: Name
    role: RoleWord
    tenant_id: Integer | None = None
    expires_at: datetime | None = None


class KeyOut(msgspec.Struct, kw_only=True):
    """A key, without its secret, which is nowhere."""

    id: int
    name: str
    role: RoleWord
    tenant_id: int | None
    access_key: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewKeyOut(KeyOut, kw_only=True):
    """A new key with its secrets, shown this once. `secret_key` is there if the server has a HEADGATE_SECRET."""

    key: str
    secret_key: str | UnsetType = UNSET


class KeyPage(msgspec.Struct):
    items: list[KeyOut]
    next_cursor: int | None


routes = Routes("keys")


@routes.post("/api/keys", Role.ADMIN, "Create a key", status=201, errors=(507,))
async def make_key(data: NewKeyIn, server: Server, who: Principal) -> NewKeyOut:
    """Its secrets are shown only once. As soon as there is a key, every request needs one."""
    tenant_id = data.tenant_id if who.tenant_id is None else who.allowed_tenant(data.tenant_id)
    if data.expires_at is not None and (data.expires_at.tzinfo is None or data.expires_at <= utc_now()):
        raise Invalid("expires_at must be in the future and have a time zone")
    key, text = await server.in_thread(
        server.store.keys.add, data.name, ROLES[data.role], tenant_id=tenant_id, expires_at=data.expires_at,
        actor=who.actor,
    )  # fmt: skip
    server.keyring.forget()
    secrets = server.settings.secrets
    secret = secret_key(secrets[0], key.id, key.digest) if secrets else UNSET
    return copied(NewKeyOut, key, role=key.role.word, key=text, secret_key=secret)


@routes.get("/api/keys", Role.ADMIN, "List keys, newest first")
async def list_keys(server: Server, who: Principal, cursor: Cursor = None, limit: Limit = 50) -> KeyPage:
    found = await server.in_thread(server.store.keys.find, who.tenant_id, cursor=cursor, limit=limit)
    items = [copied(KeyOut, key, role=key.role.word) for key in found]
    return KeyPage(items, found[-1].id if len(found) == limit else None)


@routes.delete("/api/keys/{key_id}", Role.ADMIN, "Revoke a key", errors=(404,))
async def revoke_key(key_id: KeyId, server: Server, who: Principal) -> None:
    """It cannot be undone. Every server refuses the key within seconds."""
    await server.in_thread(server.store.keys.revoke, key_id, tenant_id=who.tenant_id, actor=who.actor)
    server.keyring.forget()
