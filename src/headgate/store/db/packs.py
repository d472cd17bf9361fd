"""What packs made in a store: the steps of their own tables, and what is made only once.

A pack's tables begin with `headgate_NAME_`, and its steps are files like the store's own. The ledger of packs is made
with the first of them; a program without packs does not look at it.
"""

from dataclasses import replace

from headgate.core.errors import Invalid, Unavailable
from headgate.store.db.migrate import (
    COLUMNS,
    LOCK,
    NO_TIME_LIMIT,
    NOT_OURS,
    Found,
    Migration,
    Steps,
    enter_schema,
    files_in,
    look,
    missing_steps,
    qualified_name,
)
from headgate.store.db.statement import Db, Statement

LEDGER = "headgate_pack_ledger"
_MADE_AT = {"sqlite": "integer", "postgres": "timestamptz"}
_TABLE = """CREATE TABLE headgate_pack_ledger (
    pack     text NOT NULL,
    item     text NOT NULL,
    checksum text NOT NULL, -- of a step; '' for what is made once
    made_at  {made_at} NOT NULL,
    PRIMARY KEY (pack, item)
);
"""
NOTE = Statement(
    "INSERT INTO headgate_pack_ledger (pack, item, checksum, made_at) VALUES (:pack, :item, :checksum, {now}) "
    "ON CONFLICT (pack, item) DO NOTHING"
)
ITEMS = Statement("SELECT item, checksum FROM headgate_pack_ledger WHERE pack = :pack ORDER BY item")


def plan_pack(db: Db, pack: str, package: str) -> list[Migration]:
    """The steps of a pack's tables still to take; `Unavailable` if they are not as this program knows them."""
    return _plan(db, pack, package, look(db))


def migrate_pack(db: Db, pack: str, package: str) -> list[Migration]:
    """Take every step still to take, in this transaction; those taken."""
    db.send(LOCK)
    found = look(db)
    steps = _plan(db, pack, package, found)
    if not steps:
        return []
    if db.dialect == "postgres":
        db.send(NO_TIME_LIMIT)
        enter_schema(db, found.home)
    for step in steps:
        for text in step.statements:
            db.define(text)
        if step.version:
            db.send(NOTE, pack=pack, item=step.name, checksum=step.checksum)
    return steps


def made_by(db: Db, pack: str) -> set[str]:
    """What a pack noted that it made."""
    return {item for item, _ in db.rows(ITEMS, pack=pack)}


def note_made(db: Db, pack: str, item: str) -> None:
    """Note that a pack made something that it is not to make again."""
    db.send(NOTE, pack=pack, item=item, checksum="")


def _plan(db: Db, pack: str, package: str, found: Found) -> list[Migration]:
    if not found.taken or found.old:
        raise Unavailable("the store's own schema is not up to date: run `headgate migrate` first")
    known = _steps(pack, package, db.dialect)
    if not db.rows(COLUMNS, ledger=qualified_name(db, LEDGER)):
        ledger = Migration(0, "the ledger of packs", _TABLE.format(made_at=_MADE_AT[db.dialect]))
        taken: Steps = {}
        missing = [ledger, *known]
    else:
        rows = db.rows(ITEMS, pack=pack)
        taken = {int(item.partition("/")[2][:4]): (item, checksum) for item, checksum in rows if checksum}
        missing = missing_steps(known, taken, f"pack {pack}")
    if not taken and (met := db.rows(NOT_OURS, names=[name for step in known for name in step.makes], home=found.home)):
        raise Unavailable(f"the database has a {met[0][0]} that pack {pack} did not make: rename it")
    return missing


def _steps(pack: str, package: str, dialect: str) -> tuple[Migration, ...]:
    files = files_in(package, dialect) if package else ()
    steps = tuple(replace(step, name=f"{pack}/{step.name}") for step in files)
    for step in steps:
        if step.version == 0:  # the ledger's own
            raise Invalid(f"pack {pack}: {step.name}: number the steps from 0001")
        for name in step.makes:
            if not name.startswith(f"headgate_{pack}_"):
                raise Invalid(f"pack {pack}: {step.name} creates {name}; its tables must begin with headgate_{pack}_")
    return steps
