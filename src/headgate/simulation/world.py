"""One history: processes, people and faults as the plan says, on one virtual clock, and the evidence of it."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from headgate.core.errors import HeadgateError
from headgate.core.schedule import Log, Result, Status, TickLog, told
from headgate.core.states import FINAL, State
from headgate.core.task import Task
from headgate.duties import Archive, Callbacks, Calls, Compensate, Periodic, Sampler, light_duties
from headgate.outside import Outside, replaced
from headgate.registry import Registry
from headgate.service import Service
from headgate.settings import Settings
from headgate.simulation.agent import LoopAgent
from headgate.simulation.bodies import LANES, RATES, RESOURCES, program
from headgate.simulation.database import Database, Fault, Transaction, WallClock
from headgate.simulation.endpoints import Endpoints
from headgate.simulation.evidence import Evidence, Known, Line, Owed, Row
from headgate.simulation.ledger import Ledger
from headgate.simulation.loop import VirtualLoop
from headgate.simulation.people import People
from headgate.simulation.plan import AGENTS, CHAOS_SECONDS, CLIENTS, DUTIES, WORKERS, Move, Plan
from headgate.simulation.process import Killed, Process, here
from headgate.simulation.receiver import Receiver
from headgate.simulation.worker import LoopBeat, LoopWorker
from headgate.store.base import Store
from headgate.store.delivery_reports import Wanted
from headgate.store.feed import Cursor
from headgate.store.lists import Filter
from headgate.store.scratch import Open

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
SETTINGS = Settings(
    lease_seconds=5.0, beat_seconds=1.5, reap_seconds=1.0, poll_seconds=2.0, shutdown_seconds=2.0,
    compensation_base=1.0, compensation_step=1.0, compensation_max=5.0, compensation_threshold=2.0,
    compensation_start_interval=1.0,
)  # fmt: skip
KEEP_SECONDS = 5.0
RESTART_SECONDS = (0.2, 4.0)
CATCH_UP_SECONDS = 20.0  # longer than anybody is frozen: by then every tick that came before has been dealt with
CALL_LEASE_SECONDS, CALL_WATCH_SECONDS = 10.0, 2.0
LONGEST_REST_SECONDS = 400.0
LOOK_SECONDS = 2.0
READ_SECONDS = 0.7
LAST_ORDERS_SECONDS = 1.0  # by then everything that was asked has come to the store
LAST_WORDS_SECONDS = 6.0  # longer than any handler takes that has lost its task and does not know
PAGE = 200
SKEW = 1e-5  # the store keeps microseconds
OPEN = frozenset(State) - FINAL


@dataclass(frozen=True, slots=True)
class History:
    """What happened, and the evidence of it."""

    plan: Plan
    evidence: Evidence
    trace: Sequence[Transaction]
    faults: Counter[str]


def run(plan: Plan, open_database: Open) -> History:
    """Live through a plan, from its first move until nothing more happens."""
    chance = random.Random(plan.seed)
    loop = VirtualLoop(_owned)
    wall = WallClock(BEGIN, loop.time)
    with replaced(Outside(wall, loop.time, chance.random, chance.randbytes)):
        real = open_database(wall)
        try:
            return loop.run_until_complete(_World(plan, real, wall, loop, chance).live())
        finally:
            loop.close()
            real.close()


def _owned(task: "asyncio.Task[Any]") -> None:
    process = here.get(None)
    if process is not None:
        process.adopt(task)


class _World:
    """The processes by name: whoever is killed is started again, as a supervisor would."""

    def __init__(self, plan: Plan, real: Any, wall: WallClock, loop: VirtualLoop, chance: random.Random) -> None:
        self._plan = plan
        self._real = real
        self._wall = wall
        self._loop = loop
        self._chance = chance
        self._ledger = Ledger(loop.time)
        self._database = Database(real, loop.time, loop.call_later)
        self._receiver = Receiver(loop.time, chance, lambda: self._quiet_store().last_event().high)
        self._tasks = program(SETTINGS)
        self._processes: dict[str, Process] = {}
        self._heard: list[int] = []
        self._cursor = Cursor()
        self._endpoints = Endpoints(chance)
        self._ticks_until: float | None = None
        self._over = False
        self._people = People(self._tasks, self._process, SETTINGS.compensation)

    async def live(self) -> History:
        self._set_up()
        for name in (*WORKERS, *AGENTS, DUTIES, *CLIENTS, "reader"):
            self._start(name)
        for move in self._plan.moves:
            self._loop.call_at(move.at, self._do, move)
        await asyncio.sleep(CHAOS_SECONDS + LAST_ORDERS_SECONDS)
        self._heal()
        await self._stop_schedules()
        await self._rest()
        history = History(self._plan, self._evidence(), self._database.trace, self._database.faults)
        await self._end()
        return history

    # processes

    def _process(self, name: str) -> Process | None:
        process = self._processes.get(name)
        return process if process is not None and process.alive else None

    def _start(self, name: str) -> None:
        chance = random.Random(f"{self._plan.seed} {name}")
        process = Process(name, self._database, self._ledger, chance, self._gone)
        self._processes[name] = process
        self._database.lines = list(self._processes.values())
        process.run(partial(self._begin, process))

    def _begin(self, process: Process) -> None:
        if process.name in WORKERS:
            registry: Registry = next(iter(self._tasks.values())).app.registry
            worker = LoopWorker(
                process.store, registry, SETTINGS, name=process.name, concurrency=4, threads=1, beat=LoopBeat
            )
            self._loop.create_task(worker.run())
            if process.name == WORKERS[0]:
                self._serve(process)
        elif process.name in AGENTS:
            self._loop.create_task(LoopAgent(process, AGENTS[process.name], SETTINGS).run())
        elif process.name == DUTIES:
            self._serve(process)
        elif process.name == "reader":
            self._loop.create_task(self._read(process))

    def _serve(self, process: Process) -> None:
        calls = Calls(
            process.store, self._endpoints, process.aside, lease_seconds=CALL_LEASE_SECONDS,
            watch_seconds=CALL_WATCH_SECONDS,
        )  # fmt: skip
        duties: list[Service] = [
            *light_duties(process.store, SETTINGS, process.aside),
            Compensate(process.store, SETTINGS, process.aside),
            Callbacks(process.store, SETTINGS, process.aside, sender=self._receiver),
            Periodic(process.store, process.aside, calls.wake),
            calls,
        ]
        if process.name == DUTIES:
            duties.append(Archive(process.store, SETTINGS, process.aside, keep_seconds=KEEP_SECONDS))
            duties.append(Sampler(process.store, process.aside))
        for duty in duties:
            duty.start()

    async def _read(self, process: Process) -> None:
        """Follow the feed, and keep with what was read how far that was."""
        while True:
            with suppress(HeadgateError):
                happenings, cursor = await process.aside(process.store.feed, self._cursor, PAGE)
                self._cursor = cursor
                self._heard += [happening.id for happening in happenings]
            await asyncio.sleep(READ_SECONDS)

    def _gone(self, process: Process) -> None:
        """Start again whoever is gone, after a while."""
        if not self._over and process.name in self._processes:
            self._loop.call_later(self._chance.uniform(*RESTART_SECONDS), self._start, process.name)

    # what befalls them

    def _do(self, move: Move) -> None:
        about = dict(move.about)
        match move.what:
            case "kill":
                self._database.faults["process killed"] += 1
                self._processes[about["process"]].kill()
            case "crash" | "crash_after" | "no_answer" | "unreached":
                self._database.arm(about["process"], Fault(move.what, about.get("statement", 0), about.get("within")))
            case "freeze":
                self._database.faults["process frozen"] += 1
                self._processes[about["process"]].freeze(about["seconds"])
            case "outage":
                self._database.faults["store away"] += 1
                self._database.away_until = self._loop.time() + about["seconds"]
            case "lose_news":
                self._database.deaf_until = self._loop.time() + about["seconds"]
            case "fall_ill":
                self._database.faults[f"receiver {about['how']}"] += 1
                self._receiver.fall_ill(about["how"], about["seconds"])
            case "step_clock":
                self._database.faults["clock set"] += 1
                self._wall.step(about["seconds"])
            case "submit_late":
                if self._database.dialect == "postgres":  # SQLite has one writer: nobody commits past it
                    self._database.faults["slow commit"] += 1
                    seconds = about.pop("seconds")
                    self._loop.call_later(seconds, self._people.submit_late(self._real, **about))
            case _:
                self._people.do(move)

    def _set_up(self) -> None:
        store = self._quiet_store()
        store.migrate()
        for task in self._tasks.values():
            store.put_type(task.handler.type)
        for lane, capacity in LANES.items():
            store.set_capacity(lane, capacity)
        for name, capacity in RESOURCES.items():
            store.set_resource(name, capacity)
        for name, rate in RATES.items():
            store.set_rate_limit(name, rate)

    def _quiet_store(self) -> Store:
        """A store that no fault befalls."""
        return Process("world", self._database, self._ledger, self._chance, self._gone).store

    def _heal(self) -> None:
        """No more faults: the clock is at its latest, every lane has room, everybody answers."""
        self._database.disarm()
        self._database.away_until = self._database.deaf_until = 0.0
        self._wall.step_to_latest()
        self._receiver.heal()
        store = self._quiet_store()
        for lane in (None, "default", *LANES):
            store.resume_lane(lane)
        for lane in LANES:
            store.set_capacity(lane, 2)

    async def _stop_schedules(self) -> None:
        """Nothing would ever come to rest: give them the time to make up for what they missed, and end them."""
        room, healed = self._quiet_store().schedules, self._wall().timestamp()
        if not room.find(limit=1):
            return
        await asyncio.sleep(CATCH_UP_SECONDS)
        self._ticks_until = healed
        for schedule in room.find(status=Status.ONLINE, limit=PAGE):
            room.offline(schedule.id)

    async def _rest(self) -> None:
        """Wait until everything has ended; a person at the desk deals with what needs one."""
        store, end = self._quiet_store(), self._loop.time() + LONGEST_REST_SECONDS
        while self._loop.time() < end:
            await asyncio.sleep(LOOK_SECONDS)
            waiting = list(_every(store, Filter(status=tuple(OPEN))))
            open_calls = any(line.result is Result.EXECUTING for line, _ in _logs(store))
            if not waiting and not open_calls and not store.deliveries.deliverables().pending:
                break
            for task in waiting:
                self._people.deal_with(store, task, self._chance.random())
        await self._thawed()

    async def _thawed(self) -> None:
        """Until nobody is frozen any more, and has said what it had to say."""
        for process in list(self._processes.values()):
            with suppress(Killed):
                await process.thawed()
        await asyncio.sleep(LAST_WORDS_SECONDS)

    async def _end(self) -> None:
        self._over = True
        for process in self._processes.values():
            process.kill()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)

    # what is left

    def _evidence(self) -> Evidence:
        store = self._quiet_store()
        tasks = list(_every(store, Filter()))
        return Evidence(
            rows=self._rows(store),
            tasks=[_known(task) for task in tasks],
            ledger=self._ledger.entries,
            wishes=self._people.wishes,
            keys=_by_name(tasks),
            heard=self._heard,
            owed=list(_every_debt(store)),
            received=self._receiver.receipts,
            callbacks={code: tuple(task.handler.type.callback) for code, task in self._tasks.items()},
            lines=self._lines(store),
            arrivals=self._endpoints.arrivals,
            ticks_until=self._ticks_until,
            uses={code: task.handler.type.uses for code, task in self._tasks.items()},
            ended_at=self._wall().timestamp(),
            skew=SKEW,
            start_seconds=SETTINGS.compensation_start_interval,
        )

    def _lines(self, store: Store) -> list[Line]:
        found = sorted(_logs(store), key=lambda pair: pair[0].id)
        times = self._wall.virtual(line.create_date for line, _ in found)
        return [
            Line(
                at,
                line.periodic_task_id,
                None if line.tick is None else told(line.tick),
                line.result,
                line.task_id,
                trans,
            )
            for at, (line, trans) in zip(times, found, strict=True)
        ]

    def _rows(self, store: Store) -> list[Row]:
        rows, cursor = [], Cursor()
        while page := store.feed(cursor, PAGE):
            happenings, cursor = page
            if not happenings:
                break
            rows += happenings
        rows.sort(key=lambda row: row.id)
        times = self._wall.virtual(row.at for row in rows)
        return [
            Row(
                row.id, row.task_id, row.seq, at, row.at.timestamp(), row.kind, row.before, row.after, row.actor,
                row.exec_id, row.detail,
            )
            for row, at in zip(rows, times, strict=True)
        ]  # fmt: skip


def _every(store: Store, wanted: Filter) -> Iterator[Task]:
    cursor = None
    while True:
        page = store.find(wanted, cursor=cursor, limit=PAGE)
        yield from page.items
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def _every_debt(store: Store) -> Iterator[Owed]:
    cursor = None
    while True:
        page = store.deliveries.find(Wanted(), cursor=cursor, limit=PAGE)
        for each in page.items:
            yield Owed(each.id, each.webhook_id, each.task_id, each.kind, each.seq, each.status, each.attempts)
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def _logs(store: Store) -> Iterator[tuple[TickLog, bool]]:
    """Every line of every schedule's log, and whether it ends with what its tick began."""
    for schedule in store.schedules.find(limit=PAGE):
        cursor = None
        while page := store.schedules.logs(schedule.id, cursor=cursor, limit=PAGE):
            yield from ((line, schedule.said.log is Log.TRANS) for line in page)
            cursor = page[-1].id


def _known(task: Task) -> Known:
    finished = None if task.finished_at is None else task.finished_at.timestamp()
    return Known(
        task.id, task.tenant_id, task.type, task.status, task.lane, task.mutex, task.rate_key, task.parent_id,
        task.root_id, task.seq, task.attempt, task.exec_id, task.worker_id, finished, task.start_time.timestamp(),
        task.retry_of, task.agent_id, task.correlation_id,
    )  # fmt: skip


def _by_name(tasks: Sequence[Task]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for task in tasks:
        if task.name is not None and task.retry_of is None:
            found[task.name] = (*found.get(task.name, ()), task.id)
    return found
