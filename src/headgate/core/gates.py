"""Every gate a task must pass to start, or to end: open or closed, and why. Behind `why` and the forecast.

`evaluate` explains one task; `choice.choose` picks from many what may start now. Both judge the same facts, so that
what is claimed is exactly what is explained as open.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from headgate.core.callbacks import SETTING
from headgate.core.family import Children
from headgate.core.limits import Rate, next_token_at, tokens
from headgate.core.pause import Pause, last_to_end
from headgate.core.reasons import Param, Params, text_of
from headgate.core.starts import LastStart
from headgate.core.states import FINAL, HELD, TIMED, State
from headgate.core.task import Task

ASKING_SECONDS = 30.0  # an agent that asked for work within this time is taken to have room


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of the start."""

    name: str
    open: bool
    code: str  # of the reason: one of `reasons.TEXTS`
    params: Params = field(default_factory=dict)
    until: datetime | None = None
    holders: tuple[int, ...] = ()

    @property
    def reason(self) -> str:
        """Why it is open or closed, in English."""
        return text_of(self.code, self.params)


@dataclass(frozen=True, slots=True)
class CapacityLimit:
    """A lane or a resource: how many tasks may hold it at once, and which do. `others` are holders not to be named.

    `ahead` are running handlers that asked for it before the task did, or was submitted.
    """

    name: str
    capacity: int | None = None
    holders: tuple[int, ...] = ()
    others: int = 0
    ahead: int = 0

    @property
    def running(self) -> int:
        return len(self.holders) + self.others

    @property
    def free(self) -> int | None:
        return None if self.capacity is None else max(self.capacity - self.running - self.ahead, 0)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A rate limit as it stands: `tat` in seconds since the epoch."""

    name: str
    limit: Rate
    tat: float = 0.0


@dataclass(frozen=True, slots=True)
class PendingCallback:
    """A callback that has not arrived: what came of the last attempt, and when the next is due; None: given up."""

    attempts: int
    host: str | None
    last: str
    due_at: datetime | None
    blocked: bool = False  # blocked by the policy
    rests_until: datetime | None = None  # its receiver rests after failures
    has_sender: bool = True  # whether a process that sends callbacks is alive


@dataclass(frozen=True, slots=True)
class Server:
    """A live worker or agent that serves the type, and how many of its slots are busy; an agent's slots are not known.

    An agent has room if it has asked for work lately, and was handed nothing since. `asked_seconds` None: not known.
    """

    name: str
    slots: int | None = None
    busy: int = 0
    stuck: bool = False  # it starts nothing more
    asked_seconds: float | None = None  # since an agent asked for work
    handed_since: bool = False

    @property
    def is_free(self) -> bool:
        if self.stuck:
            return False
        if self.slots is not None:
            return self.busy < self.slots
        return self.asked_seconds is None or (self.asked_seconds <= ASKING_SECONDS and not self.handed_since)


@dataclass(frozen=True, slots=True)
class Facts:
    """All that decides whether one task may start, or end."""

    lane: CapacityLimit
    pauses: tuple[Pause, ...] = ()  # that hold it
    resources: tuple[CapacityLimit, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    mutex_holder: int | None = None  # the task that holds the mutex
    mutex_ahead: int | None = None  # the task of the mutex that goes first
    servers: tuple[Server, ...] = ()
    in_slots: tuple[int, ...] = ()  # tasks that fill the servers' slots
    last_start: LastStart | None = None  # of the agent it is assigned to
    children: Children | None = None  # that it waits for
    open_child: int | None = None  # one of them
    callback: PendingCallback | None = None  # that tells of its end
    broker_queue: str | None = None  # that its message is in
    held: tuple[CapacityLimit, ...] = ()  # what its handler holds for a part of its run
    waited_for: tuple[CapacityLimit, ...] = ()  # what its handler waits to hold
    stuck: Mapping[int, str] = field(default_factory=dict)  # tasks whose handlers do not stop, and on which worker


def evaluate(task: Task, facts: Facts, now: datetime) -> list[Gate]:
    """Every gate of `task`, in the order a person would ask; it starts when all are open.

    Of one that has done its work, what it waits for before it ends.
    """
    if facts.children is not None:
        return [_state_gate(task), _children_gate(facts.children, facts.open_child)]
    if facts.callback is not None:
        return [_state_gate(task), _callback_gate(facts.callback)]
    gates = [
        _state_gate(task, facts),
        _time_gate(task, now),
        _pause_gate(task, facts),
        _capacity_gate("lane", facts.lane),
    ]
    gates += [_capacity_gate("resource", resource) for resource in facts.resources]
    gates += [Gate("hold", True, "holds", {"name": resource.name}, holders=(task.id,)) for resource in facts.held]
    gates += [_hold_gate(resource) for resource in facts.waited_for]
    if task.mutex is not None:
        gates.append(_mutex_gate(task, facts))
    gates += [_rate_gate(bucket, now) for bucket in facts.buckets]
    if task.agent_id is not None:
        gates.append(_start_gate(task.agent_id, facts.last_start, now))
    gates.append(_server_gate(task, facts))
    return [_with_stuck(gate, task, facts.stuck) for gate in gates]


def _with_stuck(gate: Gate, task: Task, stuck: Mapping[int, str]) -> Gate:
    """Add to a closed gate the handler behind it that does not stop."""
    behind = (task.id,) if gate.name == "state" else gate.holders
    found = next((holder for holder in behind if holder in stuck), None)
    if gate.open or found is None:
        return gate
    return replace(gate, params={**gate.params, "stuck": found, "stuck_worker": stuck[found]})


def _state_gate(task: Task, facts: Facts | None = None) -> Gate:
    params = {"status": str(task.status)}
    if facts is not None and facts.broker_queue is not None and task.scheduling_time is not None:
        since = task.scheduling_time.isoformat(timespec="seconds")
        return Gate("state", False, "in-broker", {"since": since, "queue": facts.broker_queue})
    if task.status in FINAL or task.status is State.DEAD:
        return Gate("state", False, "ended", params)
    if task.status in HELD or task.status in (State.WAITING, State.NOTIFYING):
        return Gate("state", False, "started", params)
    return Gate("state", True, "not-started", params)


def _children_gate(children: Children, open_child: int | None) -> Gate:
    params = {"ended": children.ended, "total": children.total}
    if open_child is None:
        return Gate("children", True, "children-ended", params)
    return Gate("children", False, "children-open", params | {"task_id": open_child}, holders=(open_child,))


def _callback_gate(callback: PendingCallback) -> Gate:
    params = {"host": callback.host, "attempts": callback.attempts, "last": callback.last}
    if callback.due_at is None:
        return Gate("callback", False, "callback-given-up", params)
    if not callback.has_sender:
        return Gate("callback", False, "callback-unsent")
    if callback.blocked:
        return Gate("callback", False, "callback-blocked", {"host": callback.host, "setting": SETTING})
    if callback.rests_until is not None:
        return Gate("callback", False, "callback-rests", params, until=max(callback.rests_until, callback.due_at))
    if callback.attempts == 0:
        return Gate("callback", False, "callback-due")
    return Gate("callback", False, "callback-failed", params, until=callback.due_at)


def _time_gate(task: Task, now: datetime) -> Gate:
    if task.start_time > now and task.status in (*TIMED, State.PAUSED):
        code = "retry-ahead" if task.status is State.RETRYING else "start-ahead"
        return Gate("time", False, code, until=task.start_time)
    return Gate("time", True, "time-come")


def _pause_gate(task: Task, facts: Facts) -> Gate:
    if task.status is State.PAUSED:
        return Gate("pause", False, "task-paused")
    if (pause := last_to_end(facts.pauses)) is not None:
        return Gate("pause", False, "paused", pause.params, until=pause.until)
    return Gate("pause", True, "not-paused")


def _capacity_gate(name: str, limit: CapacityLimit) -> Gate:
    params: dict[str, Param] = {"name": limit.name, "running": limit.running}
    if limit.capacity is None:
        return Gate(name, True, "no-limit", params)
    params |= {"capacity": limit.capacity, "others": limit.others}
    if limit.free == 0 and limit.running < limit.capacity:
        return Gate(name, False, "asked-first", params | {"ahead": limit.ahead})
    code = "full" if limit.free == 0 else "has-room"
    return Gate(name, limit.free != 0, code, params, holders=limit.holders)


def _hold_gate(limit: CapacityLimit) -> Gate:
    params: dict[str, Param] = {"name": limit.name, "running": limit.running, "capacity": limit.capacity}
    params |= {"others": limit.others, "ahead": limit.ahead, "task_id": next(iter(limit.holders), None)}
    return Gate("hold", False, "waits-to-hold", params, holders=limit.holders)


def _mutex_gate(task: Task, facts: Facts) -> Gate:
    params = {"mutex": task.mutex}
    if task.status in HELD:
        return Gate("mutex", True, "mutex-own", params, holders=(task.id,))
    for code, task_id in (("mutex-held", facts.mutex_holder), ("mutex-ahead", facts.mutex_ahead)):
        if task_id is not None:
            return Gate("mutex", False, code, params | {"task_id": task_id}, holders=(task_id,))
    return Gate("mutex", True, "mutex-free", params)


def _rate_gate(bucket: Bucket, now: datetime) -> Gate:
    moment = now.timestamp()
    free = tokens(bucket.limit, bucket.tat, moment)
    params: Params = {"name": bucket.name, "tokens": free, "burst": bucket.limit.burst, "rate": bucket.limit.rate}
    if free:
        return Gate("rate", True, "has-tokens", params)
    until = datetime.fromtimestamp(next_token_at(bucket.limit, bucket.tat, moment), UTC)
    return Gate("rate", False, "no-tokens", params, until=until)


def _start_gate(agent_id: str, last: LastStart | None, now: datetime) -> Gate:
    until = None if last is None else last.holds_until(now)
    if last is None or until is None:
        return Gate("start", True, "start-free", {"agent_id": agent_id})
    return Gate("start", False, "start-held", {"agent_id": agent_id, "seconds": last.seconds}, until=until)


def _server_gate(task: Task, facts: Facts) -> Gate:
    if any(server.is_free for server in facts.servers):
        return Gate("worker", True, "served", {"type": task.type, "servers": len(facts.servers)})
    if facts.servers:
        return _busy_gate(facts)
    if task.agent_id:
        return Gate("worker", False, "agent-away", {"agent_id": task.agent_id})
    return Gate("worker", False, "no-worker", {"type": task.type})


def _busy_gate(facts: Facts) -> Gate:
    agents = [server for server in facts.servers if server.slots is None and server.asked_seconds is not None]
    workers = [server for server in facts.servers if server not in agents]
    if not workers:
        return _agents_gate(agents, facts.in_slots)
    slots = sum(server.slots or server.busy for server in workers)
    busy = sum((server.slots or server.busy) if server.stuck else server.busy for server in workers)
    worker = workers[0].name if len(workers) == 1 else None
    params = {"busy": busy, "slots": slots, "worker": worker, "workers": len(workers), "agents": len(agents)}
    return Gate("worker", False, "workers-busy", params, holders=facts.in_slots)


def _agents_gate(agents: Sequence[Server], held: tuple[int, ...]) -> Gate:
    params: Params = {
        "agent": agents[0].name if len(agents) == 1 else None,
        "agents": len(agents),
        "busy": sum(agent.busy for agent in agents),
        "asked_seconds": min(agent.asked_seconds or 0.0 for agent in agents),
    }
    return Gate("worker", False, "agents-busy", params, holders=held)


def held_by_all_of(gates: Iterable[Gate], waiters: Collection[int]) -> Gate | None:
    """A gate before a task that is closed only by tasks that wait for that one to end. Of one that has started, what
    its handler waits to hold."""
    gates = list(gates)
    started = not all(gate.open for gate in gates if gate.name == "state")
    names = ("hold",) if started else ("lane", "resource", "mutex")
    for gate in gates:
        limited = gate.name in names and not gate.params.get("others")
        if limited and not gate.open and gate.holders and set(gate.holders) <= set(waiters):
            return gate
    return None
