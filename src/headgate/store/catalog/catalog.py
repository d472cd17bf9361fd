"""This process's copy of types, limits and streams."""

import difflib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headgate.core.errors import Unavailable, UnknownType
from headgate.core.starts import start_gate
from headgate.core.task import EVERYTHING, NewTask, TaskType, with_type_defaults
from headgate.store.catalog.streams import Stream, StreamKey, add_streams, stream_key
from headgate.store.catalog.type_rows import type_of
from headgate.store.catalog.version import VERSION
from headgate.store.db.database import Database
from headgate.store.db.statement import Db, Statement

RECENT_SECONDS = 1.0
TYPES = Statement("SELECT code, name, category, config FROM headgate_task_metadata")
STREAMS = Statement(
    "SELECT id, tenant_id, lane, type, category, rate_key, agent_id FROM headgate_stream WHERE id > :after"
)
RATE_NAMES = Statement("SELECT name FROM headgate_rate_limit")
LIMITED = Statement("SELECT name, capacity IS NOT NULL, paused FROM headgate_lane WHERE capacity IS NOT NULL OR paused")


@dataclass(frozen=True, slots=True)
class _Known:
    """What one version of the catalog says: put in place whole, for other threads are reading."""

    version: int = 0
    types: Mapping[str, TaskType] = field(default_factory=dict)
    streams: Mapping[int, Stream] = field(default_factory=dict)
    ids: Mapping[StreamKey, int] = field(default_factory=dict)
    rates: frozenset[str] = frozenset()
    limited: frozenset[str] = frozenset()  # lanes that have a capacity
    paused: frozenset[str] = frozenset()
    gates: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by stream, as they are asked for


class Catalog:
    """What is known about work before any of it is done; good as long as `version` stands."""

    def __init__(self, database: Database, monotonic: Callable[[], float]) -> None:
        self._known = _Known()
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._read_at = -1e18

    @property
    def version(self) -> int:
        return self._known.version

    @property
    def types(self) -> Mapping[str, TaskType]:
        return self._known.types

    @property
    def streams(self) -> Mapping[int, Stream]:
        return self._known.streams

    @property
    def ids(self) -> Mapping[StreamKey, int]:
        return self._known.ids

    @property
    def rates(self) -> frozenset[str]:
        return self._known.rates

    @property
    def limited(self) -> frozenset[str]:
        return self._known.limited

    @property
    def paused(self) -> frozenset[str]:
        return self._known.paused

    def type(self, code: str) -> TaskType:
        """The type as it stands; one that was removed while tasks of it remain has no retries and no callback."""
        return self._known.types.get(code) or TaskType(code)

    def gates(self, stream: Stream) -> tuple[str, ...]:
        """Every limited thing a task of this stream takes one of; a lane without a capacity is unlimited room."""
        known = self._known
        gates = known.gates.get(stream.id)
        if gates is None:
            rates = (f"lane:{stream.lane}", f"type:{stream.type}", f"key:{stream.rate_key}")
            starts = [start_gate(stream.tenant_id, stream.agent_id)] if stream.agent_id else []
            kind = known.types.get(stream.type) or TaskType(stream.type)
            gates = known.gates[stream.id] = (
                f"lane {stream.lane}",
                *(f"resource {name}" for name in kind.uses),
                *(f"rate {name}" for name in rates if name in known.rates),
                *starts,
            )
        return gates

    def pause_of(self, lane: str) -> str | None:
        """The pause that keeps a lane's tasks from starting, as a clause; None if there is none."""
        if EVERYTHING in self.paused:
            return "everything is paused"
        return f"lane {lane} is paused" if lane in self.paused else None

    def refresh(self, db: Db) -> None:
        """Bring the copy up to date if anything was edited; never by a transaction that edits it itself."""
        if db.edits_catalog:
            raise AssertionError("the catalog is read again once the edit is committed, not before")
        [[version]] = db.rows(VERSION)
        while version != (before := self._known).version:
            known = _read(db, version, before)
            with self._lock:  # which nobody keeps while the database is asked
                if self._known is before:
                    self._known = known

    def fresh(self, db: Db) -> "Catalog":
        """The catalog as it stands in this transaction."""
        self.refresh(db)
        self._read_at = self._monotonic()
        return self

    def reload(self) -> None:
        """The catalog as it stands now."""
        self._database.read(self.fresh)

    def recent(self) -> "Catalog":
        """A second old at most: good enough to take on work by."""
        if self._monotonic() - self._read_at >= RECENT_SECONDS:
            self.reload()
        return self

    def known_type(self, code: str) -> TaskType:
        """The type named, as far as is known; looks again before it raises `UnknownType`."""
        return self.recent().types.get(code) or self._database.read(lambda db: self.find_type(db, code))

    def find_type(self, db: Db, code: str) -> TaskType:
        """The type named, in this transaction; `UnknownType` if there is none."""
        if code not in self.types:
            self.refresh(db)
        types = self.types
        if code not in types:
            near = difflib.get_close_matches(code, types, n=3)
            raise UnknownType(f"no task type {code!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
        return types[code]

    def with_type_defaults(self, tasks: Iterable[NewTask]) -> list[NewTask]:
        """The new task with all that it leaves to its type."""
        types = self.recent().types
        return [with_type_defaults(new, types.get(new.type) or self.known_type(new.type)) for new in tasks]

    def make_streams(self, tasks: Iterable[NewTask]) -> list[int]:
        """The ids of these tasks' streams. Makes those that are missing, in a transaction of its own: a stream must not
        go with a submit that fails."""
        keys = [stream_key(new) for new in tasks]
        missing = set(keys) - self.ids.keys()
        if missing:
            self._database.write(lambda db: add_streams(db, sorted(missing)))
            self.reload()
        ids = self.ids
        if not ids.keys() >= missing:
            raise Unavailable("the store has other streams than this process knows: was it restored? Start again")
        return [ids[key] for key in keys]


def _read(db: Db, version: int, before: _Known) -> _Known:
    """The catalog as it stands; of its streams, which only ever grow, those behind the ones known before."""
    types, rates, limited = db.send(TYPES), db.send(RATE_NAMES), db.send(LIMITED)
    streams = db.send(STREAMS, after=max(before.streams, default=0))
    return _Known(
        version,
        {code: type_of(code, name, category, config) for code, name, category, config in types.rows()},
        {**before.streams, **{row[0]: Stream(*row) for row in streams.rows()}},
        {**before.ids, **{row[1:]: row[0] for row in streams.rows()}},
        frozenset(name for (name,) in rates.rows()),
        frozenset(name for name, has_capacity, _ in limited.rows() if has_capacity),
        frozenset(name for name, _, paused in limited.rows() if paused),
    )
