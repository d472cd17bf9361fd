"""Many tasks, put straight into the tables: copies of those that are there, each round a second after the last."""

import sqlite3
from contextlib import closing
from typing import Any

import psycopg

_ROUNDS = {
    "sqlite": """
    WITH RECURSIVE round(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM round WHERE number < {rounds})
    """,
    "postgres": "WITH round(number) AS (SELECT generate_series(1, {rounds}))",
}
_LATER = {
    "sqlite": "create_date + number * 1000000",
    "postgres": "create_date + number * interval '1 second'",
}
_ADVANCE_IDS = "SELECT setval(pg_get_serial_sequence('headgate_task', 'id'), (SELECT max(id) FROM headgate_task))"


def multiply(url: str, count: int, *, after: int = 0, analyze: bool = True) -> None:
    """Fill history with about `count` copies of its tasks above the id `after`, and then the live table of its own.

    What is being executed is not copied: there is but one of each. With `analyze`, PostgreSQL's planner
    knows of the copies.
    """
    dialect = "sqlite" if url.startswith("sqlite") else "postgres"
    with closing(_connected(url)) as connection:
        for table in ("headgate_task_his", "headgate_task"):
            _copy(connection, dialect, table, count, after)
        if dialect == "postgres":
            connection.execute(_ADVANCE_IDS)
        if dialect == "postgres" and analyze:
            connection.execute("VACUUM (ANALYZE) headgate_task")
            connection.execute("VACUUM (ANALYZE) headgate_task_his")
            connection.execute("CHECKPOINT")
        if dialect == "sqlite":
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _connected(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    return psycopg.connect(url, autocommit=True)


def _copy(connection: Any, dialect: str, table: str, count: int, after: int) -> None:
    which = f"id > {after} AND exec_id IS NULL"
    [[patterns]] = connection.execute(f"SELECT count(*) FROM {table} WHERE {which}").fetchall()
    if not patterns:
        return
    [[last]] = connection.execute(
        "SELECT max(id) FROM (SELECT id FROM headgate_task UNION ALL SELECT id FROM headgate_task_his) known"
    ).fetchall()
    described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description
    columns = [column[0] for column in described if column[0] != "id"]
    values = [_LATER[dialect] if name == "create_date" else name for name in columns]
    connection.execute(
        f"""
        {_ROUNDS[dialect].format(rounds=max(1, count // patterns))}
        INSERT INTO {table} (id, {", ".join(columns)})
        SELECT {last} + row_number() OVER (ORDER BY number, id), {", ".join(values)}
          FROM round CROSS JOIN {table} WHERE {which}
        """
    )
