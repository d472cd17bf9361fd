"""From tables without a prefix to those with it: once, for stores from before the baseline of the schema."""

from collections.abc import Sequence

from headgate.core.errors import Refused
from headgate.store.db.statement import Db, Statement

OLD_LEDGER = "migration"
_BEATING = Statement("SELECT count(*) FROM worker WHERE NOT lost AND lease_until > {now}")
# What is ours is what earlier steps named, what hangs on it (keys, checks, identities), and the days of the audit.
# A primary or unique key is renamed with its index, a constraint of a partition with its table's. Since PostgreSQL 18 a
# NOT NULL has a name, and one that LIKE copied has that of the table it comes from.
_RENAMES = Statement(
    postgres="""
    WITH ours AS (
        SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname {in names text}
           AND relkind IN ('r', 'p')
        UNION
        SELECT inhrelid FROM pg_inherits WHERE inhparent = 'task_event'::regclass
    ), found(place, command, name) AS (
        SELECT 1, format('TABLE %s RENAME CONSTRAINT %I', conrelid::regclass, conname),
               CASE contype WHEN 'n' THEN replace(conname, 'task_his_', 'task_') ELSE conname END
          FROM pg_constraint WHERE conrelid IN (SELECT oid FROM ours) AND contype NOT IN ('p', 'u') AND coninhcount = 0
        UNION ALL
        SELECT 2, format('INDEX %s RENAME', c.oid::regclass), c.relname
          FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE i.indrelid IN (SELECT oid FROM ours)
           AND (c.relname {in names text} OR c.relispartition
                OR EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = c.oid AND k.conrelid = i.indrelid))
        UNION ALL
        SELECT 3, format('SEQUENCE %s RENAME', c.oid::regclass), c.relname
          FROM pg_class c
         WHERE c.relkind = 'S'
           AND (c.relnamespace = current_schema()::regnamespace AND c.relname {in names text}
                OR EXISTS (SELECT FROM pg_depend d
                            WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
                              AND d.refobjid IN (SELECT oid FROM ours)))
        UNION ALL
        SELECT 4, format('TABLE %s RENAME', oid::regclass), relname FROM pg_class WHERE oid IN (SELECT oid FROM ours)
    )
    SELECT format('ALTER %s TO %I', command, 'headgate_' || name) FROM found ORDER BY place, command
    """
)
_NAMES = Statement(
    sqlite="SELECT type, name FROM sqlite_master WHERE name {in names text} AND type IN ('table', 'index')"
)
_FORGET = Statement("DELETE FROM headgate_migration")


def rename(db: Db, names: Sequence[str], indexes: Sequence[str]) -> None:
    """Give every relation the prefix. `names`: relations made before the prefix; `indexes`: SQL of today's indexes.

    `Refused` while a worker uses the store: an old program does not know the new names.
    """
    names = [*names, OLD_LEDGER]
    if db.dialect == "postgres":
        db.define("LOCK TABLE worker IN ACCESS EXCLUSIVE MODE")  # from here on no worker can sign on
    [[beating]] = db.rows(_BEATING)
    if beating:
        who = "a worker is" if beating == 1 else f"{beating} workers are"
        raise Refused(
            f"{who} running on this store, and its tables are about to be renamed: stop every process that uses it, "
            "then run `headgate migrate`; a killed process counts until its lease ends"
        )
    if db.dialect == "postgres":
        for (text,) in db.rows(_RENAMES, names=names):
            db.define(text)
    else:
        _rename_on_sqlite(db, names, indexes)
    db.send(_FORGET)


def _rename_on_sqlite(db: Db, names: Sequence[str], indexes: Sequence[str]) -> None:
    """An index cannot be renamed there: it is made anew."""
    found = db.rows(_NAMES, names=names)
    for kind, name in found:
        if kind == "index":
            db.define(f"DROP INDEX {name}")
    for kind, name in found:
        if kind == "table":
            db.define(f"ALTER TABLE {name} RENAME TO headgate_{name}")
    for text in indexes:
        db.define(text)
