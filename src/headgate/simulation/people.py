"""The users of the system: clients that submit and steer, and a person who deals with what needs one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from headgate.core.callbacks import Delivery
from headgate.core.compensation import CompensationSettings
from headgate.core.cron import Missed, Overlap
from headgate.core.edit import Edit
from headgate.core.errors import HeadgateError, Unavailable
from headgate.core.limits import Rate
from headgate.core.pause import PauseScope
from headgate.core.schedule import Endpoint, LogMode, NewSchedule, ScheduleStatus
from headgate.core.states import FINAL, State
from headgate.core.task import Task
from headgate.duties.archive import DAY_SECONDS
from headgate.duties.purging import purge_now
from headgate.simulation.evidence import Submission
from headgate.simulation.late import LateSubmit
from headgate.simulation.plan import CALL, Move
from headgate.simulation.process import Process
from headgate.simulation.tasks import Function
from headgate.store.db.statement import clock
from headgate.store.store import Store
from headgate.store.tasks.idempotency import Idempotency
from headgate.store.tasks.submit import Submitted

TRIES = 5
RETRY_SECONDS = 0.8
MADE, REFUSED, UNKNOWN = "made", "refused", "unknown"


class People:
    """Clients and a person; `submissions` is the clients' log of what they asked for and what came back."""

    def __init__(
        self,
        tasks: Mapping[str, Function],
        process: Callable[[str], Process | None],
        figures: CompensationSettings,
        before_removal: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self._figures = figures
        self._process = process
        self._before_removal = before_removal
        self._submissions: dict[str, Submission] = {}
        self._known: list[int] = []
        self._schedules: list[int] = []

    @property
    def submissions(self) -> Sequence[Submission]:
        return list(self._submissions.values())

    def do(self, move: Move) -> None:
        parameters = dict(move.parameters)
        process = self._process(parameters.pop("client"))
        if process is None:  # it was killed, and is not there again yet
            return
        match move.what:
            case "submit":
                work = self._submit(process, **parameters)
            case "add_schedule":
                work = self._add_schedule(process, **parameters)
            case _:
                work = self._steer(process, move.what, **parameters)
        process.run(lambda: asyncio.ensure_future(work))

    async def _submit(
        self, process: Process, key: str, type: str, seconds: float, ends: list[str], children: int, stubborn: bool,
        parent: float | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Ask until there is an answer, with the same key each time."""
        if parent is not None and self._known:
            options["parent_id"] = self._known[int(parent * len(self._known))]
        new = self._tasks[type].using(name=key, **options).call(seconds, ends, children, stubborn)._new
        self._submissions[key] = Submission(key, UNKNOWN)
        submit = partial(process.store.tasks.submit, new, once=Idempotency(key, key))
        try:
            made = await self._ask(process, submit)
        except HeadgateError:
            self._submissions[key] = Submission(key, REFUSED)
        else:
            self._note_made(key, made)

    async def _ask(self, process: Process, work: Callable[[], Any]) -> Any:
        """Ask until there is an answer; None if there never is."""
        for _ in range(TRIES):
            try:
                return await process.in_thread(work)
            except Unavailable:
                await asyncio.sleep(RETRY_SECONDS)
        return None

    def _note_made(self, key: str, made: Submitted | None) -> None:
        if made is not None:
            self._submissions[key] = Submission(key, MADE, (made.id,))
            self._known.append(made.id)

    def submit_late(self, real: Any, key: str, type: str) -> Callable[[], None]:
        """Submit in a transaction that stays open until the returned function is called."""
        late = LateSubmit(real, self._tasks[type].using(name=key).call(0.1, ["ok"])._new)
        self._submissions[key] = Submission(key, UNKNOWN)
        return lambda: self._note_made(key, late.commit())

    async def _add_schedule(
        self, process: Process, key: str, type: str, cron: str, missed: str, overlap: str, log: str, seconds: float,
        ends: list[str],
    ) -> None:  # fmt: skip
        """Ask until there is an answer, with the same key each time."""
        task = self._tasks["plain" if type == CALL else type].call(seconds, ends)._new
        http = Endpoint("https://example.org/") if type == CALL else None
        new = NewSchedule(task, cron, "UTC", LogMode(log), Missed(missed), Overlap(overlap), http)
        add = partial(process.store.schedules.add, new, status=ScheduleStatus.ONLINE, once=Idempotency(key, key))
        if (made := await self._ask(process, add)) is not None:
            self._schedules.append(made.id)

    async def _steer(self, process: Process, what: str, pick: float = 0.0, **parameters: Any) -> None:
        with suppress(HeadgateError):
            await process.in_thread(self._action(process.store, what, pick, parameters))

    def _action(self, store: Store, what: str, pick: float, parameters: dict[str, Any]) -> Callable[[], object]:
        match what:
            case "set_capacity":
                return partial(store.lanes.set_capacity, parameters["lane"], parameters["capacity"])
            case "set_resource":
                return partial(store.resources.set, parameters["name"], parameters["capacity"])
            case "set_rate":
                return partial(store.rate_limits.set, parameters["name"], Rate(parameters["rate"], parameters["burst"]))
            case "pause_lane":
                return partial(store.lanes.pause, parameters["lane"])
            case "resume_lane":
                return partial(store.lanes.resume, parameters["lane"])
            case "set_pause":
                return partial(_pause, store, **parameters)
            case "end_pause":
                return partial(store.pauses.end, parameters["scope"], parameters["name"])
            case "purge":
                return partial(self._purge, store, parameters["seconds"])
            case "trigger":
                return partial(store.compensation.trigger, self._figures)
        if what.startswith("schedule_"):
            return partial(self._act_on_schedule, store, what.removeprefix("schedule_"), pick, parameters)
        if not self._known:
            return lambda: None
        task_id = self._known[int(pick * len(self._known))]
        match what:
            case "redeliver":
                return partial(store.deliveries.redeliver, task_id)
            case "prioritize":
                return partial(store.tasks.prioritize, task_id, 1)
            case "resolve":
                return partial(store.tasks.resolve, task_id, "by hand")
        return partial(getattr(store.tasks, what), task_id)

    def _act_on_schedule(self, store: Store, what: str, pick: float, parameters: dict[str, Any]) -> None:
        if not self._schedules:
            return
        schedule_id = self._schedules[int(pick * len(self._schedules))]
        if what != "edit":
            getattr(store.schedules, what)(schedule_id)
            return
        definition = store.schedules.get(schedule_id).definition
        task = definition.task._replace(creator=definition.task.creator + 1)
        cron = parameters["cron"] or definition.cron_expressions
        store.schedules.put(schedule_id, replace(definition, task=task, cron_expressions=cron))

    def _purge(self, store: Store, seconds: float) -> None:
        """Remove tasks that ended that long ago, as `headgate purge` does; they are recorded first."""
        self._before_removal()
        purge_now(store, dict.fromkeys(sorted(FINAL), seconds / DAY_SECONDS))

    def deal_with(self, store: Store, task: Task, chance: float) -> None:
        """What a person does about a task that does not continue by itself."""
        with suppress(HeadgateError):
            match task.status:
                case State.PAUSED:
                    store.tasks.resume(task.id)
                case State.DEAD if chance < 0.25:
                    store.dead_letters.replay(task.id, Edit(priority=1))
                case State.DEAD if chance < 0.5:
                    store.tasks.discard(task.id)
                case State.DEAD:
                    store.tasks.resolve(task.id, "by hand")
                case State.NOTIFYING if not _is_stuck(store, task):
                    return
                case State.NOTIFYING if chance < 0.5:
                    store.tasks.resolve(task.id, "told by telephone")
                case State.NOTIFYING:
                    store.deliveries.redeliver(task.id)


def _pause(store: Store, scope: PauseScope, name: str, seconds: float | None = None) -> None:
    """Pause, for `seconds` by the store's clock."""
    until = None if seconds is None else store.database.read(clock) + timedelta(seconds=seconds)
    store.pauses.set(scope, name, until=until)


def _is_stuck(store: Store, task: Task) -> bool:
    return any(sent.status is Delivery.UNDELIVERABLE for sent in store.deliveries.of_task(task.id))
