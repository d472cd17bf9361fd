"""Those who use the system: clients that submit and steer, and a person who deals with what needs one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from headgate.core.callbacks import Delivery
from headgate.core.compensation import Figures
from headgate.core.cron import Missed, Overlap
from headgate.core.edit import Edit
from headgate.core.errors import HeadgateError, Unavailable
from headgate.core.limits import Rate
from headgate.core.schedule import Endpoint, Log, NewSchedule, Status
from headgate.core.states import State
from headgate.core.task import Task
from headgate.simulation.bodies import Function
from headgate.simulation.evidence import Wish
from headgate.simulation.late import LateSubmit
from headgate.simulation.plan import CALL, Move
from headgate.simulation.process import Process
from headgate.store.base import Store
from headgate.store.tasks import Idempotency

TRIES = 5
AGAIN_SECONDS = 0.8
MADE, REFUSED, UNKNOWN = "made", "refused", "unknown"


class People:
    """What was asked, and what came back: `wishes` is the clients' log."""

    def __init__(
        self, tasks: Mapping[str, Function], process: Callable[[str], Process | None], figures: Figures
    ) -> None:
        self._tasks = tasks
        self._figures = figures
        self._process = process
        self._wishes: dict[str, Wish] = {}
        self._known: list[int] = []
        self._schedules: list[int] = []

    @property
    def wishes(self) -> Sequence[Wish]:
        return list(self._wishes.values())

    def do(self, move: Move) -> None:
        about = dict(move.about)
        process = self._process(about.pop("client"))
        if process is None:  # there is nobody at that place just now
            return
        match move.what:
            case "submit":
                work = self._submit(process, **about)
            case "add_schedule":
                work = self._add_schedule(process, **about)
            case _:
                work = self._steer(process, move.what, **about)
        process.run(lambda: asyncio.ensure_future(work))

    async def _submit(
        self, process: Process, key: str, type: str, seconds: float, ends: list[str], children: int, stubborn: bool,
        parent: float | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Ask until there is an answer, with the same key each time."""
        if parent is not None and self._known:
            options["parent_id"] = self._known[int(parent * len(self._known))]
        new = self._tasks[type].using(name=key, **options).call(seconds, ends, children, stubborn).new
        self._wishes[key] = Wish(key, UNKNOWN)
        for _ in range(TRIES):
            try:
                made = await process.aside(partial(process.store.submit, new, once=Idempotency(key, key)))
            except Unavailable:
                await asyncio.sleep(AGAIN_SECONDS)
            except HeadgateError:
                self._wishes[key] = Wish(key, REFUSED)
                return
            else:
                self._wishes[key] = Wish(key, MADE, (made.id,))
                self._known.append(made.id)
                return

    def submit_late(self, real: Any, key: str, type: str) -> Callable[[], None]:
        """Submit in a transaction that stays open until what is given back is called."""
        late = LateSubmit(real, self._tasks[type].using(name=key).call(0.1, ["ok"]).new)
        self._wishes[key] = Wish(key, UNKNOWN)

        def commit() -> None:
            made = late.commit()
            self._wishes[key] = Wish(key, MADE, (made.id,))
            self._known.append(made.id)

        return commit

    async def _add_schedule(
        self, process: Process, key: str, type: str, cron: str, missed: str, overlap: str, log: str, seconds: float,
        ends: list[str],
    ) -> None:  # fmt: skip
        """Ask until there is an answer, with the same key each time."""
        wish = self._tasks["plain" if type == CALL else type].call(seconds, ends).new
        http = Endpoint("https://example.org/") if type == CALL else None
        new = NewSchedule(wish, cron, "UTC", Log(log), Missed(missed), Overlap(overlap), http)
        for _ in range(TRIES):
            try:
                add = partial(process.store.schedules.add, new, status=Status.ONLINE, once=Idempotency(key, key))
                self._schedules.append((await process.aside(add)).id)
            except Unavailable:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return

    async def _steer(self, process: Process, what: str, pick: float = 0.0, **about: Any) -> None:
        with suppress(HeadgateError):
            await process.aside(self._order(process.store, what, pick, about))

    def _order(self, store: Store, what: str, pick: float, about: dict[str, Any]) -> Callable[[], object]:
        match what:
            case "set_capacity":
                return partial(store.set_capacity, about["lane"], about["capacity"])
            case "set_resource":
                return partial(store.set_resource, about["name"], about["capacity"])
            case "set_rate":
                return partial(store.set_rate_limit, about["name"], Rate(about["rate"], about["burst"]))
            case "pause_lane":
                return partial(store.pause_lane, about["lane"])
            case "resume_lane":
                return partial(store.resume_lane, about["lane"])
            case "trigger":
                return partial(store.compensation.trigger, self._figures)
        if what.startswith("schedule_"):
            return partial(self._act_on_schedule, store, what.removeprefix("schedule_"), pick, about)
        if not self._known:
            return lambda: None
        task_id = self._known[int(pick * len(self._known))]
        match what:
            case "redeliver":
                return partial(store.deliveries.redeliver, task_id)
            case "prioritize":
                return partial(store.prioritize, task_id, 1)
            case "resolve":
                return partial(store.resolve, task_id, "by hand")
        return partial(getattr(store, what), task_id)

    def _act_on_schedule(self, store: Store, what: str, pick: float, about: dict[str, Any]) -> None:
        if not self._schedules:
            return
        schedule_id = self._schedules[int(pick * len(self._schedules))]
        if what != "edit":
            getattr(store.schedules, what)(schedule_id)
            return
        said = store.schedules.get(schedule_id).said
        wish = said.wish._replace(creator=said.wish.creator + 1)
        store.schedules.put(
            schedule_id, replace(said, wish=wish, cron_expressions=about["cron"] or said.cron_expressions)
        )

    def deal_with(self, store: Store, task: Task, chance: float) -> None:
        """What a person does about a task that will not go on by itself."""
        with suppress(HeadgateError):
            match task.status:
                case State.PAUSED:
                    store.resume(task.id)
                case State.DEAD if chance < 0.25:
                    store.desk.replay(task.id, Edit(priority=1))
                case State.DEAD if chance < 0.5:
                    store.discard(task.id)
                case State.DEAD:
                    store.resolve(task.id, "by hand")
                case State.NOTIFYING if not _is_stuck(store, task):
                    return
                case State.NOTIFYING if chance < 0.5:
                    store.resolve(task.id, "told by telephone")
                case State.NOTIFYING:
                    store.deliveries.redeliver(task.id)


def _is_stuck(store: Store, task: Task) -> bool:
    return any(sent.status is Delivery.UNDELIVERABLE for sent in store.deliveries.of_task(task.id))
