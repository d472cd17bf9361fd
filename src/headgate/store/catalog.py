"""Types, lanes, resources, rate limits and streams: what is known about work before any of it is done."""

import difflib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headgate.core.errors import Invalid, NotFound, UnknownType
from headgate.core.family import CONTINUE
from headgate.core.gates import Bucket, Room
from headgate.core.kinds import changes_of, seconds_of
from headgate.core.limits import Rate
from headgate.core.retry import RetryPolicy, Strategy
from headgate.core.task import DEFAULT_PRIORITY, EVERYTHING, NewTask, TaskType, check_keys, check_lane, check_name
from headgate.store.audit import record_system
from headgate.store.sql import SPACE, Db, Statement
from headgate.store.starts import gate_of

MAX_CAPACITY = 1_000_000
SEALED = "sealed:"  # how a secret begins that may be stored
DEFAULT_RATE = Rate()


@dataclass(frozen=True, slots=True)
class Stream:
    """Tasks that meet the same gates; whether it may start something is judged once for all of them."""

    id: int
    tenant_id: int
    lane: str
    type: str
    category: str
    rate_key: str
    agent_id: str


StreamKey = tuple[int, str, str, str, str, str]


@dataclass(slots=True)
class Catalog:
    """A process's copy of types, limits and streams, good as long as `version` stands."""

    version: int = 0
    checked_at: float = -1.0
    types: dict[str, TaskType] = field(default_factory=dict)
    streams: dict[int, Stream] = field(default_factory=dict)
    ids: dict[StreamKey, int] = field(default_factory=dict)
    rates: frozenset[str] = frozenset()
    limited: frozenset[str] = frozenset()  # lanes that have a capacity
    paused: frozenset[str] = frozenset()
    _gates: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def type(self, code: str) -> TaskType:
        """The type as it stands; one that was removed while tasks of it remain has no retries and no callback."""
        return self.types.get(code) or TaskType(code)

    def gates(self, stream: Stream) -> tuple[str, ...]:
        """Every limited thing a task of this stream takes one of; a lane without a capacity is unlimited room."""
        gates = self._gates  # this one, whatever an edit puts in its place meanwhile
        known = gates.get(stream.id)
        if known is None:
            rates = (f"lane:{stream.lane}", f"type:{stream.type}", f"key:{stream.rate_key}")
            starts = [gate_of(stream.tenant_id, stream.agent_id)] if stream.agent_id else []
            known = gates[stream.id] = (
                f"lane {stream.lane}",
                *(f"resource {name}" for name in self.type(stream.type).uses),
                *(f"rate {name}" for name in rates if name in self.rates),
                *starts,
            )
        return known


VERSION = Statement("SELECT version FROM headgate_catalog WHERE one = 1")
BUMP = Statement("UPDATE headgate_catalog SET version = version + 1 WHERE one = 1")
TOUCH = Statement("UPDATE headgate_catalog SET version = version WHERE one = 1")
TYPES = Statement("SELECT code, name, category, config FROM headgate_task_metadata")
STREAMS = Statement(
    "SELECT id, tenant_id, lane, type, category, rate_key, agent_id FROM headgate_stream WHERE id > :after"
)
RATE_NAMES = Statement("SELECT name FROM headgate_rate_limit")
LIMITED = Statement("SELECT name, capacity IS NOT NULL, paused FROM headgate_lane WHERE capacity IS NOT NULL OR paused")


def refresh(db: Db, catalog: Catalog) -> None:
    """Bring the copy up to date if anything was edited."""
    [[version]] = db.rows(VERSION)
    if version == catalog.version:
        return
    types, rates, limited = db.send(TYPES), db.send(RATE_NAMES), db.send(LIMITED)
    streams = db.send(STREAMS, after=max(catalog.streams, default=0))
    catalog.types = {code: type_of(code, name, category, config) for code, name, category, config in types.rows()}
    catalog.rates = frozenset(name for (name,) in rates.rows())
    catalog.limited = frozenset(name for name, has_capacity, _ in limited.rows() if has_capacity)
    catalog.paused = frozenset(name for name, _, paused in limited.rows() if paused)
    # Put in place whole, and in this order: other threads are reading.
    new = streams.rows()
    catalog.streams = catalog.streams | {row[0]: Stream(*row) for row in new}
    catalog.ids = catalog.ids | {row[1:]: row[0] for row in new}
    catalog._gates = {}
    catalog.version = version


def touch(db: Db) -> None:
    """Write, and change nothing."""
    db.rows(TOUCH)


# Types

PUT_TYPE = Statement(
    """
    INSERT INTO headgate_task_metadata (code, name, category, config, edited, create_date, update_date)
    VALUES (:code, :name, :category, :config, :edited, {now}, {now})
    ON CONFLICT (code) DO UPDATE
       SET name = excluded.name, category = excluded.category, config = excluded.config, edited = excluded.edited,
           update_date = excluded.update_date
     WHERE (excluded.edited OR NOT headgate_task_metadata.edited)
       AND (headgate_task_metadata.name, headgate_task_metadata.category,
            headgate_task_metadata.config, headgate_task_metadata.edited)
        <> (excluded.name, excluded.category, excluded.config, excluded.edited)
    RETURNING code
    """
)
REMOVE_TYPE = Statement("DELETE FROM headgate_task_metadata WHERE code = :code RETURNING code")
ADD_LANE = Statement("INSERT INTO headgate_lane (name) VALUES (:name) ON CONFLICT (name) DO NOTHING")
ADD_RESOURCE = Statement(
    "INSERT INTO headgate_resource (name, capacity) VALUES (:name, 1) ON CONFLICT (name) DO NOTHING"
)
ADD_RATE = Statement(
    "INSERT INTO headgate_rate_limit (name, rate, burst) VALUES (:name, :rate, :burst) ON CONFLICT (name) DO NOTHING"
)


# There may be no row to lock yet: whoever else would add it waits here.
ONE_EDIT_AT_A_TIME = Statement(sqlite="SELECT 1", postgres=f"SELECT pg_advisory_xact_lock({SPACE}, -3)")
HOLD_TYPE = Statement(
    sqlite="SELECT code, name, category, config FROM headgate_task_metadata WHERE code = :code",
    postgres="SELECT code, name, category, config FROM headgate_task_metadata WHERE code = :code FOR NO KEY UPDATE",
)


def hold_type(db: Db, code: str) -> TaskType | None:
    """The type as it stands, nobody else's to edit until the commit; None if there is none."""
    db.send(ONE_EDIT_AT_A_TIME)
    rows = db.rows(HOLD_TYPE, code=code)
    return type_of(*rows[0]) if rows else None


def put_type(db: Db, kind: TaskType, *, before: TaskType | None, edited: bool, actor: str) -> None:
    """Add a type, or replace what it was `before`. A program's registration (`edited` False) never overwrites what a
    person edited."""
    check_keys(kind)
    sealed = kind.callback.get("security", {}).get("sk")
    if sealed is not None and not sealed.startswith(SEALED):
        raise Invalid("the sk of a callback is stored sealed")  # whoever gets here with an open one has made a mistake
    config = json.dumps(_config_of(kind))
    if db.rows(PUT_TYPE, code=kind.code, name=kind.name, category=kind.category, config=config, edited=edited):
        _record(db, "type_changed", actor, kind.code, changes_of(before, kind), by=kind.declared_by)
        db.send(BUMP)
    db.send(ADD_LANE, name=kind.lane)
    for name in kind.uses:
        db.send(ADD_RESOURCE, name=name)


def _record(db: Db, kind: str, actor: str, code: str, changes: dict[str, Any], by: str) -> None:
    told = {"type": code, "changes": changes} | ({"declared_by": by} if by else {})
    record_system(db, kind, actor, json.dumps(told, ensure_ascii=False))


SET_CONFIG = Statement("UPDATE headgate_task_metadata SET config = :config WHERE code = :code")


def swap_callback(db: Db, kind: TaskType, callback: dict[str, Any]) -> bool:
    """Give a type another callback, whoever edited it last; False if it is not as it was any more.

    What else is stored of it stays, in the words of whichever version wrote it.
    """
    rows = db.rows(HOLD_TYPE, code=kind.code)
    if not rows or type_of(*rows[0]) != kind:
        return False
    db.send(SET_CONFIG, code=kind.code, config=json.dumps(json.loads(rows[0][3]) | {"callback": callback}))
    db.send(BUMP)
    return True


def remove_type(db: Db, code: str, actor: str) -> None:
    before = hold_type(db, code)
    if before is None or not db.rows(REMOVE_TYPE, code=code):
        raise NotFound(f"no task type {code}")
    _record(db, "type_removed", actor, code, changes_of(before, None), by=before.declared_by)
    db.send(BUMP)


def known_type(db: Db, catalog: Catalog, code: str) -> TaskType:
    """The type named, looking again before saying that there is none."""
    if code not in catalog.types:
        refresh(db, catalog)
    if code not in catalog.types:
        near = difflib.get_close_matches(code, catalog.types, n=3)
        raise UnknownType(f"no task type {code!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
    return catalog.types[code]


def _config_of(kind: TaskType) -> dict[str, Any]:
    retry = kind.retry
    return {
        "lane": kind.lane,
        "uses": kind.uses,
        "retry_strategy": retry.strategy,
        "max_error_count": retry.retries,
        "retry_interval": retry.interval,
        "retry_sequence": retry.sequence,
        "initial_delay": retry.initial,
        "factor": retry.factor,
        "cap": retry.cap,
        "jitter": retry.jitter,
        "timeout": kind.timeout_seconds / 60,
        "need_manual": kind.need_manual,
        "unknown_errors": kind.unknown_errors,
        "callback": kind.callback,
        "on_child_failure": kind.on_child_failure,
        "priority": kind.priority,
        "mutex": kind.mutex,
        "rate_key": kind.rate_key,
        "unique_key": kind.unique_key,
        "defaults": kind.defaults,
        **({"declared_by": kind.declared_by} if kind.declared_by else {}),
    }


def type_of(code: str, name: str, category: str, config: str) -> TaskType:
    """A type as it is stored."""
    said = json.loads(config)
    retry = RetryPolicy(
        Strategy(said["retry_strategy"]),
        said["max_error_count"],
        interval=said["retry_interval"],
        sequence=tuple(said["retry_sequence"]),
        initial=said["initial_delay"],
        factor=said["factor"],
        cap=said["cap"],
        jitter=said["jitter"],
    )
    return TaskType(
        code,
        name,
        category,
        said["lane"],
        tuple(said["uses"]),
        retry,
        seconds_of(said["timeout"]),
        said["need_manual"],
        said["unknown_errors"],
        said["callback"],
        said.get("on_child_failure", CONTINUE),
        said.get("priority", DEFAULT_PRIORITY),
        said.get("mutex"),
        said.get("rate_key"),
        said.get("unique_key"),
        said.get("defaults", {}),
        said.get("declared_by", ""),
    )


# Streams

ADD_STREAM = Statement(
    """
    INSERT INTO headgate_stream (tenant_id, lane, type, category, rate_key, agent_id, digest)
    VALUES (:tenant_id, :lane, :type, :category, :rate_key, :agent_id, :digest) ON CONFLICT (digest) DO NOTHING
    """
)


def stream_key(new: NewTask, kind: TaskType) -> StreamKey:
    category = kind.category if new.category is None else new.category
    return (new.tenant_id, new.lane or kind.lane, new.type, category, new.rate_key or "", new.agent_id or "")


def add_streams(db: Db, keys: Iterable[StreamKey]) -> None:
    """Make streams, and the lanes and buckets they need, unless they are there."""
    db.send(BUMP)  # first: one after the other, so that ids are committed in their order and none is passed over
    for key in keys:
        _add_stream(db, key)


def _add_stream(db: Db, key: StreamKey) -> None:
    tenant_id, lane, type_code, category, rate_key, agent_id = key
    db.send(ADD_LANE, name=lane)
    if rate_key:
        db.send(ADD_RATE, name=f"key:{rate_key}", rate=DEFAULT_RATE.rate, burst=DEFAULT_RATE.burst)
    db.send(
        ADD_STREAM,
        tenant_id=tenant_id, lane=lane, type=type_code, category=category, rate_key=rate_key, agent_id=agent_id,
        digest=hashlib.sha256(json.dumps(key).encode()).hexdigest(),
    )  # fmt: skip


# Lanes, resources, rate limits. What an edit forbids must not start after it has returned: it waits for the claims that
# are under way, and those that come meanwhile are told that it is busy.

AWAIT_CLAIMS = Statement(sqlite="SELECT 1", postgres=f"SELECT pg_advisory_xact_lock({SPACE}, -1)")


def _announce(db: Db) -> None:
    db.send(BUMP)
    db.send(AWAIT_CLAIMS)


LANES = Statement("SELECT name, capacity, paused FROM headgate_lane WHERE name <> '*' ORDER BY name")
RESOURCES = Statement("SELECT name, capacity FROM headgate_resource ORDER BY name")
RATES = Statement("SELECT name, rate, burst, tat FROM headgate_rate_limit ORDER BY name")
SET_CAPACITY = Statement("UPDATE headgate_lane SET capacity = :capacity WHERE name = :name AND name <> '*'")
SET_PAUSED = Statement(
    "UPDATE headgate_lane SET paused = :paused WHERE name = :name AND paused <> :paused RETURNING name"
)
PUT_RESOURCE = Statement(
    """
    INSERT INTO headgate_resource (name, capacity) VALUES (:name, :capacity)
    ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity
    """
)
PUT_RATE = Statement(
    """
    INSERT INTO headgate_rate_limit (name, rate, burst) VALUES (:name, :rate, :burst)
    ON CONFLICT (name) DO UPDATE SET rate = excluded.rate, burst = excluded.burst
    """
)
REMOVE_RATE = Statement("DELETE FROM headgate_rate_limit WHERE name = :name RETURNING name")
IS_PAUSED = Statement("SELECT name FROM headgate_lane WHERE paused AND name {in names text}")


def set_capacity(db: Db, lane: str, capacity: int | None, actor: str) -> None:
    """How many tasks of the lane may run at once from now on; None is any number."""
    check_name("lane", lane)
    check_lane(lane)
    _check_capacity(capacity)
    db.send(ADD_LANE, name=lane)
    db.send(SET_CAPACITY, name=lane, capacity=capacity)
    record_system(db, "capacity_changed", actor, json.dumps({"lane": lane, "capacity": capacity}))
    _announce(db)


def set_paused(db: Db, scope: str | None, paused: bool, actor: str) -> bool:
    """Hold, or let go of, a lane, or of everything (None); False when it was so already."""
    lane = EVERYTHING if scope is None else scope
    check_name("lane", lane)
    db.send(ADD_LANE, name=lane)
    if not db.rows(SET_PAUSED, name=lane, paused=paused):
        return False
    record_system(db, "paused" if paused else "resumed", actor, json.dumps({"lane": lane}))
    _announce(db)
    return True


_RATED = ("lane:", "type:", "key:")  # what a rate limit's name begins with


def set_resource(db: Db, name: str, capacity: int, actor: str) -> None:
    """How many tasks may use the resource at once from now on."""
    check_name("resource", name)
    if name.startswith(_RATED):
        raise Invalid(f"{name} is the name of a rate limit, which has a rate and a burst; a resource has a plain name")
    _check_capacity(capacity)
    db.send(PUT_RESOURCE, name=name, capacity=capacity)
    record_system(db, "capacity_changed", actor, json.dumps({"resource": name, "capacity": capacity}))
    _announce(db)


def set_rate_limit(db: Db, name: str, limit: Rate | None, actor: str) -> None:
    """Limit the starts of a lane, a type or a key (`lane:NAME`, `type:CODE`, `key:NAME`); None lifts the limit."""
    check_name("rate limit", name)
    if not name.startswith(_RATED) or not name.partition(":")[2]:
        raise Invalid("a rate limit is named lane:NAME, type:CODE or key:NAME")
    if limit is None:
        if not db.rows(REMOVE_RATE, name=name):
            raise NotFound(f"no rate limit {name}")
    else:
        db.send(PUT_RATE, name=name, rate=limit.rate, burst=limit.burst)
    told = None if limit is None else {"rate": limit.rate, "burst": limit.burst}
    record_system(db, "rate_changed", actor, json.dumps({"name": name, "limit": told}))
    _announce(db)


def lanes(db: Db) -> list[Room]:
    return [Room(name, capacity, bool(paused)) for name, capacity, paused in db.rows(LANES)]


def resources(db: Db) -> list[Room]:
    return [Room(name, capacity) for name, capacity in db.rows(RESOURCES)]


def rate_limits(db: Db) -> list[Bucket]:
    return [Bucket(name, Rate(rate, burst), tat) for name, rate, burst, tat in db.rows(RATES)]


def everything_paused(db: Db) -> bool:
    return bool(db.rows(IS_PAUSED, names=[EVERYTHING]))


def _check_capacity(capacity: int | None) -> None:
    if capacity is None:
        return
    if type(capacity) is not int or not 0 <= capacity <= MAX_CAPACITY:
        raise Invalid(f"a capacity is a whole number from 0 to {MAX_CAPACITY}")
