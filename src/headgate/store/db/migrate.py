"""Numbered files, forward only, checksummed; safe to run twice, at once, and to be cut short.

A new store begins with the baseline. A store from before it, whose tables had no prefix, first takes what it lacks of
the steps below the baseline; then its tables are renamed, and it is the same as a new one.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from headgate.core.errors import Unavailable
from headgate.store.db.renaming import OLD_LEDGER, rename
from headgate.store.db.statement import Db, Statement

BASELINE = 10
LEDGER = "headgate_migration"
_RENAMING = "-- Every table, index, sequence and constraint of this store gets the prefix headgate_.\n"
_MADE = re.compile(
    r'\bCREATE\s+(?:TABLE|SEQUENCE|(?:UNIQUE\s+)?INDEX)\s+(?:IF\s+NOT\s+EXISTS\s+)?"?(\w+)', re.IGNORECASE
)


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

    @property
    def makes(self) -> list[str]:
        """The names of the tables, indexes and sequences it makes."""
        return [name for text in self.statements for name in _MADE.findall(text)]


@cache
def files_in(package: str, dialect: str) -> tuple[Migration, ...]:
    """The steps in a package's folder `migrations`, in order."""
    folder = resources.files(package) / "migrations" / dialect
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(Migration(int(file.name[:4]), file.name, file.read_text(encoding="utf-8")) for file in files)


def migrations(dialect: str) -> tuple[Migration, ...]:
    """Every step of a new store, in order."""
    return tuple(migration for migration in files_in(__package__, dialect) if migration.version >= BASELINE)


def earlier(dialect: str) -> tuple[Migration, ...]:
    """Every step of a store from before the baseline, in order."""
    return tuple(migration for migration in files_in(__package__, dialect) if migration.version < BASELINE)


LOCK = Statement(sqlite="SELECT 1", postgres="SELECT pg_advisory_xact_lock(26725, 0)")
# For the index of a large table. A wait for a lock still ends, and those who wait for ours have limits of their own.
NO_TIME_LIMIT = Statement(postgres="SELECT set_config('statement_timeout', '0', true)")
COLUMNS = Statement(
    sqlite="SELECT name FROM pragma_table_info(:ledger)",
    postgres="SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:ledger) AND attnum > 0",
)
NOTE = Statement(
    "INSERT INTO headgate_migration (version, name, checksum, applied_at) VALUES (:version, :name, :checksum, {now})"
)
# Where a store's tables are; or, if it has none yet, where they are to be.
HOME = Statement(
    sqlite="SELECT 'main'",
    postgres="""
    SELECT coalesce((SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass(:ledger)),
                    :schema, quote_ident(current_schema()))
    """,
)
NOT_OURS = Statement(
    sqlite="SELECT name FROM sqlite_master WHERE lower(name) {in names text} ORDER BY name LIMIT 1",
    postgres="""
    SELECT relname FROM pg_class WHERE relname {in names text} AND relnamespace = to_regnamespace(:home)
     ORDER BY relname LIMIT 1
    """,
)
IS_SCHEMA = Statement(postgres="SELECT 1 WHERE to_regnamespace(:schema) IS NOT NULL")
LOOK_THERE = Statement(postgres="SELECT set_config('search_path', :home, true)")

Steps = dict[int, tuple[str, str]]  # name and checksum by version


@dataclass(frozen=True, slots=True)
class Found:
    """What there is of a store: the steps it took, whether its tables have no prefix, and the schema they are in."""

    taken: Steps
    old: bool
    home: str | None


def plan(db: Db) -> list[Migration]:
    """The steps still to take; `Unavailable` if the database is not one of ours as this version knows them."""
    return _plan(db, look(db))


def migrate(db: Db) -> list[Migration]:
    """Take every step still to take, in this transaction: all of them, or, cut short, none; those taken."""
    db.send(LOCK)
    found = look(db)
    steps = _plan(db, found)
    if not steps:
        return []
    if db.dialect == "postgres":
        db.send(NO_TIME_LIMIT)
        enter_schema(db, found.home)
    for step in steps:
        if found.old and step.version == BASELINE:
            rename(db, [name for one in earlier(db.dialect) for name in one.makes], _indexes(db.dialect))
        else:
            for text in step.statements:
                db.define(text)
    versions = {step.version for step in steps}
    for step in migrations(db.dialect):
        if step.version in versions:
            db.send(NOTE, version=step.version, name=step.name, checksum=step.checksum)
    return steps


def look(db: Db) -> Found:
    """What there is of a store in this database."""
    schema = f'"{db.schema}"' if db.schema else None
    for ledger in (LEDGER, OLD_LEDGER):
        where = qualified_name(db, ledger)
        taken = _taken(db, where)
        if taken and (ledger == LEDGER or _is_ours(db, taken)):
            return Found(taken, ledger == OLD_LEDGER, db.rows(HOME, ledger=where, schema=schema)[0][0])
    return Found({}, False, db.rows(HOME, ledger=None, schema=schema)[0][0])


def _plan(db: Db, found: Found) -> list[Migration]:
    if found.taken and not found.old:
        return missing_steps(migrations(db.dialect), found.taken)
    baseline, *later = migrations(db.dialect)
    met = db.rows(NOT_OURS, names=baseline.makes, home=found.home)
    if met:
        instead = "or set HEADGATE_SCHEMA" if db.dialect == "postgres" else "or use another file"
        raise Unavailable(f"the database has a {met[0][0]} that is not Headgate's: rename it, {instead}")
    if not found.old:
        return [baseline, *later]
    return [*missing_steps(earlier(db.dialect), found.taken), replace(baseline, text=_RENAMING), *later]


def qualified_name(db: Db, table: str) -> str:
    """A table's name, for `to_regclass`: in the schema that was asked for, if one was."""
    return f'"{db.schema}".{table}' if db.schema else table


def missing_steps(known: tuple[Migration, ...], taken: Steps, whose: str = "the database") -> list[Migration]:
    """The steps not taken yet; `Unavailable` if one was taken that is not known, or not like this."""
    checksums = {migration.version: migration.checksum for migration in known}
    for version, (name, checksum) in taken.items():
        if version not in checksums:
            raise Unavailable(f"{whose} is newer than this program: it has migration {name}")
        if checksums[version] != checksum:
            raise Unavailable(f"migration {name} in {whose} is not the one this program has")
    return [migration for migration in known if migration.version not in taken]


def _taken(db: Db, ledger: str) -> Steps | None:
    """The steps written down in a table; None if there is no such table, or it is for something else."""
    if not {"version", "name", "checksum"} <= {row[0] for row in db.rows(COLUMNS, ledger=ledger)}:
        return None
    rows = db.rows(Statement(f"SELECT version, name, checksum FROM {ledger} ORDER BY version"))
    return {row[0]: row[1:] for row in rows}


def _is_ours(db: Db, taken: Steps) -> bool:
    """Other programs may have a table named `migration`: ours contains our first step."""
    first = earlier(db.dialect)[0]
    return taken.get(first.version) == (first.name, first.checksum)


def enter_schema(db: Db, home: str | None) -> None:
    """Have the steps meant for `home`, which is made if it was asked for and is not there."""
    if home is None:
        raise Unavailable("the search_path has no schema in which tables can be created: set HEADGATE_SCHEMA")
    # IF NOT EXISTS would want the right to make a schema even where it is there.
    if not db.rows(IS_SCHEMA, schema=home):
        db.define(f"CREATE SCHEMA {home}")
    db.send(LOOK_THERE, home=home)


def _indexes(dialect: str) -> list[str]:
    return [text for text in migrations(dialect)[0].statements if re.match(r"CREATE (UNIQUE )?INDEX\b", text)]
