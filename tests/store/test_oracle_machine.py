"""Every state × every event: what a store makes of it is what `decide` says (H1, H6)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from headgate.core.compensation import CompensationSettings
from headgate.core.errors import Refused
from headgate.core.family import Children
from headgate.core.machine import (
    Adopted,
    CameForward,
    CancelReached,
    CancelRequested,
    Change,
    ChildrenEnded,
    Debounced,
    Delivered,
    Discarded,
    Due,
    Event,
    GivenBack,
    LeaseLost,
    Overdue,
    PauseReached,
    PauseRequested,
    Prioritized,
    Raised,
    Rescheduled,
    Resolved,
    Resumed,
    RetryAsked,
    Returned,
    Scheduled,
    SentBack,
    Snoozed,
    Started,
    Unconfirmed,
    decide,
)
from headgate.core.pause import PauseScope
from headgate.core.states import HELD, OPEN, State
from headgate.core.task import Execution, NewTask, Task
from headgate.store.reading.lists import Filter
from headgate.store.store import Store
from headgate.store.tasks.unique import SET_KEY, lock_key
from tests.factories import START, TYPES, Clock, end_overdue, lose, put, record, running, settle, start, submit, worker
from tests.store.driven import DATABASES, empty, fresh

RULES = {kind.code: kind for kind in TYPES}
NOBODY = "00000000-0000-4000-8000-000000000000"  # an exec_id that was never given
TOMORROW = START + timedelta(days=1)


# In which situation a task may be: every state, and what else `decide` looks at


def asked(type_code: str = "plain", *, cancel: bool = False, pause: bool = False) -> Callable[[Store], int]:
    def make(store: Store) -> int:
        execution = running(store, type_code)
        if pause:
            store.tasks.pause(execution.id)
        if cancel:
            store.tasks.cancel(execution.id)
        return execution.id

    return make


def parent(type_code: str = "plain", **fields: Any) -> Callable[[Store], int]:
    def make(store: Store) -> int:
        execution = running(store, type_code, **fields)
        store.tasks.submit(NewTask("plain", parent_id=execution.id, delay_seconds=10**6))
        return execution.id

    return make


def dead_parent(store: Store) -> int:
    parent_id = parent("manual")(store)
    settle(store, execution_of(store.tasks.get(parent_id)), Raised("no"))
    return parent_id


def waiting(store: Store, type_code: str = "plain", *, gives_up: bool = False, cancelled: bool = False) -> int:
    execution = running(store, type_code, mutex="m")
    store.tasks.submit(NewTask("plain", parent_id=execution.id, timeout_seconds=10**6))
    start(store)
    settle(store, execution, Raised("no") if gives_up else Returned())
    if cancelled:
        store.tasks.cancel(execution.id)
    return execution.id


def lost_twice(type_code: str) -> Callable[[Store], int]:
    def make(store: Store) -> int:
        task = submit(store, type_code)
        for _ in range(3):
            worker_id = store.tasks.get(task.id).worker_id
            if worker_id is not None:
                lose(store, worker_id)
                store.executions.rescue(worker_id)
            start(store)
        return task.id

    return make


def scheduling(store: Store, agent_id: str | None = None, mutex: str | None = "m") -> int:
    task = submit(store, mutex=mutex, agent_id=agent_id)
    start(store, confirm=True, agent_id=agent_id)
    return task.id


def retrying(store: Store) -> int:
    execution = running(store, mutex="m")
    settle(store, execution, Raised("again", 60.0))
    return execution.id


SITUATIONS: dict[str, Callable[[Store], int]] = {
    **{state.value: lambda store, state=state: put(store, state).id for state in State},  # type: ignore[misc]
    "pending, with a mutex": lambda store: submit(store, mutex="m", delay_seconds=3600).id,
    "queued, with a mutex": lambda store: submit(store, mutex="m").id,
    "scheduling, with a mutex": scheduling,
    "scheduling, assigned": lambda store: scheduling(store, "a1", None),
    "scheduling, assigned, with a mutex": lambda store: scheduling(store, "a1"),
    "retrying, with a mutex": retrying,
    "waiting, with a mutex": waiting,
    "waiting, asked to cancel": lambda store: waiting(store, cancelled=True),
    "waiting, having given up": lambda store: waiting(store, gives_up=True),
    "waiting, having given up, for a person": lambda store: waiting(store, "manual", gives_up=True),
    "waiting, having given up, asked to cancel": lambda store: waiting(store, gives_up=True, cancelled=True),
    "running, with a mutex": lambda store: running(store, mutex="m").id,
    "running, with retries": lambda store: running(store, max_error_count=3).id,
    "running, with a callback": lambda store: running(store, "called-back").id,
    "running, for a person": lambda store: running(store, "manual").id,
    "running, a parent": parent(),
    "running, a parent with retries": parent(max_error_count=3),
    "running, a parent, for a person": parent("manual"),
    "dead, a parent": dead_parent,
    "running, lost twice": lost_twice("plain"),
    "running, lost twice, for a person": lost_twice("manual"),
    "running, asked to cancel": asked(cancel=True),
    "running, asked to pause": asked(pause=True),
    "running, asked to pause, for a person": asked("manual", pause=True),
    "running, asked for both": asked(cancel=True, pause=True),
}


# How an event comes about. Each says what it tells the caller: whether it happened.


def execution_of(task: Task) -> Execution:
    """What somebody holds who believes to be running the task."""
    same = {name: getattr(task, name) for name in Execution._fields if name not in ("status", "exec_id")}
    same["executing_deadline"] = task.executing_deadline or START
    status = task.status if task.status in HELD else State.RUNNING
    return Execution(**same, exec_id=task.exec_id or NOBODY, status=status)


def children_of(store: Store, task: Task) -> list[Task]:
    return store.tasks.find(Filter(parent_id=task.id)).items


def come_due(store: Store, clock: Clock, task: Task) -> bool:
    clock.advance(7200)
    return store.due.bring() > 0


def come_forward(store: Store, clock: Clock, task: Task) -> bool:
    for holder in store.tasks.find(Filter(mutex="taken", status=(State.RUNNING,))).items:
        settle(store, execution_of(holder), Returned())
    store.mutexes.repair()
    return store.tasks.get(task.id).seq > task.seq


def be_overtaken(store: Store, clock: Clock, task: Task) -> bool:
    submit(store, mutex=task.mutex or "m", priority=task.priority - 1)
    return store.tasks.get(task.id).seq > task.seq


def be_scheduled(store: Store, clock: Clock, task: Task) -> bool:
    return task.id in [execution.id for execution in start(store, 10, confirm=True)]


def be_started(store: Store, clock: Clock, task: Task) -> bool:
    claimed = [execution.id for execution in start(store, 10)]
    return store.executions.start(task.id, task.exec_id or NOBODY) is not None or task.id in claimed


def be_delivered(store: Store, clock: Clock, task: Task) -> bool:
    claimed = [execution.id for execution in start(store, 10)]
    handed = store.executions.start_handed(worker(store), [(task.id, task.exec_id or NOBODY)])
    return bool(handed.executions) or task.id in claimed


def be_delivered_beside_a_pause(store: Store, clock: Clock, task: Task) -> bool:
    """What is delivered is started by another statement, then."""
    store.pauses.set(PauseScope.TENANT, "99")
    return be_delivered(store, clock, task)


def end(event: Event) -> Callable[[Store, Clock, Task], bool]:
    return lambda store, clock, task: settle(store, execution_of(task), event) is not None


def give_back(store: Store, clock: Clock, task: Task) -> bool:
    store.executions.give_back(task.id, task.exec_id or NOBODY)
    return True


def lose_the_worker(store: Store, clock: Clock, task: Task) -> bool:
    worker_id = task.worker_id or worker(store)
    lose(store, worker_id)
    return task.id in [ended.id for ended in store.executions.rescue(worker_id)]


def be_unconfirmed(store: Store, clock: Clock, task: Task) -> bool:
    clock.advance(7200)
    return task.id in [found.task_id for found in store.compensation.trigger(CompensationSettings()).found]


def be_overdue(store: Store, clock: Clock, task: Task) -> bool:
    clock.advance(7201)
    return task.id in [ended.id for ended in end_overdue(store)]


def adopt(store: Store, clock: Clock, task: Task) -> bool:
    return store.tasks.submit(NewTask("plain", parent_id=task.id, delay_seconds=10**6)).created


def end_the_children(store: Store, clock: Clock, task: Task) -> bool:
    for child in children_of(store, task):
        if child.status is State.RUNNING:
            settle(store, execution_of(child), Raised("no"))
        elif child.status in OPEN:
            store.tasks.cancel(child.id)
    store.families.close(task.id)
    return store.tasks.get(task.id).seq > task.seq


def act(name: str, *arguments: object) -> Callable[[Store, Clock, Task], bool]:
    return lambda store, clock, task: bool(getattr(store.tasks, name)(task.id, *arguments).id == task.id)


def ask_again(store: Store, clock: Clock, task: Task) -> bool:
    """Ask for it again, as if it had been made by such a wish."""
    again = NewTask(
        task.type, task.ext, unique_key="k", debounce_seconds=(TOMORROW - START).total_seconds(),
        debounce_longest_seconds=10**6, mutex=task.mutex,
    )  # fmt: skip
    store.database.write(lambda db: lock_key(db, again))
    store.database.write(lambda db: db.rows(SET_KEY, task_id=task.id, tenant_id=0, type=task.type, key="k"))
    return store.tasks.submit(again).id == task.id


@dataclass(frozen=True)
class Way:
    event: Event
    happen: Callable[[Store, Clock, Task], bool]


ENDS: tuple[Event, ...] = (
    Returned('"done"'), Returned('"done"', completed=False), Raised("no"), Raised("again", 30.0), Snoozed(30.0),
    PauseReached(), CancelReached(), GivenBack(),
)  # fmt: skip
WAYS = {
    "due": Way(Due(), come_due),
    "came forward": Way(CameForward(), come_forward),
    "sent back": Way(SentBack(), be_overtaken),
    "scheduled": Way(Scheduled(), be_scheduled),
    "started": Way(Started(), be_started),
    "started by the broker": Way(Started(), be_delivered),
    "started by the broker beside a pause": Way(Started(), be_delivered_beside_a_pause),
    **{f"settled: {event}": Way(event, end(event)) for event in ENDS},
    "given back": Way(GivenBack(), give_back),
    "unconfirmed": Way(Unconfirmed(), be_unconfirmed),
    "lease lost": Way(LeaseLost(), lose_the_worker),
    "overdue": Way(Overdue(), be_overdue),
    "cancelled": Way(CancelRequested("no more"), act("cancel", "no more")),
    "paused": Way(PauseRequested(), act("pause")),
    "resumed": Way(Resumed(), act("resume")),
    "prioritized": Way(Prioritized(3), act("prioritize", 3)),
    "rescheduled": Way(Rescheduled(TOMORROW), act("reschedule", TOMORROW)),
    "rescheduled for now": Way(Rescheduled(START, due=True), act("reschedule", START)),
    "debounced": Way(Debounced(TOMORROW), ask_again),
    "retried": Way(RetryAsked(), act("retry")),
    "resolved": Way(Resolved("by hand"), act("resolve", "by hand")),
    "discarded": Way(Discarded(), act("discard")),
    "delivered": Way(Delivered(), act("delivered")),
    "adopted": Way(Adopted(), adopt),
    "children ended": Way(ChildrenEnded(Children(0, 1)), end_the_children),
}


def test_every_state_and_every_event_there_is_has_its_place_here():
    assert {State(name.split(",")[0]) for name in SITUATIONS} == set(State)
    assert {type(way.event) for way in WAYS.values()} == set(get_args(Event))


# What `decide` makes of it


def made_to_happen(task: Task, event: Event) -> Event | None:
    """What `decide` is asked in this situation, or None where nothing makes the event happen."""
    match event:
        case SentBack() if task.mutex is None:
            return None
        case Unconfirmed() if task.agent_id is None:
            return None  # nobody by name is to confirm it
        case Overdue() if task.status is State.BLOCKED:
            return CameForward()  # since it is the holder that is overdue
        case Overdue() if task.status in (State.SCHEDULING, State.WAITING):
            hog = task.mutex is not None and not (task.cancel_requested or task.gave_up)
            return Overdue("it held its mutex for more than 7200 s") if hog else None
        case Adopted() if task.has_children and task.status in OPEN:
            return None  # nothing new
        case _:
            return event


def after(task: Task, change: Change) -> Task:
    """The task as the change leaves it, as far as `decide` has a say."""
    names = {f.name for f in fields(Change)} & {f.name for f in fields(Task)}
    values = {name: value for name in names if (value := getattr(change, name)) is not None}
    if change.delay is not None:
        values["start_time"] = START + timedelta(seconds=change.delay)
    return replace(task, **values, seq=task.seq + 1)


def follows(task: Task, event: Event, children: list[Task]) -> Event | None:
    """What comes of it at once: its line is free, or its children could be cancelled."""
    if isinstance(event, SentBack | Prioritized | Adopted | Debounced) or event == Rescheduled(START, due=True):
        return None
    if task.status is State.BLOCKED:
        return CameForward()
    going = task.cancel_requested or task.gave_up
    if task.status is State.WAITING and going and children[0].status is not State.RUNNING:
        return ChildrenEnded(Children(0, 1))
    return None


Path = list[tuple[str, State, State]]


def told(task: Task, event: Event | None, children: list[Task]) -> tuple[Task, Path]:
    """The task afterwards, and its new audit rows; none if `decide` refuses."""
    path: Path = []
    while event is not None:
        try:
            change = decide(task, event, RULES[task.type])
        except Refused:
            break
        path.append((change.kind, task.status, change.status))
        task = after(task, change)
        event = follows(task, event, children)
    return task, path


def decided_columns(task: Task) -> tuple[object, ...]:
    return (
        task.status, task.error_count, task.lost_count, task.cancel_requested, task.pause_requested, task.has_children,
        task.gave_up, task.skip_callback, task.priority, task.remark, task.error_info, task.result, task.start_time,
        task.seq,
    )  # fmt: skip


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def on_postgres(postgres_url: str, clock: Clock) -> Iterator[Store]:
    """One for all: connections that are new take twice as long as what they are made for."""
    with fresh("postgres", postgres_url, clock) as opened:
        yield opened


@pytest.fixture(params=DATABASES)
def store(request: pytest.FixtureRequest, postgres_url: str, clock: Clock) -> Iterator[Store]:
    clock.now = START
    if request.param == "postgres":
        empty(postgres_url)
        yield with_types(request.getfixturevalue("on_postgres"))
        return
    with fresh(request.param, postgres_url, clock) as opened:
        yield with_types(opened)


def with_types(store: Store) -> Store:
    for kind in TYPES:
        store.types.put(kind)
    return store


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_store_does_what_the_machine_says(store, clock, situation, way):
    """Spec: A2, B3"""
    task = store.tasks.get(SITUATIONS[situation](store))
    before, way = record(store, task.id), WAYS[way]
    wanted, path = told(task, made_to_happen(task, way.event), children_of(store, task))
    try:
        happened = way.happen(store, clock, task)
    except Refused:
        happened = False
    now = store.tasks.get(task.id)
    if not path:
        assert record(store, task.id) == before
        assert not happened or isinstance(way.event, Adopted)  # of one child more
        return
    assert happened or isinstance(way.event, Overdue)  # of the task that held the mutex
    assert decided_columns(now) == decided_columns(wanted)
    assert [(e.kind, e.before, e.after) for e in store.events.of(task.id) if e.seq > task.seq] == path
    assert (now.exec_id is not None) == (now.status in HELD)
