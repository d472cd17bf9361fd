"""Pauses of everything, a lane, a type, a tenant or a rate key. One that has ended holds nothing, written or not."""

from datetime import datetime
from typing import Any

from headgate.core.errors import Invalid
from headgate.core.pause import UNCHANGED, Pause, PauseKey, PauseScope, Unchanged, check_pause
from headgate.core.task import clip
from headgate.store.catalog.version import announce_limit
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Row, Statement, clock, moment
from headgate.store.events.audit import PERSON, changed

MAX_REASON_BYTES = 2000
# Of the rows that hold something; a claim reads them in its own transaction.
ACTIVE = "headgate_pause WHERE (until IS NULL OR until > {now})"
COLUMNS = "scope, name, reason, actor, at, until"
PAUSES = Statement(f"SELECT {COLUMNS} FROM {ACTIVE} ORDER BY scope, name")
ALL_PAUSES = Statement(f"SELECT {COLUMNS} FROM headgate_pause")
PAUSE = Statement(f"SELECT {COLUMNS} FROM {ACTIVE} AND scope = :scope AND name = :name")
PUT_PAUSE = Statement(
    """
    INSERT INTO headgate_pause (scope, name, reason, actor, at, until)
    VALUES (:scope, :name, :reason, :actor, {now}, :until)
    ON CONFLICT (scope, name) DO UPDATE
       SET reason = excluded.reason, actor = excluded.actor, at = excluded.at, until = excluded.until
    """
)
DROP_PAUSE = Statement("DELETE FROM headgate_pause WHERE scope = :scope AND name = :name")
END_PAUSE = Statement("DELETE FROM headgate_pause WHERE scope = :scope AND name = :name RETURNING until")
REMOVE_ENDED = Statement("DELETE FROM headgate_pause WHERE until <= {now}")


class Pauses(Noun):
    """Every pause. It holds from the moment `set` returns: nothing that it forbids starts afterwards."""

    @reads
    def active(self, db: Db) -> list[Pause]:
        """Every pause that holds now, by scope and name."""
        return read_pauses(db)

    def by_key(self) -> dict[PauseKey, Pause]:
        """Every pause that holds now."""
        return {pause.key: pause for pause in self.active()}

    @writes
    def set(
        self, db: Db, scope: PauseScope, name: str, *, reason: str | Unchanged = "",
        until: datetime | Unchanged | None = None, actor: str = PERSON,
    ) -> bool:  # fmt: skip
        """Pause; a pause that is there is replaced. False if it has this reason and this end already."""
        return set_pause(db, (scope, name), reason, until, actor)

    @writes
    def end(self, db: Db, scope: PauseScope, name: str, *, actor: str = PERSON) -> bool:
        """End a pause; False if there is none."""
        return end_pause(db, (scope, name), actor)


def read_pauses(db: Db) -> list[Pause]:
    return [pause_of(row) for row in db.rows(PAUSES)]


def pause_of(row: Row) -> Pause:
    scope, name, reason, actor, at, until = row
    return Pause(PauseScope(scope), name, reason, actor, moment(at), None if until is None else moment(until))


def set_pause(
    db: Db, key: PauseKey, reason: str | Unchanged, until: datetime | Unchanged | None, actor: str
) -> bool:  # fmt: skip
    """`Pauses.set`, as part of a transaction."""
    scope, name = _checked(key)
    if isinstance(until, datetime) and until.tzinfo is None:
        raise Invalid.of("time-zone-needed", field="until")
    if isinstance(until, datetime) and until <= clock(db):
        raise Invalid.of("pause-end-past")
    replaced = [pause_of(row) for row in db.rows(PAUSE, scope=scope, name=name)]
    if until is UNCHANGED:
        until = replaced[0].until if replaced else None
    if reason is UNCHANGED:
        reason = replaced[0].reason if replaced else ""
    reason = clip(reason, MAX_REASON_BYTES)
    detail = _what(scope, name) | _values(reason, until)
    for before in replaced:
        if (before.reason, before.until) == (reason, until):
            return False
        old, new = _values(before.reason, before.until), _values(reason, until)
        detail |= changed(**{field: (old.get(field), new.get(field)) for field in ("reason", "until")})
    db.send(REMOVE_ENDED)
    db.send(PUT_PAUSE, scope=scope, name=name, reason=reason, actor=actor, until=until)
    announce_limit(db, "paused", actor, detail, loosened=bool(replaced))
    return True


def end_pause(db: Db, key: PauseKey, actor: str) -> bool:
    """`Pauses.end`, as part of a transaction."""
    scope, name = _checked(key)
    held = [
        until for (until,) in db.rows(END_PAUSE, scope=scope, name=name) if until is None or moment(until) > clock(db)
    ]
    if held:
        announce_limit(db, "resumed", actor, _what(scope, name))
    return bool(held)


def drop_pause(db: Db, key: PauseKey) -> None:
    """Remove a pause together with what it holds."""
    db.send(DROP_PAUSE, scope=key[0], name=key[1])


def _checked(key: PauseKey) -> PauseKey:
    scope, name = key
    check_pause(PauseScope(scope), name)
    return key


def _what(scope: str, name: str) -> dict[str, Any]:
    """What is paused, as the audit says it."""
    return {"everything": True} if scope == PauseScope.ALL else {str(scope): name}


def _values(reason: str, until: datetime | None) -> dict[str, Any]:
    return ({"reason": reason} if reason else {}) | ({} if until is None else {"until": until.isoformat()})
