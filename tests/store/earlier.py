"""A store as it was before its tables had a prefix, and what a database says of a schema."""

import re
import sqlite3
from contextlib import closing
from typing import Any

import psycopg

from headgate.store.db.migrate import earlier
from tests.app.connections import file_of, schema_of

_LEDGER = {
    "sqlite": """
    CREATE TABLE migration (version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
                            applied_at integer NOT NULL) STRICT
    """,
    "postgres": """
    CREATE TABLE migration (version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
                            applied_at timestamptz NOT NULL)
    """,
}
_DAYS = """
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'headgate_task_event'::regclass AND c.relname <> 'headgate_task_event_default'
"""
_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
INTERSECT
SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""


def connected(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(file_of(url), isolation_level=None)
    return psycopg.connect(url, autocommit=True)


def make_earlier(url: str, *, up_to: int = 9) -> None:
    """The schema as programs before the prefix made it, or left it after so many steps."""
    dialect = "sqlite" if url.startswith("sqlite") else "postgres"
    with closing(connected(url)) as connection:
        connection.execute("BEGIN")
        connection.execute(_LEDGER[dialect])
        for step in earlier(dialect)[:up_to]:
            for text in step.statements:
                connection.execute(text)
            applied = "0" if dialect == "sqlite" else "now()"
            connection.execute(
                f"INSERT INTO migration VALUES ({step.version}, '{step.name}', '{step.checksum}', {applied})"
            )
        connection.execute("COMMIT")


def copy_into_earlier(url: str, old: str) -> None:
    """Put what a store of today holds into one of before, as if an earlier program had written it.

    Tables and columns that came since are left out.
    """
    copy = _copy_file if url.startswith("sqlite") else _copy_schema
    with closing(connected(old)) as connection:
        connection.execute("BEGIN")
        copy(connection, url)
        connection.execute("COMMIT")


def _copy_file(connection: sqlite3.Connection, url: str) -> None:
    connection.execute("COMMIT")
    connection.execute("ATTACH ? AS today", [file_of(url)])
    connection.execute("BEGIN")
    names = [name for (name,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")]
    for name in names:
        if name != "migration" and not name.startswith("sqlite_"):
            columns = (
                "SELECT name FROM pragma_table_info(?, 'main') INTERSECT SELECT name FROM pragma_table_info(?, 'today')"
            )
            common = ", ".join(column for (column,) in connection.execute(columns, [name, f"headgate_{name}"]))
            connection.execute(f"DELETE FROM main.{name}")
            connection.execute(f"INSERT INTO main.{name} ({common}) SELECT {common} FROM today.headgate_{name}")
    connection.execute("DELETE FROM main.sqlite_sequence")
    connection.execute(
        "INSERT INTO main.sqlite_sequence SELECT substr(name, 10), seq FROM today.sqlite_sequence"
        " WHERE substr(name, 10) IN (SELECT name FROM main.sqlite_master)"
    )


def _copy_schema(connection: "psycopg.Connection[Any]", url: str) -> None:
    today = schema_of(url)
    with psycopg.connect(url) as there:
        days = there.execute(_DAYS).fetchall()
        numbers = there.execute(f"SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = '{today}'")
        counted = [(name, last) for name, last in numbers.fetchall() if last is not None]
    for name, bounds in days:
        connection.execute(f"CREATE TABLE {name.removeprefix('headgate_')} PARTITION OF task_event {bounds}")
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
    for (name,) in tables:
        if name != "migration" and not name.startswith("task_event_"):
            columns = connection.execute(_COLUMNS, [name, f"{today}.headgate_{name}"]).fetchall()
            common = ", ".join(column for (column,) in columns)
            connection.execute(f"DELETE FROM {name}")
            connection.execute(
                f"INSERT INTO {name} ({common}) OVERRIDING SYSTEM VALUE SELECT {common} FROM {today}.headgate_{name}"
            )
    for name, last in counted:
        if connection.execute("SELECT to_regclass(%s)", [name.removeprefix("headgate_")]).fetchone() != (None,):
            connection.execute(f"SELECT setval('{name.removeprefix('headgate_')}', {last})")


# What a database says of a schema


_RELATIONS = {
    "tables": """
    SELECT c.relname, c.relkind, c.reloptions, c.relispartition, pg_get_expr(c.relpartbound, c.oid),
           pg_get_partkeydef(c.oid), (SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = c.oid)
      FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
    """,
    "columns": """
    SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
           a.attstorage, a.attcompression, pg_get_expr(d.adbin, d.adrelid)
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
    """,
    "indexes": """
    SELECT c.relname, i.indrelid::regclass::text, i.indisunique, i.indisprimary, i.indisvalid,
           replace(pg_get_indexdef(c.oid), quote_ident(current_schema()) || '.', '')
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE c.relnamespace = current_schema()::regnamespace
    """,
    "constraints": """
    SELECT conname, contype, conrelid::regclass::text, pg_get_constraintdef(oid),
           nullif(conindid, 0)::regclass::text
      FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
    """,
    "sequences": """
    SELECT c.relname, format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmax, s.seqcycle,
           d.deptype, d.refobjid::regclass::text, d.refobjsubid
      FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
      LEFT JOIN pg_depend d ON d.objid = c.oid AND d.deptype IN ('a', 'i')
     WHERE c.relnamespace = current_schema()::regnamespace
    """,
    "types": "SELECT typname FROM pg_type WHERE typnamespace = current_schema()::regnamespace",
}


def dump(url: str) -> dict[str, list[Any]]:
    """All that can be said of the tables at `url`, whatever made them."""
    with closing(connected(url)) as connection:
        if url.startswith("sqlite"):
            return {
                "schema": sorted(
                    (kind, name, table, _plain(text))
                    for kind, name, table, text in connection.execute(
                        "SELECT type, name, tbl_name, sql FROM sqlite_master"
                    )
                )
            }
        return {kind: sorted(connection.execute(text), key=repr) for kind, text in _RELATIONS.items()}


def _plain(text: str | None) -> tuple[str, ...]:
    """A definition without its layout: SQLite keeps the text, and puts an added column behind the constraints."""
    if text is None:
        return ()
    text = re.sub(r"\s+", " ", text.replace('"', "")).replace("( ", "(").replace(" )", ")")
    head, _, body = text.partition("(")
    body, _, tail = body.rpartition(")")
    parts, depth = [""], 0
    for letter in body:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    parts = [part.strip() for part in parts]
    rules = [part for part in parts if part.startswith(("CHECK", "PRIMARY KEY", "UNIQUE"))]
    return head.strip(), *(part for part in parts if part not in rules), *sorted(rules), tail.strip()
