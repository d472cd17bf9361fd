"""Idempotency keys: the same call made twice gets the answer of the first."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.errors import KeyReused
from headgate.core.task import check_name
from headgate.store.db.statement import Db, Statement

REMEMBER = Statement(
    """
    INSERT INTO headgate_idempotency (tenant_id, key, body_hash, task_ids, at)
    VALUES (:tenant_id, :key, :body_hash, '[]', {now})
    ON CONFLICT (tenant_id, key) DO NOTHING
    RETURNING key
    """
)
ANSWER = Statement("UPDATE headgate_idempotency SET task_ids = :ids WHERE tenant_id = :tenant_id AND key = :key")
REMEMBERED = Statement(
    "SELECT body_hash, task_ids FROM headgate_idempotency WHERE tenant_id = :tenant_id AND key = :key"
)


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A caller's key for one call, and a digest of what it asked for."""

    key: str
    body_hash: str

    def __post_init__(self) -> None:
        check_name("idempotency key", self.key)
        check_name("body hash", self.body_hash)


def recall(db: Db, tenant_id: int, once: Idempotency) -> list[int] | None:
    """The ids that the first call under this key made; None if this is the first.

    `KeyReused` if that one asked for something else. A second call at the same moment waits for the first.
    """
    if db.rows(REMEMBER, tenant_id=tenant_id, key=once.key, body_hash=once.body_hash):
        return None
    [[body_hash, ids]] = db.rows(REMEMBERED, tenant_id=tenant_id, key=once.key)
    if body_hash != once.body_hash:
        raise KeyReused.of("key-reused", key=once.key)
    return list(json.loads(ids))


def remember(db: Db, tenant_id: int, once: Idempotency, ids: Sequence[int]) -> None:
    """Keep what the first call made."""
    db.send(ANSWER, tenant_id=tenant_id, key=once.key, ids=json.dumps(list(ids)))
