"""The engine once more, as plainly as it can be said: dicts, `decide`, `choose` and `rearrange`; no SQL, no speed.

Tasks, workers and executions go by plain numbers: the n-th task made, the n-th worker, (task, attempt).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headgate.core.choice import Candidate, choose
from headgate.core.errors import Invalid, NotFound, Refused, StaleExecution, WorkerLost
from headgate.core.family import Children, why_cancelled
from headgate.core.limits import Rate, take, tokens
from headgate.core.machine import (
    Adopted,
    CameForward,
    CancelRequested,
    ChildrenEnded,
    Due,
    Event,
    GivenBack,
    LeaseLost,
    Overdue,
    Prioritized,
    Rescheduled,
    Resumed,
    RetryAsked,
    Scheduled,
    SentBack,
    Started,
    decide,
)
from headgate.core.mutex import QueuePlace, rearrange
from headgate.core.pause import PauseKey, keys_of
from headgate.core.starts import START_SECONDS, LastStart
from headgate.core.states import FINAL, HELD, OPEN, TIMED, State
from headgate.core.task import NewTask, TaskType
from headgate.core.turns import Turns
from headgate.store.execution.revoke import MOST_UNCOUNTED

Handle = tuple[int, int]  # an execution: task, attempt

LOWEST = -(1 << 63)

COLUMNS = (
    "error_count", "lost_count", "error_info", "result", "remark", "priority", "cancel_requested", "pause_requested",
    "has_children", "gave_up", "skip_callback",
)  # fmt: skip


@dataclass
class Item:
    """A task."""

    id: int
    wish: NewTask
    lane: str
    start_time: datetime
    priority: int
    root_id: int | None
    status: State
    path: list[tuple[str, State | None, State]]
    error_count: int = 0
    lost_count: int = 0
    attempt: int = 0
    error_info: str | None = None
    result: str | None = None
    remark: str | None = None
    cancel_requested: bool = False
    pause_requested: bool = False
    has_children: bool = False
    gave_up: bool = False
    children_since: int = 0
    skip_callback: bool = False
    worker: int | None = None
    deadline: datetime | None = None
    held_since: datetime | None = None
    finished_at: datetime | None = None
    archived: bool = False

    @property
    def mutex(self) -> str | None:
        return self.wish.mutex

    @property
    def max_error_count(self) -> int | None:
        return self.wish.max_error_count

    @property
    def key(self) -> tuple[int, str, str | None]:
        return (self.wish.tenant_id, self.wish.type, self.wish.unique_key)

    @property
    def family(self) -> int:
        return self.root_id or self.id

    @property
    def stream(self) -> tuple[object, ...]:
        return (self.wish.tenant_id, self.lane, self.wish.type, self.wish.rate_key, self.wish.agent_id)

    def owned_by(self, handle: Handle) -> bool:
        return self.status in HELD and self.attempt == handle[1]


@dataclass
class Model:
    clock: Callable[[], datetime]
    types: Mapping[str, TaskType]
    tasks: dict[int, Item] = field(default_factory=dict)
    capacities: dict[str, int | None] = field(default_factory=dict)  # of lanes
    pauses: dict[PauseKey, datetime | None] = field(default_factory=dict)  # until when
    resources: dict[str, int] = field(default_factory=dict)
    rates: dict[str, Rate] = field(default_factory=dict)
    tats: dict[str, float] = field(default_factory=dict)
    starts: dict[str, LastStart] = field(default_factory=dict)  # of what is assigned, by agent and tenant
    lost: list[bool] = field(default_factory=list)  # by worker
    beaten: dict[int | None, datetime] = field(default_factory=dict)  # when each did last
    turns: Turns = field(default_factory=Turns)

    def set_capacity(self, lane: str, capacity: int | None) -> None:
        self.capacities[lane] = capacity

    def set_resource(self, name: str, capacity: int) -> None:
        self.resources[name] = capacity

    @property
    def paused(self) -> set[PauseKey]:
        return {key for key, until in self.pauses.items() if until is None or until > self.clock()}

    def start_pause(self, key: PauseKey, until: datetime | None) -> bool:
        if key in self.paused and until in (None, self.pauses[key]):
            return False
        self.pauses[key] = until
        return True

    def end_pause(self, key: PauseKey) -> bool:
        done = key in self.paused
        self.pauses.pop(key, None)
        return done

    def _is_paused(self, item: Item) -> bool:
        wish = item.wish
        return not self.paused.isdisjoint(keys_of(wish.tenant_id, item.lane, wish.type, wish.rate_key))

    # submitting

    def submit(self, wishes: Sequence[NewTask]) -> list[tuple[int, bool]]:
        parents = [self._parent(wish) for wish in wishes if wish.parent_id is not None]
        if any(parent.archived for parent in parents):
            raise Refused("it has ended")
        for parent in parents:
            decide(parent, Adopted(), self.types[parent.wish.type])
        for parent in parents:
            if not parent.has_children:
                self._happen(parent, Adopted())
        made = [self._make(wish) for wish in wishes]
        self._settle_lines()
        return made

    def _parent(self, wish: NewTask) -> Item:
        parent = self.tasks[wish.parent_id or 0]
        if parent.wish.tenant_id != wish.tenant_id:
            raise NotFound
        return parent

    def _make(self, wish: NewTask) -> tuple[int, bool]:
        if wish.unique_key is not None and (there := self._same_key((wish.tenant_id, wish.type, wish.unique_key))):
            return there.id, False
        start_time = self.clock() + timedelta(seconds=wish.delay_seconds or 0)
        root_id = None if wish.parent_id is None else self.tasks[wish.parent_id].family
        status = State.QUEUED if wish.mutex is None else State.BLOCKED
        if start_time > self.clock():
            status = State.PENDING
        number = len(self.tasks) + 1
        lane = wish.lane or self.types[wish.type].lane
        path: list[tuple[str, State | None, State]] = [("submitted", None, status)]
        priority = self.types[wish.type].priority if wish.priority is None else wish.priority
        self.tasks[number] = Item(number, wish, lane, start_time, priority, root_id, status, path)
        return number, True

    def _same_key(self, key: tuple[int, str, str | None]) -> Item | None:
        return next((item for item in self.tasks.values() if item.key == key and item.status in OPEN), None)

    # acting upon a task

    def act(self, number: int, event: Event) -> None:
        """What a person asks for: any event but a cancel, a resume or a retry."""
        item = self.tasks[number]
        if isinstance(event, Rescheduled) and event.start_time is not None:
            event = Rescheduled(event.start_time, due=event.start_time <= self.clock())
        self._happen(item, event)
        self._settle_lines()
        self._ended(item)

    def cancel(self, number: int) -> None:
        self.act(number, CancelRequested("no more"))
        if self.tasks[number].has_children:
            self._cancel_family(number, "its parent was cancelled")

    def _cancel_family(self, number: int, reason: str) -> None:
        page = self._unasked(number)
        for child in page:
            self._happen(child, CancelRequested(reason))
        self._settle_lines()
        for child in page:
            if child.has_children:
                self._cancel_family(child.id, reason)
        self.close_family(number)

    def _unasked(self, number: int) -> list[Item]:
        children = [item for item in self.tasks.values() if item.wish.parent_id == number]
        return [child for child in children if child.status in OPEN and not child.cancel_requested]

    def resume(self, number: int) -> None:
        self.act(number, Resumed(self.tasks[number].start_time <= self.clock()))

    def prioritize(self, number: int, priority: int | None) -> None:
        item = self.tasks[number]
        if priority is None and not item.archived:
            due = [
                other
                for other in self._in(State.QUEUED, State.BLOCKED)
                if (other.lane == item.lane and other.status is State.QUEUED)
                or (
                    item.mutex is not None
                    and (other.wish.tenant_id, other.mutex) == (item.wish.tenant_id, item.mutex)
                    and other.status is State.BLOCKED
                )
            ]
            lowest = min((other.priority for other in due), default=None)
            if lowest == LOWEST:
                raise Invalid
            priority = item.priority if lowest is None else min(item.priority, lowest - 1)
        self.act(number, Prioritized(priority or 0))

    def retry(self, number: int) -> tuple[int, bool] | None:
        """None, or the copy that was made of a final task."""
        item = self.tasks[number]
        if item.status in FINAL:
            copy = item.wish._replace(priority=item.priority, delay_seconds=None, parent_id=None, retry_of=number)
            return self.submit([copy])[0]
        if item.status is State.DEAD and item.wish.unique_key is not None and self._same_key(item.key):
            raise Refused
        self.act(number, RetryAsked())
        return None

    # executing

    def register(self) -> int:
        self.lost.append(False)
        self.beaten[len(self.lost) - 1] = self.clock()
        return len(self.lost) - 1

    def beat(self, worker: int) -> list[tuple[int, bool, bool]]:
        self._require_live(worker)
        self.beaten[worker] = self.clock()
        held = [item for item in self._in(*HELD) if item.worker == worker]
        return [
            (item.id, item.cancel_requested, item.pause_requested)
            for item in held
            if item.cancel_requested or item.pause_requested
        ]

    def claim(
        self,
        worker: int,
        limit: int,
        confirm: bool = False,
        types: Collection[str] | None = None,
        tenant_id: int | None = None,
        creator: int | None = None,
        agent_id: str | None = None,
    ) -> list[Handle]:
        self._require_live(worker)
        candidates = [
            self._candidate(item)
            for item in self._in(State.QUEUED)
            if (types is None or item.wish.type in types)
            and tenant_id in (None, item.wish.tenant_id)
            and creator in (None, item.wish.creator)
            and item.wish.agent_id in (None, agent_id)
            and not self._is_paused(item)
        ]
        choice = choose(candidates, self._room(), limit, self.turns)
        for candidate in choice.chosen:
            item = self.tasks[candidate.id]
            self._happen(item, Scheduled() if confirm else Started())
            item.attempt += 1
            item.worker, item.held_since, item.deadline = worker, self.clock(), self._deadline(item)
            if item.wish.agent_id is not None:
                self.starts[_start_queue(item)] = LastStart(self.clock(), START_SECONDS)
        self.turns.use(choice.turns_of(candidate.id for candidate in choice.chosen))
        for name, rate in self.rates.items():
            if count := choice.taken.get(f"rate {name}"):
                self.tats[name] = take(rate, self.tats.get(name, 0.0), self.clock().timestamp(), count)
        self._settle_lines()
        return [(candidate.id, self.tasks[candidate.id].attempt) for candidate in choice.chosen]

    def _candidate(self, item: Item) -> Candidate:
        rates = (f"lane:{item.lane}", f"type:{item.wish.type}", f"key:{item.wish.rate_key}")
        uses = self.types[item.wish.type].uses
        gates = (f"lane {item.lane}", *(f"resource {n}" for n in uses), *(f"rate {n}" for n in rates))
        gates += () if item.wish.agent_id is None else (_start_queue(item),)
        return Candidate(item.priority, item.id, hash(item.stream), item.wish.tenant_id, gates, item.mutex)

    def _room(self) -> dict[str, int]:
        held = self._in(*HELD)
        room = {f"resource {name}": capacity for name, capacity in self.resources.items()}
        room |= {f"lane {name}": capacity for name, capacity in self.capacities.items() if capacity is not None}
        for item in held:
            for gate in (f"lane {item.lane}", *(f"resource {name}" for name in self.types[item.wish.type].uses)):
                if gate in room:
                    room[gate] -= 1
        for item in self._in(State.QUEUED):
            if item.wish.agent_id is not None:
                last = self.starts.get(_start_queue(item))
                room[_start_queue(item)] = 1 if last is None or last.holds_until(self.clock()) is None else 0
        now = self.clock().timestamp()
        room |= {f"rate {name}": tokens(rate, self.tats.get(name, 0.0), now) for name, rate in self.rates.items()}
        return room

    def _deadline(self, item: Item) -> datetime:
        return self.clock() + timedelta(seconds=self.types[item.wish.type].timeout_seconds)

    def try_start(self, handle: Handle) -> bool:
        item = self.tasks[handle[0]]
        if item.status is not State.SCHEDULING or not item.owned_by(handle):
            return False
        if self._is_paused(item):
            self._take_away([item], GivenBack())
            return False
        self._happen(item, Started())
        item.deadline = self._deadline(item)
        return True

    def settle(self, outcomes: Sequence[tuple[Handle, Event]]) -> list[State | None]:
        done: list[State | None] = []
        for handle, event in outcomes:
            item = self.tasks[handle[0]]
            owned = item.owned_by(handle)
            if owned:
                self._happen(item, event)
            done.append(item.status if owned else None)
        self._settle_lines()
        families = []
        for ((number, _), _), after in zip(outcomes, done, strict=True):
            if after is State.WAITING:
                families.append(number)
            elif after is not None and after not in OPEN:
                families.append(self.tasks[number].wish.parent_id or 0)
        for number in dict.fromkeys(families):
            self._look_after_family(number)
        return done

    def progress(self, handle: Handle) -> tuple[bool, bool]:
        item = self.tasks[handle[0]]
        if not item.owned_by(handle):
            raise StaleExecution
        return item.cancel_requested, item.pause_requested

    def give_back(self, handle: Handle) -> None:
        item = self.tasks[handle[0]]
        if not item.owned_by(handle):
            raise StaleExecution
        self._take_away([item], GivenBack())

    # duties

    def bring_due(self, limit: int) -> int:
        due = [item for item in self._in(*TIMED) if item.start_time <= self.clock()]
        due = sorted(due, key=lambda item: (item.start_time, item.id))[:limit]
        for item in due:
            self._happen(item, Due())
        self._settle_lines()
        return len(due)

    def mark_lost(self, worker: int) -> bool:
        before, self.lost[worker] = self.lost[worker], True
        return not before

    def rescue(self, worker: int) -> set[int]:
        held = [item for item in self._in(*HELD) if item.worker == worker]
        losses = {item.id: sum(kind == "lease_lost" for kind, *_ in item.path) for item in held}
        counted = [item for item in held if len(held) == 1 or losses[item.id] >= MOST_UNCOUNTED]
        beside = [item for item in held if item not in counted]
        return self._take_away(beside, LeaseLost(alone=False)) | self._take_away(counted, LeaseLost())

    def end_overdue(self, mutex_seconds: float) -> set[int]:
        now = self.clock()
        late = [
            item
            for item in self._in(State.RUNNING)
            if item.deadline and item.deadline < now and self.beaten[item.worker] > item.deadline
        ]
        ended = self._take_away(late, Overdue())
        since = now - timedelta(seconds=mutex_seconds)
        hogs = [
            item
            for item in self._in(*HELD, State.WAITING)
            if item.mutex is not None and item.held_since is not None and item.held_since < since
            if item.status in HELD or not (item.cancel_requested or item.gave_up)
        ]
        return ended | self._take_away(hogs, Overdue(f"it held its mutex for more than {mutex_seconds:g} s"))

    def archive(self, limit: int) -> int:
        done = [item for item in self._in(*FINAL) if not item.archived and not self._parent_is_open(item)]
        done = sorted(done, key=lambda item: (str(item.finished_at), item.id))[:limit]
        for item in done:
            item.archived = True
        return len(done)

    def _parent_is_open(self, item: Item) -> bool:
        return item.wish.parent_id is not None and self.tasks[item.wish.parent_id].status in OPEN

    def close_family(self, number: int) -> bool:
        parent, children = self.tasks[number], self._children(number)
        if parent.status is not State.WAITING or any(child.status in OPEN for child in children):
            return False
        good = sum(child.status in (State.SUCCEEDED, State.RESOLVED) for child in children)
        self._happen(parent, ChildrenEnded(Children(good, len(children) - good)))
        self._settle_lines()
        self._look_after_family(parent.wish.parent_id or 0)
        return True

    def _look_after_family(self, number: int) -> None:
        parent, children = self.tasks.get(number), self._children(number)
        if parent is None or parent.status not in OPEN:
            return
        if not any(child.status in OPEN for child in children):
            self.close_family(number)
            return
        policy = parent.wish.on_child_failure or self.types[parent.wish.type].on_child_failure
        failed = any(child.status in (State.FAILED, State.DEAD, State.PARTIAL) for child in children)
        reason = why_cancelled(
            cancelled=parent.cancel_requested, gave_up=parent.gave_up, broken=failed and policy == "cancel"
        )
        if reason is not None and self._unasked(number):
            self._cancel_family(number, reason)

    # inside

    def _in(self, *states: State) -> list[Item]:
        return [item for item in self.tasks.values() if item.status in states]

    def _children(self, number: int) -> list[Item]:
        """Those of its present life."""
        since = self.tasks[number].children_since if number else 0
        return [item for item in self.tasks.values() if item.wish.parent_id == number and item.id > since]

    def _require_live(self, worker: int) -> None:
        if self.lost[worker]:
            raise WorkerLost

    def _take_away(self, items: Iterable[Item], event: Event) -> set[int]:
        items = list(items)
        for item in items:
            self._happen(item, event)
        self._settle_lines()
        for number in dict.fromkeys(each for item in items for each in (item.id, item.wish.parent_id or 0)):
            self._look_after_family(number)
        return {item.id for item in items}

    def _ended(self, item: Item) -> None:
        if item.status not in OPEN:
            self._look_after_family(item.wish.parent_id or 0)

    def _happen(self, item: Item, event: Event) -> None:
        change = decide(item, event, self.types[item.wish.type])
        item.path.append((change.kind, item.status, change.status))
        item.status = change.status
        if change.has_children is False and item.has_children:
            item.children_since = max(child.id for child in self.tasks.values() if child.wish.parent_id == item.id)
        for name in COLUMNS:
            if (value := getattr(change, name)) is not None:
                setattr(item, name, value)
        if change.delay is not None:
            item.start_time = self.clock() + timedelta(seconds=change.delay)
        elif change.start_time is not None:
            item.start_time = change.start_time
        if change.status not in HELD:
            item.worker = item.deadline = None
        if change.status not in (*HELD, State.WAITING, State.NOTIFYING, State.DEAD, *FINAL):
            item.held_since = None
        item.finished_at = self.clock() if change.status in FINAL else None

    def _settle_lines(self) -> None:
        """Every line, whether or not anybody moved in it."""
        for key in {(item.wish.tenant_id, item.mutex) for item in self.tasks.values() if item.mutex is not None}:
            line = [item for item in self.tasks.values() if (item.wish.tenant_id, item.mutex) == key]
            queued, blocked = (
                [QueuePlace(i.priority, i.id, hash(i.stream), i.family, 0) for i in line if i.status is state]
                for state in (State.QUEUED, State.BLOCKED)
            )
            families = {item.family for item in line if item.status is State.WAITING and item.held_since is not None}
            back, forward = rearrange(any(item.status in HELD for item in line), families, queued, blocked)
            for place in back:
                self._happen(self.tasks[place.id], SentBack())
            for place in forward:
                self._happen(self.tasks[place.id], CameForward())


def _start_queue(item: Item) -> str:
    return f"start {item.wish.agent_id} of tenant {item.wish.tenant_id}"
