"""Numbered files, forward only, checksummed; safe to run twice, at once, and to be cut short."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from headgate.core.errors import Unavailable
from headgate.store.sql import Db, Statement


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        without_comments = re.sub(r"--[^\n]*", "", self.text)
        return [part.strip() for part in without_comments.split(";") if part.strip()]


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Every step there is, in order."""
    folder = resources.files("headgate.store") / "migrations" / dialect
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(Migration(int(file.name[:4]), file.name, file.read_text(encoding="utf-8")) for file in files)


LOCK = Statement(sqlite="SELECT 1", postgres="SELECT pg_advisory_xact_lock(26725, 0)")
KEEP = Statement(
    sqlite="""
    CREATE TABLE IF NOT EXISTS headgate_migration (
        version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at integer NOT NULL) STRICT
    """,
    postgres="""
    CREATE TABLE IF NOT EXISTS headgate_migration (
        version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL)
    """,
)
EXISTS = Statement(
    sqlite="SELECT 1 FROM sqlite_master WHERE name = 'headgate_migration'",
    postgres="SELECT 1 WHERE to_regclass('headgate_migration') IS NOT NULL",
)
APPLIED = Statement("SELECT version, name, checksum FROM headgate_migration ORDER BY version")
NOTE = Statement(
    "INSERT INTO headgate_migration (version, name, checksum, applied_at) VALUES (:version, :name, :checksum, {now})"
)


def plan(db: Db) -> list[Migration]:
    """The steps still to take; `Unavailable` if the database is not one of ours as this version knows them."""
    applied = {row[0]: row[1:] for row in db.rows(APPLIED)} if db.rows(EXISTS) else {}
    known = {migration.version: migration for migration in migrations(db.dialect)}
    for version, (name, checksum) in applied.items():
        if version not in known:
            raise Unavailable(f"the database is newer than this program: it has migration {name}")
        if known[version].checksum != checksum:
            raise Unavailable(f"migration {name} in the database is not the one this program has")
    return [migration for migration in migrations(db.dialect) if migration.version not in applied]


def migrate(db: Db) -> list[Migration]:
    """Take every step still to take, in this transaction: all of them, or, cut short, none; those taken."""
    db.send(LOCK)
    db.send(KEEP)
    taken = plan(db)
    for migration in taken:
        for text in migration.statements:
            db.send(Statement(text))
        db.send(NOTE, version=migration.version, name=migration.name, checksum=migration.checksum)
    return taken
