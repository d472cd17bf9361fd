"""This process's copy of types, limits and streams."""

import difflib
import threading
from collections.abc import Callable, Iterable

from headgate.core.errors import UnknownType
from headgate.core.starts import start_gate
from headgate.core.task import NewTask, TaskType, with_type_defaults
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


class Catalog:
    """What is known about work before any of it is done; good as long as `version` stands."""

    def __init__(self, database: Database, monotonic: Callable[[], float]) -> None:
        self.version = 0
        self.types: dict[str, TaskType] = {}
        self.streams: dict[int, Stream] = {}
        self.ids: dict[StreamKey, int] = {}
        self.rates: frozenset[str] = frozenset()
        self.limited: frozenset[str] = frozenset()  # lanes that have a capacity
        self.paused: frozenset[str] = frozenset()
        self._gates: dict[int, tuple[str, ...]] = {}
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._read_at = -1e18

    def type(self, code: str) -> TaskType:
        """The type as it stands; one that was removed while tasks of it remain has no retries and no callback."""
        return self.types.get(code) or TaskType(code)

    def gates(self, stream: Stream) -> tuple[str, ...]:
        """Every limited thing a task of this stream takes one of; a lane without a capacity is unlimited room."""
        gates = self._gates  # this one, whatever an edit puts in its place meanwhile
        known = gates.get(stream.id)
        if known is None:
            rates = (f"lane:{stream.lane}", f"type:{stream.type}", f"key:{stream.rate_key}")
            starts = [start_gate(stream.tenant_id, stream.agent_id)] if stream.agent_id else []
            known = gates[stream.id] = (
                f"lane {stream.lane}",
                *(f"resource {name}" for name in self.type(stream.type).uses),
                *(f"rate {name}" for name in rates if name in self.rates),
                *starts,
            )
        return known

    def refresh(self, db: Db) -> None:
        """Bring the copy up to date if anything was edited."""
        [[version]] = db.rows(VERSION)
        if version == self.version:
            return
        types, rates, limited = db.send(TYPES), db.send(RATE_NAMES), db.send(LIMITED)
        streams = db.send(STREAMS, after=max(self.streams, default=0))
        self.types = {code: type_of(code, name, category, config) for code, name, category, config in types.rows()}
        self.rates = frozenset(name for (name,) in rates.rows())
        self.limited = frozenset(name for name, has_capacity, _ in limited.rows() if has_capacity)
        self.paused = frozenset(name for name, _, paused in limited.rows() if paused)
        # Put in place whole, and in this order: other threads are reading.
        new = streams.rows()
        self.streams = self.streams | {row[0]: Stream(*row) for row in new}
        self.ids = self.ids | {row[1:]: row[0] for row in new}
        self._gates = {}
        self.version = version

    def fresh(self, db: Db) -> "Catalog":
        """The catalog as it stands in this transaction."""
        with self._lock:
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
        if code not in self.types:
            near = difflib.get_close_matches(code, self.types, n=3)
            raise UnknownType(f"no task type {code!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
        return self.types[code]

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
        return [self.ids[key] for key in keys]
