"""API keys, of which only a hash is kept; and the nonces of signed requests, until they are too old to matter."""

import json
from collections.abc import Collection
from datetime import datetime

from headgate.core.errors import Invalid, NotFound
from headgate.core.keys import ROLES, SECRET_BYTES, WINDOW_SECONDS, Key, Role, digest_of, format_key
from headgate.core.task import check_name
from headgate.environment import random_bytes
from headgate.store.db.database import Database
from headgate.store.db.statement import Db, Row, Statement, moment, moment_or_none
from headgate.store.events.audit import PERSON, record_system

# A request may be dated one window ahead, and is good until one window behind.
NONCE_SECONDS = 2 * WINDOW_SECONDS + 60.0
_COLUMNS = "id, name, role, tenant_id, digest, created_at, created_by, expires_at, revoked_at, last_used_at"

ADD = Statement(
    f"""
    INSERT INTO headgate_api_key (name, role, tenant_id, digest, created_at, created_by, expires_at)
    VALUES (:name, :role, :tenant_id, :digest, {{now}}, :actor, :expires_at)
    RETURNING {_COLUMNS}
    """
)
GET = Statement(f"SELECT {_COLUMNS} FROM headgate_api_key WHERE id = :id")
LIST = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_api_key
     WHERE id < :cursor AND (:everyones OR tenant_id = :tenant_id) ORDER BY id DESC LIMIT :limit
    """
)
ANY = Statement("SELECT 1 FROM headgate_api_key LIMIT 1")
ANY_ALIVE = Statement(
    "SELECT 1 FROM headgate_api_key WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > {now}) LIMIT 1"
)
REVOKE = Statement("UPDATE headgate_api_key SET revoked_at = {now} WHERE id = :id AND revoked_at IS NULL RETURNING id")
USED = Statement("UPDATE headgate_api_key SET last_used_at = {now} WHERE id {in ids}")
TAKE_NONCE = Statement(
    f"""
    INSERT INTO headgate_nonce (key_id, nonce, expires_at) VALUES (:key_id, :nonce, {{now + {NONCE_SECONDS}}})
    ON CONFLICT (key_id, nonce) DO NOTHING RETURNING 1
    """
)
OUTDATED = Statement(
    """
    DELETE FROM headgate_nonce WHERE (key_id, nonce) IN (
           SELECT key_id, nonce FROM headgate_nonce WHERE expires_at < {now} ORDER BY expires_at LIMIT :limit)
    RETURNING 1
    """
)
MOST_LISTED = 200
_LAST = 2**63 - 1


class Keys:
    """Who may come in over HTTP."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        name: str,
        role: Role,
        *,
        tenant_id: int | None = None,
        expires_at: datetime | None = None,
        actor: str = PERSON,
    ) -> tuple[Key, str]:
        """A new key, of one tenant or of all (None), and its text, which nobody can ask for again."""
        secret = random_bytes(SECRET_BYTES)
        key = self._database.write(lambda db: _add(db, name, role, tenant_id, expires_at, digest_of(secret), actor))
        return key, format_key(key.id, secret)

    def get(self, key_id: int) -> Key | None:
        """A key, alive or not."""
        return self._database.read(lambda db: _get(db, key_id))

    def find(self, tenant_id: int | None = None, *, cursor: int | None = None, limit: int = 200) -> list[Key]:
        """A page of keys, a tenant's or everybody's, newest first; those that ended too."""
        return self._database.read(lambda db: _find(db, tenant_id, cursor, limit))

    def exist(self, *, alive: bool = False) -> bool:
        """Whether there ever was a key; `alive`: whether there is one that still works."""
        return self._database.read(lambda db: bool(db.rows(ANY_ALIVE if alive else ANY)))

    def revoke(self, key_id: int, *, tenant_id: int | None = None, actor: str = PERSON) -> Key:
        """End a key, for good; one that has ended stays as it is. `NotFound`, also for another tenant's."""
        return self._database.write(lambda db: _revoke(db, key_id, tenant_id, actor))

    def note_use(self, key_ids: Collection[int]) -> None:
        """These keys were used just now."""
        self._database.write(lambda db: db.send(USED, ids=sorted(key_ids)))

    def take_nonce(self, key_id: int, nonce: str) -> bool:
        """Whether a key's request carries this nonce for the first time; False means: somebody sent it again."""
        return self._database.write(lambda db: bool(db.rows(TAKE_NONCE, key_id=key_id, nonce=nonce)))


def _add(
    db: Db, name: str, role: Role, tenant_id: int | None, expires_at: datetime | None, digest: str, actor: str
) -> Key:
    check_name("a key's name", name)
    if expires_at is not None and expires_at.tzinfo is None:
        raise Invalid("expires_at is a time with a time zone")
    if expires_at is not None and not 1970 < expires_at.year < 9999:
        raise Invalid("expires_at is out of range")
    [row] = db.rows(
        ADD, name=name, role=role.word, tenant_id=tenant_id, digest=digest, actor=actor,
        expires_at=None if expires_at is None else db.time(expires_at),
    )  # fmt: skip
    key = _key(row)
    detail = {"key": key.id, "name": name, "role": role.word, "tenant_id": tenant_id}
    record_system(db, "key_created", actor, json.dumps(detail))
    return key


def _get(db: Db, key_id: int) -> Key | None:
    rows = db.rows(GET, id=key_id)
    return _key(rows[0]) if rows else None


def _find(db: Db, tenant_id: int | None, cursor: int | None, limit: int) -> list[Key]:
    limit = max(1, min(limit, MOST_LISTED))
    rows = db.rows(LIST, everyones=tenant_id is None, tenant_id=tenant_id, cursor=cursor or _LAST, limit=limit)
    return [_key(row) for row in rows]


def _revoke(db: Db, key_id: int, tenant_id: int | None, actor: str) -> Key:
    key = _get(db, key_id)
    if key is None or tenant_id not in (None, key.tenant_id):
        raise NotFound(f"no key {key_id}")
    if db.rows(REVOKE, id=key_id):
        record_system(db, "key_revoked", actor, json.dumps({"key": key_id, "name": key.name}))
        key = _get(db, key_id)
        assert key is not None
    return key


def _key(row: Row) -> Key:
    key_id, name, role, tenant_id, digest, created_at, created_by, expires_at, revoked_at, last_used_at = row
    return Key(
        key_id, name, ROLES[role], tenant_id, digest, moment(created_at), created_by, moment_or_none(expires_at),
        moment_or_none(revoked_at), moment_or_none(last_used_at),
    )  # fmt: skip
