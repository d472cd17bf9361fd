"""Statements: one text for both databases, or two side by side where they must differ.

Texts name their parameters `:like_this` and may use words that each database says in its own way:

    {now}            the time: the caller's clock if there is one, else the database's own
    {now + SECONDS}  that much later (`{now - SECONDS}`: earlier); a column may stand in the place of `now`
    {in ids}         is one of a list of numbers (`{in names text}`: of texts)
    {lock FOR …}     a lock on rows; SQLite, where one writes at a time, needs none
"""

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, Protocol

from headgate.store.wakeup.message import News

Row = tuple[Any, ...]
TOO_LARGE = "a number is larger than any that can be stored"
# The first key of our advisory locks: they hold for the whole database, and it may have another Headgate in it.
SPACE = "'headgate_task'::regclass::oid::int"
_NAME = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_LATER = re.compile(r"\{([\w.]+) ([+-]) ([^}]+)\}")
_LIST = re.compile(r"\{in (\w+)(?: (\w+))?\}")
_LOCK = re.compile(r"\{lock ([^}]+)\}")
_OURS = re.compile(r"(?<![\w.])headgate_[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Statement:
    """A text in both dialects; `Statement(text)` is the same in both but for the words above."""

    common: str = ""
    sqlite: str = ""
    postgres: str = ""
    order: tuple[str, ...] = field(init=False)  # of PostgreSQL's numbered parameters

    def __post_init__(self) -> None:
        sqlite = _with_times(self.sqlite or self.common, "CAST(({}) * 1000000 AS integer)")
        sqlite = _LIST.sub(r"IN (SELECT value FROM json_each(:\1))", sqlite).replace("{now}", ":now")
        sqlite = _LOCK.sub("", sqlite)
        # statement_timestamp, not clock_timestamp: an index can be asked for what is due by it.
        now = "coalesce(:now::timestamptz, statement_timestamp())"
        postgres = _with_times(self.postgres or self.common, "make_interval(secs => ({})::float8)")
        postgres = _LIST.sub(lambda m: f"= ANY(:{m[1]}::{m[2] or 'bigint'}[])", postgres).replace("{now}", now)
        postgres = _LOCK.sub(r"\1", postgres)
        order = tuple(dict.fromkeys(_NAME.findall(postgres)))
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "sqlite", sqlite)
        object.__setattr__(self, "postgres", _NAME.sub(lambda m: f"${order.index(m[1]) + 1}", postgres))


def _with_times(text: str, seconds: str) -> str:
    def later(found: re.Match[str]) -> str:
        time = "{now}" if found[1] == "now" else found[1]
        return f"({time} {found[2]} {seconds.format(found[3])})"

    return _LATER.sub(later, text)


def insert_rows(table: str, columns: Mapping[str, str], *, now: Sequence[str] = (), end: str = "") -> Statement:
    """An INSERT for `each` and `many` from columns and their types on PostgreSQL; those in `now` get the time."""
    names, times = ", ".join([*columns, *now]), "".join(", {now}" for _ in now)
    values = ", ".join(f":{name}" for name in columns)
    lists = ", ".join(f":{name}::{kind}[]" for name, kind in columns.items())
    return Statement(
        sqlite=f"INSERT INTO {table} ({names}) VALUES ({values}{times}) {end}",
        postgres=f"INSERT INTO {table} ({names}) SELECT o.*{times} FROM unnest({lists}) AS o {end}",
    )


@cache
def numbered(statement: Statement, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """SQLite's text with `?1`, `?2` … for `names`, so that rows are bound as they are, and behind them for the other
    parameters it has, which are returned."""
    others = tuple(dict.fromkeys(name for name in _NAME.findall(statement.sqlite) if name not in names))
    order = (*names, *others)
    return _NAME.sub(lambda m: f"?{order.index(m[1]) + 1}", statement.sqlite), others


@cache
def qualified(text: str, schema: str) -> str:
    """PostgreSQL's text with every relation of ours named in its schema, so that no search_path matters; "" is none."""
    return _OURS.sub(rf'"{schema}".\g<0>', text) if schema else text


@cache
def in_schema(statement: Statement, schema: str) -> Statement:
    """The statement with `qualified` names."""
    there = copy(statement)
    object.__setattr__(there, "postgres", qualified(statement.postgres, schema))
    return there


class PendingRows(Protocol):
    """What a statement gave; asking for it is what waits."""

    def rows(self) -> list[Row]: ...


class KnownRows:
    """An answer that is there already."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def rows(self) -> list[Row]:
        return self._rows


class Db(Protocol):
    """One transaction on one database."""

    edits_catalog: bool  # whether it has raised the catalog's version (`store/catalog/version.py`)

    @property
    def dialect(self) -> str: ...

    @property
    def one_writer(self) -> bool:
        """Whether what is read here stays true until the commit, because there is only one writer (SQLite)."""

    @property
    def schema(self) -> str:
        """The schema our tables are in; "" where the search_path says it, and on SQLite."""

    @property
    def now(self) -> Any:
        """The time, as this database keeps it; None where the database itself knows it."""

    @property
    def news(self) -> News:
        """What others are to hear of once this transaction is committed."""

    def send(self, statement: Statement, **parameters: Any) -> PendingRows:
        """Run a statement without waiting for its answer, where the database allows."""

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]: ...

    def each(self, statement: Statement, names: Sequence[str], rows: Sequence[Row], **common: Any) -> PendingRows:
        """Run a statement for every row: SQLite one by one, PostgreSQL once with a list per name."""

    def many(self, statement: Statement, names: Sequence[str], rows: Sequence[Row], **common: Any) -> int:
        """`each`, for statements that answer nothing; the last id it gave out (SQLite)."""

    def define(self, text: str) -> None:
        """Run DDL as it stands: its names mean what the transaction's search_path says."""

    def time(self, moment: datetime) -> Any:
        """A time as this database keeps it, for `each`."""

    def note(self, events: Callable[[], list[Row]], actor: str) -> None:
        """Write audit rows (task_id, tenant_id, seq, kind, before, after, exec_id, detail).

        Only where the statement that changed the tasks could not write them itself (SQLite).
        """


NOW = Statement("SELECT {now}")


def clock(db: Db) -> datetime:
    """The time by the database's clock, or the caller's if it brought one."""
    return moment(db.rows(NOW)[0][0])


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """How SQLite keeps a time."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment(value: int | datetime) -> datetime:
    """A time as either database gives it."""
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1_000_000, UTC)  # exact: a float still tells microseconds apart
    return value if value.tzinfo is UTC else value.astimezone(UTC)


def moment_or_none(value: int | datetime | None) -> datetime | None:
    return None if value is None else moment(value)


def array(values: Sequence[Any]) -> str:
    """A PostgreSQL array literal: several times as fast as letting the driver adapt a list."""
    count = len(values)
    kind = type(values[0]) if values else None
    if kind is str and None not in values:
        joined = "\0".join(values)
        if joined.count("\0") == count - 1:
            escaped = joined.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
            return '{"' + escaped + '"}'
    elif kind is int and None not in values:
        return "{" + ",".join(map(str, values)) + "}"
    elif kind is NoneType and values.count(None) == count:
        return "{" + ",".join(["NULL"] * count) + "}"
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, datetime):
        return '"' + value.isoformat() + '"'
    return str(value)
