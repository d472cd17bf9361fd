"""The limits of a claim on PostgreSQL: locked in one statement, counted in a later one."""

from dataclasses import dataclass, field

from headgate.core.choice import Choice
from headgate.core.holds import Asked
from headgate.core.limits import Rate, bounded, next_token_at, take, tokens
from headgate.core.starts import start_gate
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.agent_starts import LAST_STARTS, TRY_AGENT, number_of, room_of, waits_of
from headgate.store.claim.contract import LANES_AND_PAUSES, ActivePauses, ClaimRequest, lanes_and_pauses
from headgate.store.claim.cursors import LOOK_AGAIN_SECONDS, Cursors
from headgate.store.claim.holds import HOLDS, held_and_asked
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, PendingRows, Statement

LOCK_LANES = Statement(
    postgres="""
    SELECT name FROM headgate_lane WHERE name {in names text} AND capacity IS NOT NULL ORDER BY name
       FOR NO KEY UPDATE SKIP LOCKED
    """
)
LOCK_RESOURCES = Statement(
    postgres="SELECT name FROM headgate_resource WHERE name {in names text} ORDER BY name FOR NO KEY UPDATE SKIP LOCKED"
)
LOCK_RATES = Statement(
    postgres=(
        "SELECT name FROM headgate_rate_limit WHERE name {in names text} ORDER BY name FOR NO KEY UPDATE SKIP LOCKED"
    )
)
RESOURCES = Statement(postgres="SELECT name, capacity FROM headgate_resource WHERE name {in names text}")
RATES = Statement(
    postgres="""
    SELECT name, rate, burst, tat, extract(epoch FROM {now})::float8 FROM headgate_rate_limit WHERE name {in names text}
    """
)
# Remembered tasks by primary key, and tasks claimed since: dead entries are not walked. Ordered by claim_no, or a plan
# made while the table was empty walks the primary key.
HELD_IN_LANE = Statement(
    postgres=f"""
    SELECT id, NULL, claim_no FROM headgate_task WHERE id {{in ids}} AND lane = :lane AND exec_id IS NOT NULL
    UNION
    (SELECT id, NULL, claim_no FROM headgate_task
      WHERE lane = :lane AND claim_no > :newest AND status IN {HELD_STATES} ORDER BY claim_no)
    """
)
USING = Statement(
    postgres=f"""
    SELECT id, uses, claim_no FROM headgate_task WHERE id {{in ids}} AND uses IS NOT NULL AND exec_id IS NOT NULL
    UNION
    (SELECT id, uses, claim_no FROM headgate_task
      WHERE claim_no > :newest AND uses IS NOT NULL AND status IN {HELD_STATES} ORDER BY claim_no)
    """
)


# Counted from now, not from when the limit was read: starts are recorded a moment later, and no window of the record
# may hold more than the limit allows.
TAKE_TOKENS = Statement(
    postgres="""
    UPDATE headgate_rate_limit SET tat = greatest(tat, extract(epoch FROM {now})::float8) + :count::int / rate
     WHERE name = :name
    """
)
BOUND_TAT = Statement(postgres="UPDATE headgate_rate_limit SET tat = :tat WHERE name = :name AND tat > :tat")


@dataclass(slots=True)
class Limits:
    """What limits the streams of one claim: asked for, then learned."""

    lanes: list[str]
    limited: set[str]  # lanes believed to have a capacity
    resources: list[str]
    rates: list[str]
    agent_id: str  # the agent whose start queue guards some of the streams; empty: none
    starts: list[str]  # the gates of that queue
    start_seconds: float
    room: dict[str, int] = field(default_factory=dict)
    asked: Asked = field(default_factory=dict)  # by running handlers: they go before tasks that wait for a start
    pauses: ActivePauses = field(default_factory=dict)
    buckets: dict[str, tuple[Rate, float]] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)  # gates of the start queue that are shut, for how long
    now: float = 0.0
    busy: bool = False
    _answers: dict[str, PendingRows] = field(default_factory=dict)

    @classmethod
    def of(cls, catalog: Catalog, streams: list[Stream], request: ClaimRequest) -> "Limits":
        lanes = {stream.lane for stream in streams}
        gates = {gate.partition(" ")[::2] for stream in streams for gate in catalog.gates(stream)}
        named = {kind: sorted(name for other, name in gates if other == kind) for kind in ("resource", "rate")}
        assigned = [stream for stream in streams if stream.agent_id]  # all to the agent that asks
        return cls(
            sorted(lanes),
            lanes & catalog.limited,
            named["resource"],
            named["rate"],
            assigned[0].agent_id if assigned else "",
            sorted({start_gate(stream.tenant_id, stream.agent_id) for stream in assigned}),
            request.start_seconds,
        )

    def guards(self, stream: Stream, catalog: Catalog) -> bool:
        """Whether this claim has locked a limit of the stream: then no other claim takes from it now."""
        return stream.lane in self.limited or len(catalog.gates(stream)) > 1

    def ask(self, db: Db, cursors: Cursors) -> None:
        """Lock the limits, then, in later statements, read them and count who holds them."""
        answers = self._answers
        if self.limited:
            answers["locked lane"] = db.send(LOCK_LANES, names=sorted(self.limited))
        if self.resources:
            answers["locked resource"] = db.send(LOCK_RESOURCES, names=self.resources)
        if self.rates:
            answers["locked rate"] = db.send(LOCK_RATES, names=self.rates)
        if self.agent_id:
            answers["locked agent"] = db.send(TRY_AGENT, number=number_of(self.agent_id))
            answers["starts"] = db.send(LAST_STARTS, agent_id=self.agent_id)
        answers["lanes"] = db.send(LANES_AND_PAUSES, names=self.lanes)
        for name in self.limited:
            known = cursors.holders(f"lane {name}")
            answers[f"held {name}"] = db.send(HELD_IN_LANE, lane=name, ids=known.ids, newest=known.newest)
        if self.resources:
            users = [cursors.holders(f"resource {name}") for name in self.resources]
            ids = {task_id for known in users for task_id in known.ids}
            answers["resources"] = db.send(RESOURCES, names=self.resources)
            answers["holds"] = db.send(HOLDS, resources=self.resources)
            answers["using"] = db.send(USING, ids=list(ids), newest=min(known.newest for known in users))
        if self.rates:
            answers["rates"] = db.send(RATES, names=self.rates)

    def learn(self, db: Db, cursors: Cursors) -> None:
        """Read how much is left of each limit that this claim has locked; one locked by another claim is busy."""
        answers = self._answers
        locked = {
            f"{kind} {name}"
            for kind in ("lane", "resource", "rate")
            if f"locked {kind}" in answers
            for (name,) in answers[f"locked {kind}"].rows()
        }
        lanes, self.pauses = lanes_and_pauses(answers["lanes"].rows())
        for name, capacity in lanes.items():
            gate = f"lane {name}"
            if capacity is not None:
                held = {row[0]: row[2] for row in answers[f"held {name}"].rows()} if name in self.limited else {}
                self._set_room(gate, gate in locked, capacity, held, cursors)
        if self.resources:
            self._learn_resources(locked, cursors)
        for name, rate, burst, tat, now in answers["rates"].rows() if self.rates else ():
            limit = Rate(rate, burst)
            is_ours = f"rate {name}" in locked
            if is_ours and tat > (bound := bounded(limit, tat, now)):
                db.send(BOUND_TAT, name=name, tat=bound)
                tat = bound
            self.now, self.buckets[name] = now, (limit, tat)
            self._set_room(f"rate {name}", is_ours, tokens(limit, tat, now), {}, cursors)

        if self.agent_id:
            self._learn_starts()

    def _learn_resources(self, locked: set[str], cursors: Cursors) -> None:
        holding, self.asked = held_and_asked(self._answers["holds"].rows())
        for name, capacity in self._answers["resources"].rows():
            gate = f"resource {name}"
            users = {row[0]: row[2] for row in self._answers["using"].rows() if name in row[1].split(",")}
            self._set_room(gate, gate in locked, capacity - holding[gate], users, cursors)

    def _learn_starts(self) -> None:
        self.waits = waits_of(self.agent_id, self._answers["starts"].rows())
        self.room |= room_of(self.starts, self.waits, self.start_seconds)
        if not self._answers["locked agent"].rows()[0][0]:
            self.room |= dict.fromkeys(self.starts, 0)
            self.busy = True

    def _set_room(self, gate: str, locked: bool, capacity: int, held: dict[int, int], cursors: Cursors) -> None:
        if locked:
            self.room[gate] = max(capacity - len(held), 0)
            cursors.remember(gate, held)
            if held and len(held) >= capacity:  # nothing is held of a rate limit
                cursors.shut_for({gate: LOOK_AGAIN_SECONDS})
        else:
            self.room[gate], self.busy = 0, True

    def room_of(self, stream: Stream, catalog: Catalog, most: int) -> int:
        """How many tasks of the stream could start, `most` at most."""
        return min([most, *(self.room[gate] for gate in catalog.gates(stream) if gate in self.room)])

    def take_tokens(self, db: Db, choice: Choice) -> None:
        for name in self.buckets:
            if count := choice.taken.get(f"rate {name}"):
                db.send(TAKE_TOKENS, name=name, count=count)

    def shut_for(self, choice: Choice) -> dict[str, float]:
        """The buckets that are empty now and the starts that have to wait, by gate, and for how many seconds."""
        shut = {}
        for name, (limit, tat) in self.buckets.items():
            taken = choice.taken.get(f"rate {name}", 0)
            after = take(limit, tat, self.now, taken) if taken else tat
            if tokens(limit, after, self.now) == 0:
                shut[f"rate {name}"] = next_token_at(limit, after, self.now) - self.now
        return shut | self.waits
