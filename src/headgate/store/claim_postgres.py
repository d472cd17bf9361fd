"""The claim on PostgreSQL: lock first, read after, wait for nobody.

Under READ COMMITTED a statement's snapshot is older than the lock it takes, so a limit is locked in one statement and
what it limits is counted in a later one. Everything a claim locks it locks with SKIP LOCKED (or a try), so a claim
waits for nobody and closes no circle: what somebody else holds is `busy`, not empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.core.gates import EVERYTHING, Candidate, Choice, choose
from headgate.core.limits import Rate, next_token_at, take, tokens
from headgate.settings import new_ids
from headgate.store.catalog import VERSION, Catalog, Stream, refresh
from headgate.store.claims import (
    FIRST,
    LIVE_WORKER,
    Claimed,
    ClaimRequest,
    answered,
    ask_again,
    candidate_of,
    execution_of,
    first_share,
    keep_answer,
    require_live,
    take_rows,
)
from headgate.store.deferred import Deferred
from headgate.store.line import _SPACE, stripe
from headgate.store.memory import LOOK_AGAIN_SECONDS, Memory, Trail
from headgate.store.sql import Answer, Db, Statement

MOST_STREAMS = 300

LOCK_LANES = Statement(
    postgres="""
    SELECT name FROM lane WHERE name {in names text} AND capacity IS NOT NULL ORDER BY name
       FOR NO KEY UPDATE SKIP LOCKED
    """
)
LOCK_RESOURCES = Statement(
    postgres="SELECT name FROM resource WHERE name {in names text} ORDER BY name FOR NO KEY UPDATE SKIP LOCKED"
)
LOCK_RATES = Statement(
    postgres="SELECT name FROM rate_limit WHERE name {in names text} ORDER BY name FOR NO KEY UPDATE SKIP LOCKED"
)
LANES = Statement(postgres="SELECT name, capacity, paused FROM lane WHERE name {in names text}")
RESOURCES = Statement(postgres="SELECT name, capacity FROM resource WHERE name {in names text}")
RATES = Statement(
    postgres="""
    SELECT name, rate, burst, tat, extract(epoch FROM {now})::float8 FROM rate_limit WHERE name {in names text}
    """
)
# Those remembered, by primary key, and those claimed since: dead entries are not walked.
HELD_IN_LANE = Statement(
    postgres="""
    SELECT id, NULL, claim_no FROM task WHERE id {in ids} AND lane = :lane AND exec_id IS NOT NULL
    UNION
    SELECT id, NULL, claim_no FROM task
     WHERE lane = :lane AND claim_no > :newest AND status IN ('scheduling', 'running')
    """
)
USING = Statement(
    postgres="""
    SELECT id, uses, claim_no FROM task WHERE id {in ids} AND uses IS NOT NULL AND exec_id IS NOT NULL
    UNION
    SELECT id, uses, claim_no FROM task
     WHERE claim_no > :newest AND uses IS NOT NULL AND status IN ('scheduling', 'running')
    """
)


def _heads(creator: str, lock: str) -> Statement:
    return Statement(
        postgres=f"""
        SELECT h.priority, h.id, h.stream_id, h.mutex
          FROM unnest(:streams::bigint[], :priorities::bigint[], :ids::bigint[]) AS s(stream_id, priority, id)
          CROSS JOIN LATERAL (
               SELECT t.priority, t.id, t.stream_id, t.mutex FROM task t
                WHERE t.stream_id = s.stream_id AND t.status = 'queued' {creator}
                  AND (t.priority, t.id) > (s.priority, s.id)
                ORDER BY t.priority, t.id LIMIT :limit {lock}) h
        """
    )


# Where a limit is locked nobody else claims, so its heads need no lock of their own, and none is written in vain.
_LOCKED = "FOR NO KEY UPDATE SKIP LOCKED"
_HEADS = {
    (kind, locked): _heads(condition, _LOCKED if locked else "")
    for kind, condition in {
        "any": "",
        "creator": "AND t.creator <> 0 AND t.creator = :creator",
        "nobody": "AND t.creator = 0",
    }.items()
    for locked in (True, False)
}
TRY_STRIPES = Statement(
    postgres="SELECT s FROM unnest(:stripes::int[]) AS s WHERE pg_try_advisory_xact_lock(:space, s)"
)
CLAIM_NO = "(SELECT nextval('claim_no'))"  # one for all: its order among claims of a lane is what matters
_FREE = """
    (t.mutex IS NULL OR NOT EXISTS (
        SELECT 1 FROM task h WHERE h.tenant_id = t.tenant_id AND h.mutex = t.mutex
           AND h.status IN ('scheduling', 'running'))
    AND NOT EXISTS (
        SELECT 1 FROM task h WHERE h.tenant_id = t.tenant_id AND h.mutex = t.mutex AND h.status = 'waiting'
           AND coalesce(h.root_id, h.id) <> coalesce(t.root_id, t.id)))
"""


def _take(free: str, source: str) -> Statement:
    return Statement(
        postgres=f"""
        WITH {source} taken AS (
            UPDATE task t
               SET status = :after, exec_id = o.exec_id, uses = o.uses, attempt = t.attempt + 1,
                   worker_id = :worker_id, claim_no = {CLAIM_NO}, scheduling_time = {{now}},
                   started_at = CASE WHEN :after = 'running' THEN {{now}} END,
                   executing_deadline = {{now + coalesce(t.timeout_seconds, o.timeout)}}, update_date = {{now}},
                   seq = t.seq + 1
              FROM unnest(:id::bigint[], :exec_id::uuid[], :timeout::float8[], :uses::text[])
                   AS o(id, exec_id, timeout, uses)
             WHERE t.id = o.id AND t.status = :before {free}
            RETURNING t.id, t.exec_id::text, t.ext, t.attempt, t.executing_deadline, t.error_count, t.lost_count,
                   t.max_error_count, t.creator, t.parent_id, t.root_id, t.correlation_id, t.name, t.priority,
                   t.mutex, t.stream_id, t.status, t.tenant_id, t.seq
        ), noted AS (
            INSERT INTO task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id)
            SELECT id, tenant_id, seq, {{now}}, :kind, :before, status, :actor, exec_id::uuid FROM taken
        )
        SELECT * FROM taken
        """
    )


# What is locked already is updated at once; heads that were read without a lock are locked here, waiting for nobody.
TAKE_LOCKED = _take("", "")
TAKE = _take(
    f"AND {_FREE} AND t.id IN (SELECT id FROM mine)",
    f"""
    mine AS MATERIALIZED (
        SELECT id FROM task WHERE id = ANY(:id::bigint[]) AND status = :before ORDER BY id {_LOCKED}),
    """,
)
# A head another claimer is just looking at is left alone; if it is still a head when it is chosen, it goes back then.
SEND_BACK = Statement(
    postgres="""
    WITH mine AS MATERIALIZED (
        SELECT t.id FROM unnest(:tenants::bigint[], :mutexes::text[]) AS k(tenant_id, mutex)
          CROSS JOIN LATERAL (SELECT id FROM task t WHERE t.tenant_id = k.tenant_id AND t.mutex = k.mutex
                                 AND t.status = 'queued' ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) t
    ), changed AS (
        UPDATE task t SET status = 'blocked', update_date = {now}, seq = t.seq + 1
          FROM mine WHERE t.id = mine.id
        RETURNING t.id, t.tenant_id, t.seq
    )
    INSERT INTO task_event (task_id, tenant_id, seq, at, kind, before, after, actor)
    SELECT id, tenant_id, seq, {now}, 'sent_back', 'queued', 'blocked', :actor FROM changed
    """
)
SET_TAT = Statement("UPDATE rate_limit SET tat = :tat WHERE name = :name")


@dataclass(slots=True)
class _Look:
    """One claim's view: what it may visit, what it found there."""

    streams: list[Stream]
    lanes: list[str]
    resources: list[str]
    rates: list[str]
    limited: set[str]  # lanes believed to have a capacity
    room: dict[str, int] = field(default_factory=dict)
    buckets: dict[str, tuple[Rate, float]] = field(default_factory=dict)
    now: float = 0.0
    busy: bool = False


def claim(db: Db, catalog: Catalog, request: ClaimRequest, memory: Memory) -> Claimed | Deferred[Claimed]:
    """Take what every gate lets through, in order, and hand it to the worker."""
    alive, version = db.send(LIVE_WORKER, worker_id=request.worker_id), db.send(VERSION)
    look = _prepare(catalog, request, memory)
    answers = _ask_limits(db, look, memory)
    wanted = _ask_heads(db, catalog, request, look, memory, look.streams)
    require_live(alive.rows(), request.worker_id)
    if version.rows()[0][0] != catalog.version:
        memory.forget()
        refresh(db, catalog)
        look = _prepare(catalog, request, memory)
        answers = _ask_limits(db, look, memory)
        wanted = _ask_heads(db, catalog, request, look, memory, look.streams)
    if (before := answered(db, catalog, request)) is not None:
        return before
    _learn_limits(look, answers, memory)
    candidates = _learn_heads(db, catalog, request, look, memory, wanted)
    choice = choose(candidates, look.room, request.limit, memory.last_tenant)
    _learn_choice(catalog, look, candidates, choice, memory)
    if not choice.chosen:
        return Claimed([], look.busy)
    memory.last_tenant = choice.chosen[-1].tenant_id
    return _take_chosen(db, catalog, request, look, choice, memory)


def _prepare(catalog: Catalog, request: ClaimRequest, memory: Memory) -> _Look:
    """Which streams are worth a visit now."""
    now = memory.monotonic()
    if EVERYTHING in catalog.paused:
        return _Look([], [EVERYTHING], [], [], set())
    streams = []
    with memory.lock:
        for stream in memory.served(catalog, request):
            if stream.lane in catalog.paused:
                continue
            trail = memory.trails.setdefault(stream.id, Trail())
            if request.creator is None and now - trail.from_start_at >= LOOK_AGAIN_SECONDS:
                trail.floor, trail.empty, trail.from_start_at = FIRST, False, now
            if (not trail.empty or request.creator is not None) and now >= trail.shut_until:
                streams.append(stream)
    if len(streams) > MOST_STREAMS:
        streams = _rotate(streams, memory.last_tenant)
    kinds = {stream.type for stream in streams}
    lanes = {stream.lane for stream in streams}
    rates = {name.removeprefix("rate ") for s in streams for name in catalog.gates(s) if name.startswith("rate ")}
    return _Look(
        streams,
        [EVERYTHING, *sorted(lanes)],
        sorted({name for kind in kinds for name in catalog.type(kind).uses}),
        sorted(rates),
        lanes & catalog.limited,
    )


def _rotate(streams: list[Stream], last_tenant: int) -> list[Stream]:
    """Too many for one visit: one after the other of each tenant, beginning after the last one served."""
    turns: dict[int, int] = {}
    ranked = []
    for stream in streams:
        turn = turns[stream.tenant_id] = turns.get(stream.tenant_id, -1) + 1
        ranked.append(((turn, stream.tenant_id <= last_tenant, stream.tenant_id), stream))
    ranked.sort(key=lambda item: item[0])
    return [stream for _, stream in ranked[:MOST_STREAMS]]


def _ask_limits(db: Db, look: _Look, memory: Memory) -> dict[str, Answer]:
    """Lock the limits, then, in later statements, read them and count who holds them."""
    answers: dict[str, Answer] = {}
    if look.limited:
        answers["locked lanes"] = db.send(LOCK_LANES, names=sorted(look.limited))
    if look.resources:
        answers["locked resources"] = db.send(LOCK_RESOURCES, names=look.resources)
    if look.rates:
        answers["locked rates"] = db.send(LOCK_RATES, names=look.rates)
    answers["lanes"] = db.send(LANES, names=look.lanes)
    for name in look.limited:
        known = memory.holders(f"lane {name}")
        answers[f"held {name}"] = db.send(HELD_IN_LANE, lane=name, ids=known.ids, newest=known.newest)
    if look.resources:
        users = [memory.holders(f"resource {name}") for name in look.resources]
        ids = {task_id for known in users for task_id in known.ids}
        answers["resources"] = db.send(RESOURCES, names=look.resources)
        answers["using"] = db.send(USING, ids=list(ids), newest=min(known.newest for known in users))
    if look.rates:
        answers["rates"] = db.send(RATES, names=look.rates)
    return answers


def _learn_limits(look: _Look, answers: dict[str, Answer], memory: Memory) -> None:
    locked = {
        f"{kind} {name}"
        for kind, key in (("lane", "locked lanes"), ("resource", "locked resources"), ("rate", "locked rates"))
        if key in answers
        for (name,) in answers[key].rows()
    }
    lanes = {name: (capacity, paused) for name, capacity, paused in answers["lanes"].rows()}
    for name, (capacity, paused) in lanes.items():
        gate = f"lane {name}"
        if paused or lanes[EVERYTHING][1]:
            look.room[gate] = 0
        elif capacity is not None:
            held = {row[0]: row[2] for row in answers[f"held {name}"].rows()} if name in look.limited else {}
            _set_room(look, gate, gate in locked, capacity, held, memory)
    if look.resources:
        using = answers["using"].rows()
        for name, capacity in answers["resources"].rows():
            gate = f"resource {name}"
            held = {row[0]: row[2] for row in using if name in row[1].split(",")}
            _set_room(look, gate, gate in locked, capacity, held, memory)
    if look.rates:
        for name, rate, burst, tat, now in answers["rates"].rows():
            limit = Rate(rate, burst)
            look.now, look.buckets[name] = now, (limit, tat)
            _set_room(look, f"rate {name}", f"rate {name}" in locked, tokens(limit, tat, now), {}, memory)


def _set_room(look: _Look, gate: str, locked: bool, capacity: int, held: dict[int, int], memory: Memory) -> None:
    """What is left of a limit that is ours to give out; one that somebody else has locked is busy."""
    if locked:
        look.room[gate] = max(capacity - len(held), 0)
        memory.remember(gate, held)
    else:
        look.room[gate], look.busy = 0, True


_Wanted = list[tuple[list[Stream], int, Answer]]


def _ask_heads(
    db: Db, catalog: Catalog, request: ClaimRequest, look: _Look, memory: Memory, streams: Iterable[Stream]
) -> _Wanted:
    """Ask for the first few of each stream, from where it was left."""
    guarded: list[Stream] = []
    free: list[Stream] = []
    for stream in streams:
        gates = catalog.gates(stream)
        (guarded if len(gates) > 1 or stream.lane in look.limited else free).append(stream)
    share = first_share(request.limit, len(guarded) + len(free))
    wanted: _Wanted = []
    for group, locked in ((guarded, False), (free, True)):
        if group:
            wanted.append((group, share, _send_heads(db, request, memory, group, locked, share)))
    return wanted


def _send_heads(db: Db, request: ClaimRequest, memory: Memory, group: list[Stream], locked: bool, share: int) -> Answer:
    kind = {None: "any", 0: "nobody"}.get(request.creator, "creator")
    trails = [memory.trails.get(stream.id, Trail()) for stream in group]
    floors = [trail.floor if request.creator is None else FIRST for trail in trails]
    return db.send(
        _HEADS[kind, locked],
        streams=[stream.id for stream in group],
        priorities=[floor[0] for floor in floors],
        ids=[floor[1] for floor in floors],
        creator=request.creator,
        limit=share,
    )


def _learn_heads(
    db: Db, catalog: Catalog, request: ClaimRequest, look: _Look, memory: Memory, wanted: _Wanted
) -> list[Candidate]:
    """The heads that were found; streams that may hold something better are asked once more."""
    candidates: list[Candidate] = []
    while wanted:
        unread: dict[int, tuple[int, int]] = {}
        bare: list[Stream] = []
        for group, share, answer in wanted:
            counts: dict[int, int] = {}
            for row in answer.rows():
                candidates.append(candidate_of(row, catalog))
                counts[row[2]] = counts.get(row[2], 0) + 1
                unread[row[2]] = max(unread.get(row[2], FIRST), (row[0], row[1]))
            for stream in group:
                if counts.get(stream.id, 0) < share:
                    unread.pop(stream.id, None)
                    if not counts.get(stream.id):
                        bare.append(stream)
        asked = ask_again(catalog, candidates, unread, look.room, request)
        wanted = []
        for stream_id in asked:
            stream = catalog.streams[stream_id]
            memory.trails.setdefault(stream_id, Trail()).floor = unread[stream_id]
            locked = not (len(catalog.gates(stream)) > 1 or stream.lane in look.limited)
            share = first_share(request.limit, len(asked))
            wanted.append(([stream], share, _send_heads(db, request, memory, [stream], locked, share)))
        if bare and request.creator is None:
            _learn_bare(db, request, look, memory, bare)
    return candidates


def _learn_bare(db: Db, request: ClaimRequest, look: _Look, memory: Memory, bare: list[Stream]) -> None:
    """Where nothing was found there may be nothing, or all of it is just being claimed by somebody else."""
    rows = _send_heads(db, request, memory, bare, False, 1).rows()
    claimed = {row[2] for row in rows}
    look.busy = look.busy or bool(claimed)
    for stream in bare:
        memory.trails.setdefault(stream.id, Trail()).empty = stream.id not in claimed


def _learn_choice(catalog: Catalog, look: _Look, candidates: list[Candidate], choice: Choice, memory: Memory) -> None:
    """Remember how far each stream is read: up to the first head that was left, or all that was seen."""
    chosen = {candidate.id for candidate in choice.chosen}
    floors: dict[int, tuple[int, int]] = {}
    left: dict[int, tuple[int, int]] = {}
    for candidate in candidates:
        place, side = (candidate.priority, candidate.id), floors if candidate.id in chosen else left
        best = side.get(candidate.stream_id)
        if best is None or (place > best if side is floors else place < best):
            side[candidate.stream_id] = place
    monotonic = memory.monotonic()
    for stream_id in floors.keys() | left.keys():
        trail = memory.trails.setdefault(stream_id, Trail())
        if stream_id in left:
            priority, task_id = left[stream_id]
            trail.floor = (priority, task_id - 1)
        else:
            trail.floor = floors[stream_id]
    for name, (limit, tat) in look.buckets.items():
        if tokens(limit, tat, look.now) <= choice.taken.get(f"rate {name}", 0):
            after = take(limit, tat, look.now, choice.taken.get(f"rate {name}", 0))
            wait = next_token_at(limit, after, look.now) - look.now
            for stream in look.streams:
                if f"rate {name}" in catalog.gates(stream):
                    memory.trails[stream.id].shut_until = monotonic + wait


def _take_chosen(
    db: Db, catalog: Catalog, request: ClaimRequest, look: _Look, choice: Choice, memory: Memory
) -> Claimed | Deferred[Claimed]:
    keyed = [candidate for candidate in choice.chosen if candidate.mutex is not None]
    if keyed:
        stripes = {candidate.id: stripe((candidate.tenant_id, candidate.mutex or "")) for candidate in keyed}
        mine = {row[0] for row in db.rows(TRY_STRIPES, space=_SPACE, stripes=sorted(set(stripes.values())))}
        for candidate in [c for c in keyed if stripes[c.id] not in mine]:  # somebody moves in its line just now
            choice.drop(candidate)
            keyed.remove(candidate)
            look.busy = True
            memory.woken({candidate.stream_id: (candidate.priority, candidate.id)})
    if not choice.chosen:
        return Claimed([], look.busy)
    rows = take_rows(choice, new_ids(len(choice.chosen)), catalog)
    unlocked = any(len(c.gates) > 1 or catalog.streams[c.stream_id].lane in look.limited for c in choice.chosen)
    actor = f"worker:{request.worker_id}"
    taken = db.each(
        TAKE if keyed or unlocked else TAKE_LOCKED,
        ("id", "exec_id", "timeout", "uses"),
        rows,
        before="queued",
        after="scheduling" if request.confirm else "running",
        kind="scheduled" if request.confirm else "started",
        worker_id=request.worker_id, actor=actor,
    )  # fmt: skip
    if keyed:
        keys = sorted({(candidate.tenant_id, candidate.mutex or "") for candidate in keyed})
        db.send(SEND_BACK, tenants=[key[0] for key in keys], mutexes=[key[1] for key in keys], actor="system:line")
    for name, (limit, tat) in look.buckets.items():
        if count := choice.taken.get(f"rate {name}"):
            db.send(SET_TAT, name=name, tat=take(limit, tat, look.now, count))
    if request.claim_id is not None:
        keep_answer(db, request, [row[0] for row in taken.rows()])
    order = {candidate.id: place for place, candidate in enumerate(choice.chosen)}

    def finish() -> Claimed:
        found = sorted(taken.rows(), key=lambda row: order[row[0]])
        return Claimed([execution_of(row[:-2], catalog) for row in found], look.busy)

    return Deferred(finish)
