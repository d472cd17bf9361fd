"""The catalog's version: every edit raises it, and every process reads the catalog again when it has changed."""

from headgate.store.db.statement import SPACE, Db, Statement

VERSION = Statement("SELECT version FROM headgate_catalog WHERE one = 1")
BUMP = Statement("UPDATE headgate_catalog SET version = version + 1 WHERE one = 1")
TOUCH = Statement("UPDATE headgate_catalog SET version = version WHERE one = 1")
AWAIT_CLAIMS = Statement(sqlite="SELECT 1", postgres=f"SELECT pg_advisory_xact_lock({SPACE}, -1)")


def bump(db: Db) -> None:
    """Raise the version. Nothing reads the catalog again in this transaction: what may be undone is not to be known."""
    db.edits_catalog = True
    db.send(BUMP)


def announce_limit(db: Db, *, loosened: bool = True) -> None:
    """Raise the version after an edit of a limit; whoever waits is woken where something may start that could not.

    What the edit forbids must not start after it has returned: it waits for the claims that are under way, and those
    that come meanwhile are told that it is busy.
    """
    bump(db)
    db.send(AWAIT_CLAIMS)
    if loosened:
        db.news.room["any"] = 1


def touch(db: Db) -> None:
    """Write, and change nothing."""
    db.rows(TOUCH)
