"""The catalog's version: every edit raises it, and every process reads the catalog again when it has changed."""

import json
import os
import shutil
from typing import Any

from headgate.core.errors import StoreFull
from headgate.store.db.statement import SPACE, Db, Statement
from headgate.store.events.audit import record_system

VERSION = Statement("SELECT version FROM headgate_catalog WHERE one = 1")
BUMP = Statement("UPDATE headgate_catalog SET version = version + 1 WHERE one = 1")
REMOVALS = 1 << 32  # what a removal of streams adds to the version, so that its upper half counts them
BUMP_REMOVAL = Statement(f"UPDATE headgate_catalog SET version = version + {REMOVALS} WHERE one = 1")
TOUCH = Statement("UPDATE headgate_catalog SET version = version WHERE one = 1")
FILE = Statement(sqlite="SELECT file FROM pragma_database_list WHERE name = 'main'", postgres="SELECT NULL")
LEAST_FREE_BYTES = 16 * 1024 * 1024  # small writes may still find room in the log when larger ones do not
AWAIT_CLAIMS = Statement(sqlite="SELECT 1", postgres=f"SELECT pg_advisory_xact_lock({SPACE}, -1)")
# Waits for an edit of a limit, and makes the next edit wait, like a claim that finds no edit under way.
AWAIT_EDITS = Statement(sqlite="SELECT 1", postgres=f"SELECT pg_advisory_xact_lock_shared({SPACE}, -1)")


def bump(db: Db) -> None:
    """Raise the version. This transaction must not read the catalog again: the copy would hold uncommitted changes."""
    db.edits_catalog = True
    db.send(BUMP)


def bump_removal(db: Db) -> None:
    """Raise the version so that every process reads all streams again, not only the new ones."""
    db.edits_catalog = True
    db.send(BUMP_REMOVAL)


def announce_limit(db: Db, kind: str, actor: str, detail: dict[str, Any], *, loosened: bool = True) -> None:
    """Raise the version after an edit of a limit, and record it; wakes waiting executors if more may start now.

    What the edit forbids must not start after it returns: it waits for the claims that are under way, and claims that
    come meanwhile get `busy`. Its audit row comes after theirs, so that the audit reads in the right order.
    """
    bump(db)
    db.send(AWAIT_CLAIMS)
    record_system(db, kind, actor, json.dumps(detail))
    if loosened:
        db.news.room["any"] = 1


def touch(db: Db) -> None:
    """Write, and change nothing; `StoreFull` if there is hardly room for anything else on a file's disk."""
    db.rows(TOUCH)
    for (file,) in db.rows(FILE):
        if file and shutil.disk_usage(os.path.dirname(file)).free < LEAST_FREE_BYTES:
            raise StoreFull("the store's disk is full")
