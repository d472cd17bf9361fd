"""This process's copy of types, limits, weights of tenants and streams."""

import difflib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headgate.core.errors import Unavailable, UnknownType
from headgate.core.limits import DEFAULT_KEY, MostNames, bucket_of
from headgate.core.pause import Pause, PauseKey, last_to_end
from headgate.core.starts import start_gate
from headgate.core.task import NewTask, Task, TaskType
from headgate.core.turns import Weights
from headgate.core.type_defaults import with_type_defaults
from headgate.store.catalog.pauses import ALL_PAUSES, pause_of
from headgate.store.catalog.streams import Stream, StreamKey, add_streams, stream_key
from headgate.store.catalog.type_rows import type_of
from headgate.store.catalog.version import REMOVALS, VERSION
from headgate.store.db.database import Database
from headgate.store.db.statement import Db, Statement, clock

RECENT_SECONDS = 1.0
GONE_SECONDS = 600.0  # how long a removed stream is remembered: no claim and no message takes that long
TRIES = 3
TYPES = Statement("SELECT code, name, category, config FROM headgate_task_metadata")
STREAMS = Statement(
    "SELECT id, tenant_id, lane, type, category, rate_key, agent_id FROM headgate_stream WHERE id > :after"
)
RATES = Statement("SELECT name, lifted, tenant_id IS NULL FROM headgate_rate_limit WHERE name <> :default_key")
LANES = Statement("SELECT name, capacity IS NOT NULL FROM headgate_lane")
WEIGHTS = Statement("SELECT tenant_id, weight FROM headgate_tenant_weight")


@dataclass(frozen=True, slots=True)
class _Known:
    """One version of the catalog: replaced as a whole, because other threads read it."""

    version: int = 0
    types: Mapping[str, TaskType] = field(default_factory=dict)
    streams: Mapping[int, Stream] = field(default_factory=dict)
    gone: Mapping[int, float] = field(default_factory=dict)  # of them, removed ones that what is under way may know
    ids: Mapping[StreamKey, int] = field(default_factory=dict)  # of the streams whose lane is there
    rates: frozenset[str] = frozenset()  # buckets that a start takes a token of
    keys: frozenset[str] = frozenset()  # rate limits that were set, for all tenants, if only to be lifted
    lanes: frozenset[str] = frozenset()
    limited: frozenset[str] = frozenset()  # lanes that have a capacity
    pauses: Mapping[PauseKey, Pause] = field(default_factory=dict)  # some of them may have ended
    held: frozenset[int] = frozenset()  # streams that a pause without an end holds
    weights: Weights = field(default_factory=dict)
    gates: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by stream, as they are asked for


class Catalog:
    """What is known about work before any of it is done; good as long as `version` stands."""

    def __init__(self, database: Database, monotonic: Callable[[], float], most_names: MostNames) -> None:
        self.most_names = most_names
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
    def pauses(self) -> Mapping[PauseKey, Pause]:
        return self._known.pauses

    @property
    def held(self) -> frozenset[int]:
        return self._known.held

    @property
    def weights(self) -> Weights:
        """Those of tenants that an operator set."""
        return self._known.weights

    def type(self, code: str) -> TaskType:
        """The type as it stands; one that was removed while tasks of it remain has no retries and no callback."""
        return self._known.types.get(code) or TaskType(code)

    def gates(self, stream: Stream) -> tuple[str, ...]:
        """Every limited thing a task of this stream takes one of; a lane without a capacity is unlimited room."""
        known = self._known
        gates = known.gates.get(stream.id)
        if gates is None:
            starts = [start_gate(stream.tenant_id, stream.agent_id)] if stream.agent_id else []
            kind = known.types.get(stream.type) or TaskType(stream.type)
            gates = known.gates[stream.id] = (
                f"lane {stream.lane}",
                *(f"resource {name}" for name in kind.uses),
                *(f"rate {name}" for name in self.buckets(stream)),
                *starts,
            )
        return gates

    def buckets(self, of: Stream | Task) -> list[str]:
        """The buckets that a start takes a token of each: a key that has no limit of its own has one per tenant."""
        known, key = self._known, f"key:{of.rate_key}"
        if key not in known.keys:
            key = bucket_of(of.tenant_id, of.rate_key or "")
        return [name for name in (f"lane:{of.lane}", f"type:{of.type}", key) if name in known.rates]

    def pause_of(self, db: Db, stream: Stream) -> Pause | None:
        """The pause that keeps a stream's tasks from starting now, the longest of them; None if there is none."""
        found = [self.pauses[key] for key in stream.pause_keys if key in self.pauses]
        now = clock(db) if any(pause.until for pause in found) else None
        return last_to_end([pause for pause in found if pause.until is None or now is None or pause.until > now])

    def refresh(self, db: Db) -> None:
        """Bring the copy up to date if anything was edited; never by a transaction that edits it itself."""
        if db.edits_catalog:
            raise AssertionError("the catalog must be read after the edit is committed, not before")
        [[version]] = db.rows(VERSION)
        while version != (before := self._known).version:
            known = _read(db, version, before, self._monotonic())
            with self._lock:  # never held during a query
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
            raise UnknownType.of("unknown-type", type=code, near=", ".join(near) or None)
        return types[code]

    def with_type_defaults(self, tasks: Iterable[NewTask]) -> list[NewTask]:
        """The new task with all that it leaves to its type."""
        types = self.recent().types
        return [with_type_defaults(new, types.get(new.type) or self.known_type(new.type)) for new in tasks]

    def make_streams(
        self, tasks: Iterable[NewTask], tries: int = TRIES, *, most_names: MostNames | None = None
    ) -> list[int]:
        """The ids of these tasks' streams. Makes those that are missing, in a transaction of its own: a stream must not
        go with a submit that fails. `Refused` if a tenant would have more than `most_names`."""
        tasks = list(tasks)
        ids, keys = self.ids, [stream_key(new) for new in tasks]
        missing = set(keys) - ids.keys()
        if not missing:
            return [ids[key] for key in keys]
        if not tries:
            raise Unavailable(
                "the store's streams are not those this process knows (was it restored?): restart this process"
            )
        self._database.write(lambda db: add_streams(db, sorted(missing), most_names))
        self.reload()
        return self.make_streams(
            tasks, tries - 1, most_names=most_names
        )  # what was just made may be removed, or its lane


def _read(db: Db, version: int, before: _Known, now: float) -> _Known:
    """The catalog as it stands; of its streams those behind the ones known before, unless some were removed."""
    types, rates, paused = db.send(TYPES), db.send(RATES, default_key=DEFAULT_KEY), db.send(ALL_PAUSES)
    weights = db.send(WEIGHTS)
    afresh = version // REMOVALS != before.version // REMOVALS
    streams = db.send(STREAMS, after=0 if afresh else max(before.streams, default=0))
    limited: dict[str, bool] = dict(db.rows(LANES))
    new = {row[0]: Stream(*row) for row in streams.rows()}
    gone = _gone(before, new, now) if afresh else before.gone
    known = {**({id: before.streams[id] for id in gone} if afresh else before.streams), **new}
    pauses = {pause.key: pause for pause in map(pause_of, paused.rows())}
    endless = {key for key, pause in pauses.items() if pause.until is None}
    return _Known(
        version,
        {code: type_of(code, name, category, config) for code, name, category, config in types.rows()},
        known,
        gone,
        _ids(_Known() if afresh else before, known, new, gone, limited.keys()),
        frozenset(name for name, lifted, _ in rates.rows() if not lifted),
        frozenset(name for name, _, shared in rates.rows() if shared),
        frozenset(limited),
        frozenset(name for name, has_capacity in limited.items() if has_capacity),
        pauses,
        frozenset(s.id for s in known.values() if not endless.isdisjoint(s.pause_keys)) if endless else frozenset(),
        dict(weights.rows()),
    )


def _gone(before: _Known, new: Collection[int], now: float) -> dict[int, float]:
    """The removed streams that are still remembered, and since when."""
    since = {id: before.gone.get(id, now) for id in before.streams if id not in new}
    return {id: at for id, at in since.items() if now - at < GONE_SECONDS}


def _ids(
    before: _Known, known: Mapping[int, Stream], new: Mapping[int, Stream], gone: Collection[int],
    lanes: Collection[str],
) -> dict[StreamKey, int]:  # fmt: skip
    """The ids by which tasks are submitted. One whose lane was removed is not among them: a submit makes the lane."""
    whole = len(before.ids) + len(before.gone) == len(before.streams) and before.lanes.issubset(lanes)
    streams = new if whole else {id: stream for id, stream in known.items() if id not in gone}
    added = {stream.key: stream.id for stream in streams.values() if stream.lane in lanes}
    return {**before.ids, **added} if whole else added
