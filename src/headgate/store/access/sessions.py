"""Sessions at the console: a key is changed for a token that ends by itself; only the token's hash is kept."""

import json
from dataclasses import dataclass
from datetime import datetime

from headgate.core.keys import SECRET_BYTES, Key, digest_of
from headgate.environment import random_bytes
from headgate.store.db.database import Database
from headgate.store.db.statement import Db, Statement, moment
from headgate.store.events.audit import record_system

SWEPT = 100  # outdated ones that each new session takes along

ADD = Statement(
    """
    INSERT INTO headgate_session (digest, key_id, created_at, last_used_at, expires_at)
    VALUES (:digest, :key_id, {now}, {now}, {now + :seconds})
    RETURNING key_id, created_at, expires_at
    """
)
GET = Statement(
    """
    SELECT key_id, created_at, expires_at FROM headgate_session
     WHERE digest = :digest AND expires_at > {now} AND last_used_at > {now - :idle}
    """
)
USED = Statement("UPDATE headgate_session SET last_used_at = {now} WHERE digest = :digest")
END = Statement("DELETE FROM headgate_session WHERE digest = :digest RETURNING key_id")
OUTDATED = Statement(
    """
    DELETE FROM headgate_session WHERE digest IN (
           SELECT digest FROM headgate_session WHERE expires_at <= {now} ORDER BY expires_at LIMIT :limit)
    """
)


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who signed in with a key; `digest` is its name here."""

    digest: str
    key_id: int
    created_at: datetime
    expires_at: datetime


class Sessions:
    """Who is signed in."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, key: Key, seconds: float, *, actor: str, instead_of: str | None = None) -> tuple[Session, str]:
        """A new session and its token, which nobody can ask for again; the one it comes instead of has ended."""
        token = random_bytes(SECRET_BYTES).hex()
        digest = digest_of(bytes.fromhex(token))
        return self._database.write(lambda db: _begin(db, digest, key, seconds, actor, instead_of)), token

    def get(self, digest: str, idle_seconds: float) -> Session | None:
        """A session that is not over, by age or for want of use."""
        return self._database.read(lambda db: _get(db, digest, idle_seconds))

    def note_use(self, digest: str) -> None:
        """It was used just now."""
        self._database.write(lambda db: db.send(USED, digest=digest))

    def end(self, digest: str, *, actor: str) -> None:
        """Sign out; a session that is over stays so."""
        self._database.write(lambda db: _end(db, digest, actor))


def _begin(db: Db, digest: str, key: Key, seconds: float, actor: str, instead_of: str | None) -> Session:
    db.send(OUTDATED, limit=SWEPT)
    if instead_of is not None:
        db.send(END, digest=instead_of)
    [(key_id, created_at, expires_at)] = db.rows(ADD, digest=digest, key_id=key.id, seconds=seconds)
    record_system(db, "signed_in", actor, json.dumps({"key": key.id}))
    return Session(digest, key_id, moment(created_at), moment(expires_at))


def _get(db: Db, digest: str, idle: float) -> Session | None:
    rows = db.rows(GET, digest=digest, idle=idle)
    return Session(digest, rows[0][0], moment(rows[0][1]), moment(rows[0][2])) if rows else None


def _end(db: Db, digest: str, actor: str) -> None:
    for (key_id,) in db.rows(END, digest=digest):
        record_system(db, "signed_out", actor, json.dumps({"key": key_id}))
