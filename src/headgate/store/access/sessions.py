"""Console sessions: a key is exchanged for a token that expires; only the token's hash is stored."""

import json
from dataclasses import dataclass
from datetime import datetime

from headgate.core.keys import SECRET_BYTES, Key, digest_of
from headgate.environment import random_bytes
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Row, Statement, moment
from headgate.store.events.audit import record_system

SWEPT = 100  # expired sessions that each new session removes

ADD = Statement(
    """
    INSERT INTO headgate_session (digest, key_id, created_at, last_used_at, expires_at)
    VALUES (:digest, :key_id, {now}, {now}, {now + :seconds})
    RETURNING digest, key_id, created_at, expires_at
    """
)
GET = Statement(
    """
    SELECT digest, key_id, created_at, expires_at FROM headgate_session
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
    """A person signed in with a key; `digest` identifies the session."""

    digest: str
    key_id: int
    created_at: datetime
    expires_at: datetime


class Sessions(Noun):
    """Who is signed in."""

    @writes
    def begin(
        self, db: Db, key: Key, seconds: float, *, actor: str, instead_of: str | None = None
    ) -> tuple[Session, str]:
        """A new session and its token, which cannot be read again; the session that it replaces ends."""
        token = random_bytes(SECRET_BYTES)
        db.send(OUTDATED, limit=SWEPT)
        if instead_of is not None:
            db.send(END, digest=instead_of)
        [row] = db.rows(ADD, digest=digest_of(token), key_id=key.id, seconds=seconds)
        record_system(db, "signed_in", actor, json.dumps({"key": key.id}))
        return _session(row), token.hex()

    @reads
    def get(self, db: Db, digest: str, idle_seconds: float) -> Session | None:
        """A session that has not ended by age or idleness."""
        rows = db.rows(GET, digest=digest, idle=idle_seconds)
        return _session(rows[0]) if rows else None

    @writes
    def note_use(self, db: Db, digest: str) -> None:
        """It was used just now."""
        db.send(USED, digest=digest)

    @writes
    def end(self, db: Db, digest: str, *, actor: str) -> None:
        """Sign out; a session that is over stays so."""
        for (key_id,) in db.rows(END, digest=digest):
            record_system(db, "signed_out", actor, json.dumps({"key": key_id}))


def _session(row: Row) -> Session:
    digest, key_id, created_at, expires_at = row
    return Session(digest, key_id, moment(created_at), moment(expires_at))
