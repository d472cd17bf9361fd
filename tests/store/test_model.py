"""SQLite, PostgreSQL and a model in plain Python are driven by the same steps, and agree after each (T21)."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from headgate.core.errors import HeadgateError, Refused
from headgate.core.limits import Rate
from headgate.core.machine import (
    Adopted,
    CancelReached,
    CancelRequested,
    Delivered,
    Discarded,
    Event,
    GivenBack,
    PauseReached,
    PauseRequested,
    Prioritized,
    Raised,
    Rescheduled,
    Resolved,
    Resumed,
    RetryAsked,
    Returned,
    Snoozed,
    decide,
)
from headgate.core.pause import EVERYTHING_PAUSED, PauseKey
from headgate.core.retry import fixed
from headgate.core.states import HELD, State
from headgate.core.task import NewTask, Task, TaskType
from tests.factories import START, Clock
from tests.store.driven import DATABASES, Driven, fresh
from tests.store.model import Handle, Item, Model

LANES = ("default", "narrow")
RESOURCES = ("press", "ink")
PAUSES: list[PauseKey] = [
    EVERYTHING_PAUSED, *(("lane", lane) for lane in LANES), ("type", "plain"), ("tenant", "1"), ("key", "api"),
]  # fmt: skip
TYPES = {
    kind.code: kind
    for kind in (
        TaskType("plain", retry=fixed(5, retries=2)),
        TaskType("manual", need_manual=True, lane="narrow", timeout_seconds=50),
        TaskType("called", callback={"success": {"url": "https://example.org"}}, lane="narrow"),
        TaskType("pressed", uses=RESOURCES, timeout_seconds=50, on_child_failure="cancel"),
    )
}
RATES = {"key:api": Rate(0.5, 2), "type:called": Rate(1, 3)}
MUTEX_SECONDS = 400.0
ENDS: tuple[Event, ...] = (
    Returned('"done"'), Returned('"done"', completed=False), Raised("no"), Raised("again", 5.0), Snoozed(20.0),
    PauseReached(), CancelReached(), GivenBack(),
)  # fmt: skip
ACTS: tuple[Event, ...] = (
    CancelRequested(), PauseRequested(), PauseRequested(), Resumed(), Prioritized(0), Prioritized(1), Prioritized(9),
    Rescheduled(START), Rescheduled(START + timedelta(seconds=100)), RetryAsked(), Resolved("by hand"), Discarded(),
    Delivered(),
)  # fmt: skip
ROBOT: dict[str, Any] = {"agent_id": "robot"}
WANTED: tuple[dict[str, Any], ...] = (
    ROBOT, ROBOT, {}, {"types": frozenset({"plain", "pressed"})}, {"tenant_id": 1}, {"creator": 7}, {"creator": 0},
)  # fmt: skip

STEPS = [
    *["submit"] * 4, *["claim"] * 8, *["settle"] * 8, *["report"] * 3, *["act"] * 7, "copy", "limit", "limit",
    "pause_or_resume", *["time_passes"] * 4, "end_overdue", "lose_a_worker", "beat", "archive",
]  # fmt: skip
few = st.none() | st.none() | st.none()


def wish_of(said: dict[str, Any]) -> NewTask:
    return NewTask(**said)


wishes = st.fixed_dictionaries(
    {
        "type": st.sampled_from(sorted(TYPES)),
        "tenant_id": st.sampled_from([0, 0, 0, 1]),
        "creator": st.sampled_from([0, 0, 7]),
        "priority": st.sampled_from([5, 5, 5, 1, 9, -(1 << 63), (1 << 63) - 1]),
        "lane": few | st.sampled_from(LANES),
        "mutex": few | st.sampled_from(["m", "n"]),
        "rate_key": few | st.just("api"),
        "agent_id": few | st.just("robot"),
        "unique_key": few | st.just("only"),
        "delay_seconds": few | st.sampled_from([0.0, 10.0, 60.0]),
        "max_error_count": few | st.just(1),
        "on_child_failure": few | st.sampled_from(["continue", "cancel"]),
    }
).map(wish_of)


def seen(item: Item) -> tuple[object, ...]:
    return (
        item.status, item.error_count, item.lost_count, item.priority, item.attempt, item.cancel_requested,
        item.pause_requested, item.has_children, item.gave_up, item.skip_callback, item.error_info, item.result,
        item.remark, item.start_time, item.deadline, item.finished_at, len(item.path), item.worker,
    )  # fmt: skip


T = TypeVar("T")


class Engine(RuleBasedStateMachine):
    data: st.DataObject

    def __init__(self, postgres_url: str) -> None:
        super().__init__()
        self.clock = Clock()
        self.model = Model(self.clock, TYPES, resources=dict.fromkeys(RESOURCES, 1), rates=dict(RATES))
        self.stores = [fresh(database, postgres_url, self.clock) for database in DATABASES]
        self.driven = [Driven(store, TYPES, RATES) for store in self.stores]
        self.handles: list[Handle] = []
        self.agreed = False
        self.most: Counter[str] = Counter()  # who may hold a lane or resource that was made smaller

    def teardown(self) -> None:
        try:
            if self.agreed:
                self.compare_audit()
        finally:
            for store in self.stores:
                store.close()

    def everywhere(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Do it to the model and to both stores; the same comes of it, be it an answer or a refusal."""
        self.agreed = False
        sides: list[Any] = [self.model, *self.driven]
        answers = [outcome(partial(getattr(side, name), *arguments, **named)) for side in sides]
        assert answers[0] == answers[1] == answers[2], f"{name}: {answers}"
        return answers[0]

    def draw(self, choices: Sequence[T]) -> T:
        choice: T = self.data.draw(st.sampled_from(choices))
        return choice

    def some_task(self, event: Event) -> int:
        """A task, more often than not one that the event can happen to."""
        every = list(self.model.tasks)
        return self.draw([number for number in every if can_happen(self.model.tasks[number], event)] * 4 + every)

    def some_handle(self) -> Handle:
        """An execution, more often than not one that owns its task."""
        live = [handle for handle in self.handles if self.model.tasks[handle[0]].owned_by(handle)]
        return self.draw(live * 4 + self.handles)

    def some_worker(self) -> int:
        """Mostly the newest, which is alive."""
        workers = list(range(len(self.model.lost)))
        return self.draw([workers[-1]] * 5 + workers)

    @initialize(new=st.lists(wishes, min_size=4, max_size=8))
    def begin(self, new: list[NewTask]) -> None:
        self.everywhere("register")
        self.everywhere("submit", new)

    @rule(data=st.data(), step=st.sampled_from(STEPS))
    def step(self, data: st.DataObject, step: str) -> None:
        """One rule for all, so that an example has its share of each: of two dozen rules Hypothesis shuts off half."""
        self.data = data
        getattr(self, step)()

    def submit(self) -> None:
        new = self.data.draw(st.lists(wishes, min_size=1, max_size=3))
        if self.draw([False, True]):
            parent = self.some_task(Adopted())
            new = [wish._replace(parent_id=parent) for wish in new]
        self.everywhere("submit", new)

    def claim(self) -> None:
        confirm, wanted = self.draw([False, False, True]), self.draw(WANTED)
        handles = self.everywhere("claim", self.some_worker(), self.draw([8, 3, 2, 1]), confirm, **wanted)
        if isinstance(handles, list):
            self.handles += handles

    def settle(self) -> None:
        """Reports, new and old; an execution that never started has nothing to tell but that it gives up."""
        handles = dict.fromkeys(self.some_handle() for _ in range(self.draw([1, 1, 2, 3]))) if self.handles else []
        started = {handle: self.driven[0].executions[handle].status is State.RUNNING for handle in handles}
        self.everywhere("settle", [(handle, self.draw(ENDS) if started[handle] else GivenBack()) for handle in handles])

    def report(self) -> None:
        if self.handles:
            self.everywhere(self.draw(["try_start", "try_start", "progress", "give_back"]), self.some_handle())

    def act(self) -> None:
        tasks = self.model.tasks.values()
        event = self.draw([event for event in ACTS if any(can_happen(item, event) for item in tasks)] * 2 + [*ACTS])
        number = self.some_task(event)
        match event:
            case CancelRequested():
                self.everywhere("cancel", number)
            case Resumed():
                self.everywhere("resume", number)
            case RetryAsked():
                self.everywhere("retry", number)
            case Prioritized(priority):
                self.everywhere("prioritize", number, priority or None)
            case _:
                self.everywhere("act", number, event)

    def copy(self) -> None:
        self.everywhere("retry", self.draw(list(self.model.tasks)))

    def limit(self) -> None:
        if self.draw([False, True]):
            self.everywhere("set_resource", self.draw(RESOURCES), self.draw([1, 2, 3, 0]))
        else:
            self.everywhere("set_capacity", self.draw(LANES), self.draw([3, 2, 1, 0, None]))

    def pause_or_resume(self) -> None:
        key = self.draw([*sorted(self.model.paused), *PAUSES])
        if key in self.model.paused:
            self.everywhere("end_pause", key)
        else:
            seconds = self.draw([0, 0, 3, 60])
            self.everywhere("start_pause", key, self.clock() + timedelta(seconds=seconds) if seconds else None)

    def time_passes(self) -> None:
        self.clock.advance(self.draw([1, 5, 60, 500]))
        self.everywhere("bring_due", self.draw([100, 1]))

    def end_overdue(self) -> None:
        self.everywhere("end_overdue", MUTEX_SECONDS)

    def lose_a_worker(self) -> None:
        worker = self.some_worker()
        self.everywhere("mark_lost", worker)
        self.everywhere("rescue", worker)
        self.everywhere("register")

    def beat(self) -> None:
        self.everywhere("beat", self.some_worker())

    def archive(self) -> None:
        self.everywhere("archive", self.draw([100, 1]))

    # what holds after every step

    @invariant()
    def holds(self) -> None:
        known = {number: seen(item) for number, item in self.model.tasks.items()}
        for side in self.driven:
            found = side.seen()
            assert found == known, [
                (side.store.database.dialect, n, found.get(n), known[n]) for n in known if found.get(n) != known[n]
            ]
        self.agreed = True
        self.no_limit_is_exceeded([task for task in self.driven[1].tasks() if task.status in HELD])
        self.lines_have_one_head_each([task for task in self.driven[1].tasks() if task.mutex])

    def no_limit_is_exceeded(self, held: list[Task]) -> None:
        """Unless it was lowered while more were running: then nothing is added until they have ended."""
        limits = {f"lane {name}": capacity for name, capacity in self.model.capacities.items()}
        limits |= {f"resource {name}": capacity for name, capacity in self.model.resources.items()}
        running = Counter(f"lane {task.lane}" for task in held)
        running.update(f"resource {name}" for task in held for name in TYPES[task.type].uses)
        for name, limit in limits.items():
            assert limit is None or running[name] <= max(limit, self.most[name])
        self.most = running
        assert all(count == 1 for count in Counter((t.tenant_id, t.mutex) for t in held if t.mutex).values())

    def lines_have_one_head_each(self, keyed: list[Task]) -> None:
        heads = [(t.tenant_id, t.mutex, t.lane, t.type, t.rate_key, t.agent_id) for t in keyed if t.status == "queued"]
        assert len(heads) == len(set(heads))
        moving = {(t.tenant_id, t.mutex) for t in keyed if t.status in (*HELD, State.WAITING, State.QUEUED)}
        assert {(t.tenant_id, t.mutex) for t in keyed if t.status is State.BLOCKED} <= moving

    def compare_audit(self) -> None:
        """The path of each task, kinds and states, is the model's; what is noted besides is the same on both."""
        for number, item in self.model.tasks.items():
            notes = []
            for side in self.driven:
                events = side.store.events.of(side.ids[number])
                assert [(e.kind, e.before, e.after) for e in events if e.seq] == item.path, side.store.database.dialect
                assert [e.seq for e in events if e.seq] == list(range(1, len(item.path) + 1))
                notes.append(sorted(e.kind for e in events if not e.seq))
            assert notes[0] == notes[1]


def outcome(do: Callable[[], object]) -> object:
    try:
        return do()
    except HeadgateError as error:
        return type(error)


def can_happen(item: Item, event: Event) -> bool:
    try:
        decide(item, event, TYPES[item.wish.type])
    except Refused:
        return False
    return True


def test_both_stores_do_what_the_model_does_whatever_happens(postgres_url):
    """Spec: A2, A4, A9, A10, B2, B3, D7, D8"""
    run_state_machine_as_test(
        partial(Engine, postgres_url),  # type: ignore[arg-type]  # whatever makes one will do
        settings=settings(
            max_examples=50,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking a machine takes longer than reading it
            stateful_step_count=40,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
