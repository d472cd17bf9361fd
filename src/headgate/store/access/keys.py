"""API keys, of which only a hash is kept; and the nonces of signed requests, until they are too old to matter."""

import json
from collections.abc import Collection
from datetime import datetime

from headgate.core.errors import Invalid, NotFound
from headgate.core.keys import ROLES, SECRET_BYTES, WINDOW_SECONDS, Key, Role, digest_of, format_key
from headgate.core.task import check_name
from headgate.environment import random_bytes
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.pages import LAST_ID, page_size
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
_ALIVE = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > {now})"
ALIVE = Statement(f"SELECT {_COLUMNS} FROM headgate_api_key WHERE {_ALIVE}")
ANY_ALIVE = Statement(f"SELECT 1 FROM headgate_api_key WHERE {_ALIVE} LIMIT 1")
REVOKE = Statement(
    f"UPDATE headgate_api_key SET revoked_at = {{now}} WHERE id = :id AND revoked_at IS NULL RETURNING {_COLUMNS}"
)
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


class Keys(Noun):
    """The keys that give access over HTTP."""

    @writes
    def add(
        self,
        db: Db,
        name: str,
        role: Role,
        *,
        tenant_id: int | None = None,
        expires_at: datetime | None = None,
        actor: str = PERSON,
    ) -> tuple[Key, str]:
        """A new key, of one tenant or of all (None), and its text, which cannot be read again."""
        check_name("a key's name", name)
        if expires_at is not None and expires_at.tzinfo is None:
            raise Invalid.of("time-zone-needed", field="expires_at")
        if expires_at is not None and not 1970 < expires_at.year < 9999:
            raise Invalid.of("field-out-of-range", field="expires_at")
        secret = random_bytes(SECRET_BYTES)
        [row] = db.rows(
            ADD, name=name, role=role.word, tenant_id=tenant_id, digest=digest_of(secret), actor=actor,
            expires_at=expires_at,
        )  # fmt: skip
        key = _key(row)
        detail = {"key": key.id, "name": name, "role": role.word, "tenant_id": tenant_id}
        record_system(db, "key_created", actor, json.dumps(detail))
        return key, format_key(key.id, secret)

    @reads
    def get(self, db: Db, key_id: int) -> Key | None:
        """A key, alive or not."""
        return _get(db, key_id)

    @reads
    def find(self, db: Db, tenant_id: int | None = None, *, cursor: int | None = None, limit: int = 200) -> list[Key]:
        """A page of keys, of one tenant or of all, newest first; ended keys too."""
        wanted = {"everyones": tenant_id is None, "tenant_id": tenant_id, "cursor": cursor or LAST_ID}
        return [_key(row) for row in db.rows(LIST, **wanted, limit=page_size(limit))]

    @reads
    def active(self, db: Db) -> list[Key]:
        """Every key that works."""
        return [_key(row) for row in db.rows(ALIVE)]

    @reads
    def exist(self, db: Db, *, alive: bool = False) -> bool:
        """Whether there ever was a key; `alive`: whether there is one that still works."""
        return bool(db.rows(ANY_ALIVE if alive else ANY))

    @writes
    def revoke(self, db: Db, key_id: int, *, tenant_id: int | None = None, actor: str = PERSON) -> Key:
        """End a key, for good; one that has ended stays as it is. `NotFound`, also for another tenant's."""
        key = _get(db, key_id)
        if key is None or tenant_id not in (None, key.tenant_id):
            raise NotFound.of("no-key", key_id=key_id)
        for row in db.rows(REVOKE, id=key_id):
            record_system(db, "key_revoked", actor, json.dumps({"key": key_id, "name": key.name}))
            key = _key(row)
        return key

    @writes
    def note_use(self, db: Db, key_ids: Collection[int]) -> None:
        """These keys were used just now."""
        db.send(USED, ids=sorted(key_ids))

    @writes
    def take_nonce(self, db: Db, key_id: int, nonce: str) -> bool:
        """Whether this is the first request of the key with this nonce; False: it is a replay."""
        return bool(db.rows(TAKE_NONCE, key_id=key_id, nonce=nonce))


def _get(db: Db, key_id: int) -> Key | None:
    rows = db.rows(GET, id=key_id)
    return _key(rows[0]) if rows else None


def _key(row: Row) -> Key:
    key_id, name, role, tenant_id, digest, created_at, created_by, expires_at, revoked_at, last_used_at = row
    return Key(
        key_id, name, ROLES[role], tenant_id, digest, moment(created_at), created_by, moment_or_none(expires_at),
        moment_or_none(revoked_at), moment_or_none(last_used_at),
    )  # fmt: skip
