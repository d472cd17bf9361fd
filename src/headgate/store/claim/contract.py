"""What a claim asks for and answers, and what both databases' claims have in common."""

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from headgate.core.choice import Candidate, Choice, Order, choose
from headgate.core.errors import Invalid, WorkerLost
from headgate.core.holds import Asked
from headgate.core.machine import Event
from headgate.core.pause import PauseKey
from headgate.core.starts import START_SECONDS
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.core.turns import Turns
from headgate.core.usage import Usage
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.db.columns import CLAIMED
from headgate.store.db.database import Database
from headgate.store.db.deferred import Deferred
from headgate.store.db.statement import SPACE, Db, Row, Statement, moment


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Who asks for work, how much, and of which kind. None means any."""

    worker_id: int
    limit: int
    types: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    tenant_id: int | None = None
    creator: int | None = None
    agent_id: str | None = None  # an agent also gets the tasks assigned to it; no other executor does
    claim_id: str | None = None
    confirm: bool = False  # hand over as `scheduling`: the start is confirmed by `Executions.start`
    assigned: bool = False  # only what is assigned to the agent
    start_seconds: float = START_SECONDS  # between two starts of what is assigned to it
    ids: frozenset[int] | None = None  # only these tasks

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise Invalid("a claim must ask for at least one task")

    @property
    def skips_some(self) -> bool:
        """Whether it passes over tasks of the streams that it serves."""
        return self.creator is not None or self.ids is not None

    def serves(self, stream: Stream) -> bool:
        return (
            (self.types is None or stream.type in self.types)
            and (self.categories is None or stream.category in self.categories)
            and (self.tenant_id is None or stream.tenant_id == self.tenant_id)
            and (stream.agent_id == self.agent_id or (stream.agent_id == "" and not self.assigned))
        )


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed. `busy`: another claim is at work where there may be more, so ask again at once.

    `token_in`: seconds until a token is free for a task that may be waiting, or until it is time to look into streams
    that there were too many of to look into. `start_in`: seconds until the agent's
    start queue lets out the next task. None: nothing is known to wait.
    """

    executions: list[Execution]
    busy: bool = False
    token_in: float | None = None
    start_in: float | None = None
    submitted_at: list[datetime] = field(default_factory=list)  # of each that is handed over to be confirmed


class Outcome(NamedTuple):
    """How an execution ended; what it used of its machine, where that was measured; its last progress (JSON), if that
    is not written yet."""

    execution: Execution
    event: Event
    usage: Usage | None = None
    progress: str | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """What an executor is asked to do, as an answer to its reports."""

    cancel: bool = False
    pause: bool = False


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A task that was handed over may not start now: it is back in its queue."""

    reason: str


class Claims(ABC):
    """How executors get tasks, on either database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    @abstractmethod
    def turns(self) -> Turns:
        """Whose turn it is, as far as this process knows."""

    def take(self, request: ClaimRequest) -> Claimed:
        """Start what every gate lets through: tenants take turns, each by priority, then creation.

        At most one caller gets a task. Lanes, resources, rate limits and mutexes are never exceeded. `WorkerLost`
        if the worker was declared lost.
        """
        return self._database.write(lambda db: self.take_in(db, request))

    @abstractmethod
    def take_in(
        self, db: Db, request: ClaimRequest, allowed: Callable[[], int] | None = None
    ) -> Claimed | Deferred[Claimed]:
        """`take`, as part of a transaction.

        `allowed` says how many may be taken, once the transaction's first answers are there; the request's own limit is
        then what is expected, and only guides the first reading.
        """


# Hops over the ready index: streams that have nothing are not visited.
_READY_STREAMS = """
    WITH RECURSIVE hop(stream_id) AS (
        SELECT (SELECT t.stream_id FROM headgate_task t WHERE t.status = 'queued' AND t.stream_id > 0
                 ORDER BY t.stream_id LIMIT 1)
        UNION ALL
        SELECT (SELECT t.stream_id FROM headgate_task t WHERE t.status = 'queued' AND t.stream_id > h.stream_id
                 ORDER BY t.stream_id LIMIT 1)
          FROM hop h WHERE h.stream_id IS NOT NULL %s
    )
    SELECT stream_id FROM hop WHERE stream_id IS NOT NULL
"""
READY_STREAMS = Statement(_READY_STREAMS % "")
SOME_READY_STREAMS = Statement(sqlite=_READY_STREAMS % "LIMIT :most")
# The lanes asked for, then every pause that holds now, with its scope and the seconds that are left of it.
LANES_AND_PAUSES = Statement(
    sqlite="""
    SELECT name, capacity, NULL, NULL FROM headgate_lane WHERE name {in names text}
    UNION ALL
    SELECT name, NULL, scope, (until - {now}) / 1e6 FROM headgate_pause WHERE until IS NULL OR until > {now}
    """,
    postgres="""
    SELECT name, capacity, NULL, NULL FROM headgate_lane WHERE name {in names text}
    UNION ALL
    SELECT name, NULL, scope, extract(epoch FROM until - {now})::float8 FROM headgate_pause
     WHERE until IS NULL OR until > {now}
    """,
)
LIVE_WORKER = Statement(
    sqlite="SELECT 1 FROM headgate_worker WHERE id = :worker_id AND NOT lost",
    # A shared lock, so that the worker is not declared lost while it claims more.
    postgres=f"""
    SELECT pg_try_advisory_xact_lock_shared({SPACE}, -1)
      FROM headgate_worker WHERE id = :worker_id AND NOT lost FOR SHARE
    """,
)
ANSWERED = Statement(
    "SELECT task_ids, exec_ids FROM headgate_claim_answer WHERE worker_id = :worker_id AND claim_id = :claim_id"
)
# Written before the claim is made: the same claim_id at the same moment waits for the first one's answer.
BEGIN_ANSWER = Statement(
    """
    INSERT INTO headgate_claim_answer (worker_id, claim_id, task_ids, at) VALUES (:worker_id, :claim_id, '[]', {now})
    ON CONFLICT (worker_id, claim_id) DO NOTHING
    """
)
KEEP_ANSWER = Statement(
    """
    UPDATE headgate_claim_answer SET task_ids = :task_ids, exec_ids = :exec_ids, at = {now}
     WHERE worker_id = :worker_id AND claim_id = :claim_id
    """
)
STILL_HELD = Statement(
    f"""
    SELECT {", ".join(CLAIMED)} FROM headgate_task
     WHERE id {{in ids}} AND worker_id = :worker_id AND exec_id IS NOT NULL ORDER BY id
    """
)


ActivePauses = dict[PauseKey, float | None]  # how many seconds each will hold; None: it has no end


def lanes_and_pauses(rows: Sequence[Row]) -> tuple[dict[str, int | None], ActivePauses]:
    """The capacities of lanes, and what is paused."""
    lanes = {name: capacity for name, capacity, scope, _ in rows if scope is None}
    return lanes, {(scope, name): seconds for name, _, scope, seconds in rows if scope is not None}


def held_by(pauses: ActivePauses, streams: Sequence[Stream]) -> dict[int, float]:
    """The streams that pauses hold, and for how many seconds; infinity if one has no end."""
    held = {}
    for stream in streams if pauses else ():
        if left := [pauses[key] for key in stream.pause_keys if key in pauses]:
            held[stream.id] = max(math.inf if seconds is None else seconds for seconds in left)
    return held


def earlier_answer(db: Db, catalog: Catalog, request: ClaimRequest) -> Claimed | None:
    """What a claim with this claim_id was answered before, as far as it is still held."""
    if request.claim_id is None:
        return None
    db.send(BEGIN_ANSWER, worker_id=request.worker_id, claim_id=request.claim_id)
    [[task_ids, executions]] = db.rows(ANSWERED, worker_id=request.worker_id, claim_id=request.claim_id)
    ids = json.loads(task_ids)
    if not ids:
        return None
    held = [execution_of(row, catalog) for row in db.rows(STILL_HELD, ids=ids, worker_id=request.worker_id)]
    # A task that was taken back and handed over again, by another claim, is that one's to run.
    ours = None if executions is None else set(json.loads(executions))
    return Claimed([execution for execution in held if ours is None or execution.exec_id in ours])


def keep_answer(db: Db, request: ClaimRequest, taken: Sequence[tuple[int, str]]) -> None:
    """Remember an answer (ids and exec_ids), in case it gets lost on its way and the claim is repeated."""
    if request.claim_id is not None:
        task_ids, exec_ids = json.dumps([task_id for task_id, _ in taken]), json.dumps([own for _, own in taken])
        claim = {"worker_id": request.worker_id, "claim_id": request.claim_id}
        db.send(KEEP_ANSWER, **claim, task_ids=task_ids, exec_ids=exec_ids)


def require_live(found: list[Row], worker_id: int) -> None:
    if not found:
        raise WorkerLost.of("worker-lost", worker_id=worker_id)


_STATES = {state.value: state for state in State}  # half the time of asking the enumeration


def execution_of(row: Row, catalog: Catalog) -> Execution:
    """The execution a claimed row (`CLAIMED`) is."""
    *own, tenant_id, type_code, stream_id, exec_id, attempt, deadline, timeout, status = row
    stream = catalog.streams[stream_id]
    if timeout is None:
        timeout = catalog.type(type_code).timeout_seconds
    return Execution._make(
        (
            *own, tenant_id, type_code, stream.lane, stream.category,
            str(exec_id), attempt, moment(deadline), timeout, _STATES[status],
        )
    )  # fmt: skip


def take_rows(choice: Choice, exec_ids: Sequence[str], catalog: Catalog) -> list[Row]:
    """(id, exec_id, timeout, uses) of everything chosen, by id."""
    rows = []
    for candidate, exec_id in zip(choice.chosen, exec_ids, strict=False):
        kind = catalog.type(catalog.streams[candidate.stream_id].type)
        rows.append((candidate.id, exec_id, kind.timeout_seconds, ",".join(kind.uses) or None))
    return sorted(rows)


def candidate_of(row: Row, catalog: Catalog) -> Candidate:
    """A head of a stream (priority, id, stream_id, mutex), with the gates it must pass."""
    stream = catalog.streams[row[2]]
    return Candidate(row[0], row[1], row[2], stream.tenant_id, catalog.gates(stream), row[3])


FIRST = (-(1 << 63), 0)  # before every (priority, id)


def first_share(limit: int, streams: int) -> int:
    """How many heads to read of each stream at first: reading `limit` of each costs five times as much."""
    return limit if streams <= 1 else min(limit, max(4, 2 * limit // streams))


def has_room(gates: tuple[str, ...], room: Mapping[str, int]) -> bool:
    return all(room.get(gate, 1) > 0 for gate in gates)


def ask_again(
    catalog: Catalog,
    candidates: Sequence[Candidate],
    unread: Mapping[int, Order],
    room: Mapping[str, int],
    asked: Asked,
    limit: int,
    turns: Turns,
) -> list[int]:
    """The streams whose next heads, behind `unread`, might be chosen before or besides the current choice."""
    if not unread:
        return []
    choice = choose(candidates, room, limit, turns, catalog.weights, asked)
    chosen = set(choice.chosen)
    # A candidate that was left out, and not for a mutex, met a gate that also shuts out those behind it. One
    # exception is accepted: where a handler asked first, an older task behind a younger one could pass, but waits too.
    shut_out = {c.stream_id for c in candidates if c.mutex is None and c not in chosen}
    streams = []
    for stream_id, place in unread.items():
        if stream_id in shut_out:
            continue
        stream = catalog.streams[stream_id]
        gates = catalog.gates(stream)
        reached = choice.reached(stream.tenant_id, place)
        if reached is None or reached >= limit:
            continue
        limited = [gate for gate in gates if gate in room]
        taken = Counter(gate for c in choice.chosen[:reached] for gate in c.gates) if limited else {}
        if all(room[gate] > taken[gate] for gate in limited):
            streams.append(stream_id)
    return streams
