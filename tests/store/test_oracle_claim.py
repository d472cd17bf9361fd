"""What a claim takes from any population is what the gates call open, in the order of the choice (H6)."""

from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.choice import Candidate, choose
from headgate.core.gates import Bucket, CapacityLimit, Facts, Gate, Server, evaluate
from headgate.core.limits import Rate, take, tokens
from headgate.core.pause import EVERYTHING_PAUSED, Pause, PauseKey, PauseScope, keys_of
from headgate.core.starts import START_SECONDS, LastStart
from headgate.core.states import HELD, State
from headgate.core.task import NewTask, Task, TaskType
from headgate.core.turns import Turns
from headgate.store.claim.agent_starts import last_starts
from headgate.store.claim.contract import ClaimRequest
from headgate.store.db.statement import Statement
from headgate.store.store import Store
from tests.factories import Clock
from tests.store.driven import DATABASES, fresh

TYPES = {kind.code: kind for kind in (TaskType("free"), TaskType("one", uses=("r",)), TaskType("two", uses=("r", "s")))}
LANES = ("a", "b", "c")
AGENTS = ("a1", "a2")
PAUSES = [EVERYTHING_PAUSED, ("lane", "a"), ("type", "one"), ("tenant", "1"), ("tenant", "2"), ("key", "k")]


@dataclass(frozen=True)
class World:
    """A population, and the limits it lives under."""

    tasks: list[NewTask]
    capacities: dict[str, int | None]
    paused: frozenset[PauseKey]
    resources: dict[str, int]
    rates: dict[str, Rate | None]
    running: int  # how many may have started before
    holding: int  # how many of those may hold "r", if their type does not use it
    held: set[int]  # the places of those that are paused, as far as they can be
    passed: float  # seconds since those that run have started
    weights: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    limit: int
    filters: dict[str, Any] = field(default_factory=dict)
    confirm: bool = False

    def serves(self, task: Task) -> bool:
        types, creator, tenant_id = (self.filters.get(name) for name in ("types", "creator", "tenant_id"))
        return (
            (types is None or task.type in types)
            and creator in (None, task.creator)
            and tenant_id in (None, task.tenant_id)
            and task.agent_id in (None, self.filters.get("agent_id"))
        )


def make_world(random: Random, size: int, tenants: list[int]) -> World:
    """By plain chance: Hypothesis prefers small and uniform populations, where a claim cannot go wrong."""
    streams: list[dict[str, Any]] = [
        {
            "type": random.choice(sorted(TYPES)),
            "lane": random.choice(LANES),
            "tenant_id": random.choice(tenants),
            "rate_key": random.choice([None, None, "k"]),
            "agent_id": random.choice([None, None, None, *AGENTS]),
        }
        for _ in range(random.choice([1, 2, 5, 6, 7]))  # of few, each is longer than what a claim reads of it at first
    ]
    tasks = [
        NewTask(
            **random.choice(streams),
            priority=random.choice([5, 5, 5, 5, 5, 1, 9, -(1 << 63)]),
            mutex=random.choice([None, None, None, None, "m", "n"]),
            creator=random.choice([0, 0, 7]),
            delay_seconds=random.choice([None, None, None, None, None, 100.0]),
        )
        for _ in range(size)
    ]
    weights = {tenant: random.choice([0.5, 3.0]) for tenant in tenants if random.random() < 0.3}
    held = set(random.sample(range(size), random.randint(0, min(size, 4))))
    if random.choice([True, False]):  # the order alone decides
        return World(tasks, dict.fromkeys(LANES), frozenset(), {"r": 99, "s": 99}, {}, 0, 0, held, 0.0, weights)
    return World(
        tasks,
        {lane: random.choice([None, None, 20, 8, 3, 1, 0]) for lane in LANES},
        frozenset(random.choice([[], [], random.sample(PAUSES, 1), random.sample(PAUSES, 2)])),
        {"r": random.choice([99, 9, 4, 1, 0]), "s": random.choice([99, 2])},
        {
            name: random.choice([None, Rate(1.0, random.randint(1, 9)), Rate(1.0, random.randint(1, 9))])
            for name in ("key:k", "key:*")
            if random.random() < 0.4
        }
        | {name: Rate(1.0, random.randint(1, 9)) for name in ("lane:a", "type:free") if random.random() < 0.3},
        random.choice([0, 2, 6]),
        random.choice([0, 1, 3]),
        held,
        random.choice([0.0, 2.0, 5.0]),
        weights,
    )


def worlds(tenants: list[int], most: int = 45) -> st.SearchStrategy[World]:
    sizes = st.integers(0, most).map(lambda less: most - less)
    return st.builds(make_world, st.randoms(use_true_random=True), sizes, st.just(tenants))


wants = st.builds(
    Wanted,
    st.sampled_from([10, 20, 5, 2, 1, 100]),
    st.sampled_from(
        [
            {},
            {},
            {},
            {"types": frozenset({"free", "two"})},
            {"creator": 7},
            {"creator": 0},
            {"tenant_id": 1},
            {"agent_id": "a1"},
            {"agent_id": "a1"},
            {"agent_id": "a2", "creator": 7},
        ]
    ),
    st.booleans(),
)


@dataclass
class Brute:
    """Every gate of every task, reckoned from a plain list of tasks."""

    world: World
    clock: Clock
    tasks: dict[int, Task]
    tats: dict[str, float]
    starts: dict[tuple[int, str | None], LastStart]
    holding: set[int]  # tasks that hold "r"

    def gates(self, task: Task) -> list[Gate]:
        held = [other for other in self.tasks.values() if other.status in HELD]
        lane = CapacityLimit(
            task.lane,
            self.world.capacities[task.lane],
            tuple(other.id for other in held if other.lane == task.lane),
        )
        resources = [
            CapacityLimit(name, self.world.resources[name], tuple(t.id for t in held if name in self.uses(t)))
            for name in TYPES[task.type].uses
        ]
        buckets = [
            Bucket(name.removeprefix(f"tenant:{task.tenant_id} "), limit, self.tats[name])
            for name in self.rate_names(task)
            if (limit := self.limit(name)) is not None
        ]
        line = [other for other in self.tasks.values() if same_line(other, task)]
        holder = next((other.id for other in line if other.status in HELD), None)
        heads = [other.id for other in line if other.status is State.QUEUED and stream_of(other) == stream_of(task)]
        facts = Facts(
            lane, self.pauses(task), tuple(resources), tuple(buckets), holder, min(heads, default=None),
            servers=(Server("w"),), last_start=self.starts.get((task.tenant_id, task.agent_id)),
            held=(CapacityLimit("r"),) if task.id in self.holding else (),
        )  # fmt: skip
        return evaluate(task, facts, self.clock())

    def uses(self, task: Task) -> tuple[str, ...]:
        """What a running task has of resources."""
        return (*TYPES[task.type].uses, "r") if task.id in self.holding else TYPES[task.type].uses

    def limit(self, name: str) -> Rate | None:
        """What holds for a bucket: one that has a tenant is of a key that nobody limited."""
        return self.world.rates.get("key:*", Rate()) if name.startswith("tenant:") else self.world.rates.get(name)

    def rate_names(self, task: Task) -> list[str]:
        key = f"key:{task.rate_key}"
        shared = key in self.world.rates or task.rate_key is None
        names = (f"lane:{task.lane}", f"type:{task.type}", key if shared else f"tenant:{task.tenant_id} {key}")
        return [name for name in names if self.limit(name) is not None]

    def gate_names(self, task: Task) -> tuple[str, ...]:
        uses = TYPES[task.type].uses
        rates = [f"rate {name}" for name in self.rate_names(task)]
        starts = [] if task.agent_id is None else [f"start {task.tenant_id} {task.agent_id}"]
        return (f"lane {task.lane}", *(f"resource {name}" for name in uses), *rates, *starts)

    def pauses(self, task: Task) -> tuple[Pause, ...]:
        keys = set(keys_of(task.tenant_id, task.lane, task.type, task.rate_key)) & self.world.paused
        return tuple(Pause(PauseScope(scope), name, "", "", self.clock()) for scope, name in sorted(keys))

    def may_start(self, task: Task) -> bool:
        return task.status is State.QUEUED and all(gate.open for gate in self.gates(task))

    def start(self, task: Task) -> None:
        self.tasks[task.id] = replace(task, status=State.RUNNING)
        for name in self.rate_names(task):
            if (limit := self.limit(name)) is not None:
                self.tats[name] = take(limit, self.tats[name], self.clock().timestamp(), 1)
        self.starts[task.tenant_id, task.agent_id] = LastStart(self.clock(), START_SECONDS)

    def greedy(self, wanted: Wanted) -> list[int]:
        """One task after the other, each judged by what is left by those before it."""
        started: list[int] = []
        for task in sorted(self.tasks.values(), key=lambda task: (task.priority, task.id)):
            if len(started) < wanted.limit and wanted.serves(task) and self.may_start(task):
                self.start(task)
                started.append(task.id)
        return started

    def chosen(self, wanted: Wanted, turns: Turns) -> list[int]:
        """What `choose` makes of the whole population."""
        room = {f"lane {name}": n for name, n in self.world.capacities.items() if n is not None}
        room |= {f"resource {name}": n for name, n in self.world.resources.items()}
        for task in self.tasks.values():
            for gate in self.gate_names(task):
                if task.status in HELD and gate in room:
                    room[gate] -= 1
        room["resource r"] -= len(self.holding)
        now = self.clock().timestamp()
        for name, tat in self.tats.items():
            if (limit := self.limit(name)) is not None:
                room[f"rate {name}"] = tokens(limit, tat, now)
        for task in self.tasks.values():
            last = self.starts.get((task.tenant_id, task.agent_id))
            room[f"start {task.tenant_id} {task.agent_id}"] = 1 if not last or not last.holds_until(self.clock()) else 0
        candidates = [
            Candidate(task.priority, task.id, hash(stream_of(task)), task.tenant_id, self.gate_names(task), task.mutex)
            for task in self.tasks.values()
            if task.status is State.QUEUED and wanted.serves(task) and not self.pauses(task)
        ]
        return [c.id for c in choose(candidates, room, wanted.limit, turns, self.world.weights).chosen]


def stream_of(task: Task) -> tuple[object, ...]:
    return task.tenant_id, task.lane, task.type, task.rate_key, task.agent_id


def same_line(one: Task, other: Task) -> bool:
    return one.id != other.id and one.mutex is not None and (one.tenant_id, one.mutex) == (other.tenant_id, other.mutex)


def populate(store: Store, world: World, clock: Clock) -> int:
    """Let the world be so; the worker that runs what runs."""
    for kind in TYPES.values():
        store.types.put(kind)
    made = [made.id for made in store.tasks.submit_many(world.tasks)]
    for name, rate in world.rates.items():
        store.rate_limits.set(name, rate)
    for name, capacity in world.resources.items():
        store.resources.set(name, capacity)
    worker_id = store.workers.register("tester")
    for agent_id in AGENTS:
        store.workers.register(agent_id, agent_id=agent_id)
    if world.running:
        store.claims.take(ClaimRequest(worker_id, world.running, agent_id="a1"))
    hold(store, [task for task in store.tasks.find(limit=200).items if task.status is State.RUNNING][: world.holding])
    clock.advance(world.passed)
    for place in world.held:
        if place < len(made) and store.tasks.get(made[place]).status not in HELD:
            store.tasks.pause(made[place])
    for lane in world.capacities:
        store.lanes.set_capacity(lane, world.capacities[lane])
    for tenant_id, weight in world.weights.items():
        store.tenants.set_weight(tenant_id, weight)
    for scope, name in world.paused:
        store.pauses.set(PauseScope(scope), name)
    return worker_id


def hold(store: Store, tasks: list[Task]) -> None:
    """Let running tasks hold "r" as far as there is room."""
    for task in tasks:
        turn = store.holds.take(task.id, task.exec_id or "", "r", insist=True)
        if not turn.held:
            store.holds.release(task.id, task.exec_id or "", ["r"])


TATS = Statement("SELECT name, tat FROM headgate_rate_limit")


def brute(store: Store, world: World, clock: Clock) -> Brute:
    page = store.tasks.find(limit=200)
    assert page.next_cursor is None
    return Brute(
        world,
        clock,
        {task.id: task for task in page.items},
        dict(store.database.read(lambda db: db.rows(TATS))),
        {
            (tenant_id, agent_id): last
            for agent_id in AGENTS
            for tenant_id, last in store.database.read(partial(last_starts, agent_id=agent_id)).items()
        },
        {hold.task_id for hold in store.holds.uses()["r"].line},
    )


def open_to(store: Store, wanted: Wanted) -> set[int]:
    """What `why` calls open on every gate."""
    waiting = [task for task in store.tasks.find(limit=200).items if task.status in (State.QUEUED, State.BLOCKED)]
    return {task.id for task in waiting if wanted.serves(task) and all(gate.open for gate in store.tasks.why(task.id))}


def verdicts(gates: list[Gate]) -> list[tuple[str, bool]]:
    return sorted(
        (f"{gate.name} {gate.reason.split(':')[0]}" if ":" in gate.reason else gate.name, gate.open) for gate in gates
    )


def claim(store: Store, worker_id: int, wanted: Wanted) -> list[int]:
    request = ClaimRequest(worker_id, wanted.limit, confirm=wanted.confirm, **wanted.filters)
    return [execution.id for execution in store.claims.take(request).executions]


MODERATE = settings(
    max_examples=25,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("database", DATABASES)
@MODERATE
@given(world=worlds([0]), wanted=wants)
def test_a_claim_takes_one_by_one_what_every_gate_lets_through(postgres_url, database, world, wanted):
    """Spec: A4, E3, X3"""
    clock = Clock()
    with fresh(database, postgres_url, clock) as store:
        worker_id = populate(store, world, clock)
        oracle = brute(store, world, clock)
        expected = oracle.greedy(wanted)
        assert claim(store, worker_id, wanted) == expected


@pytest.mark.parametrize("database", DATABASES)
@MODERATE
@given(world=worlds([0, 1, 2]), wanted=wants)
def test_among_tenants_a_claim_takes_what_the_choice_over_all_of_them_is(postgres_url, database, world, wanted):
    """Spec: A4, B11, E3"""
    clock = Clock()
    with fresh(database, postgres_url, clock) as store:
        worker_id = populate(store, replace(world, running=0), clock)
        for _ in range(3):
            oracle = brute(store, world, clock)
            expected = oracle.chosen(wanted, store.claims.turns)
            assert claim(store, worker_id, wanted) == expected


@pytest.mark.parametrize("database", DATABASES)
@MODERATE
@given(world=worlds([0, 0, 1], 20), wanted=wants)
def test_what_why_calls_open_is_taken_and_nothing_else(postgres_url, database, world, wanted):
    """Spec: E3, X3, H6"""
    clock = Clock()
    with fresh(database, postgres_url, clock) as store:
        worker_id = populate(store, world, clock)
        oracle = brute(store, world, clock)
        for task in oracle.tasks.values():
            assert verdicts(store.tasks.why(task.id)) == verdicts(oracle.gates(task))
        before = open_to(store, wanted)
        while got := claim(store, worker_id, wanted):
            assert set(got) <= before
            after = open_to(store, wanted)
            assert len(got) == wanted.limit or not after
            before = after
        assert not before
