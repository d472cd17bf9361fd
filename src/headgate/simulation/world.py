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
from headgate.core.schedule import LogMode, Result, ScheduleStatus, TickLog, tick_text
from headgate.core.states import FINAL, State
from headgate.core.task import Task
from headgate.duties import (
    Archive,
    Callbacks,
    Calls,
    Compensate,
    FireSchedules,
    RemoveUnusedStreams,
    Sampler,
    light_duties,
)
from headgate.environment import Environment, replaced
from headgate.registry import Registry
from headgate.service import Service
from headgate.settings import Settings
from headgate.simulation.agent import LoopAgent
from headgate.simulation.database import Fault, SharedDatabase, Transaction, WallClock
from headgate.simulation.evidence import DeliveryRow, Evidence, Ledger, Row, ScheduleLogLine, TaskRecord
from headgate.simulation.loop import VirtualLoop
from headgate.simulation.network import Endpoints, SimulatedReceiver
from headgate.simulation.people import People
from headgate.simulation.plan import AGENTS, CHAOS_SECONDS, CLIENTS, DUTIES, WORKERS, Move, Plan
from headgate.simulation.process import Killed, Process, current_process
from headgate.simulation.tasks import LANES, RATES, RESOURCES, declare_tasks
from headgate.simulation.worker import LoopBeat, LoopWorker, UnwatchedLoop
from headgate.store.callbacks.report import DeliveryFilter
from headgate.store.db.pages import every
from headgate.store.db.scratch import Open
from headgate.store.events.feed import Cursor
from headgate.store.reading.lists import Filter
from headgate.store.store import Store

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
SETTINGS = Settings(
    lease_seconds=5.0, beat_seconds=1.5, reap_seconds=1.0, poll_seconds=2.0, shutdown_seconds=2.0, stuck_seconds=0.5,
    compensation_base=1.0, compensation_step=1.0, compensation_max=5.0, compensation_threshold=2.0,
    compensation_start_interval=1.0,
)  # fmt: skip
UNUSED_LOOK_SECONDS = 1.0
KEEP_SECONDS = 5.0
RESTART_SECONDS = (0.2, 4.0)
CATCH_UP_SECONDS = 20.0  # longer than anybody is frozen: by then every tick that came before has been dealt with
CALL_LEASE_SECONDS, CALL_WATCH_SECONDS = 10.0, 2.0
LONGEST_REST_SECONDS = 400.0
LOOK_SECONDS = 2.0
READ_SECONDS = 0.7
LAST_CALLS_SECONDS = 1.0  # by then every call of a client has come to the store
LAST_HANDLERS_SECONDS = 6.0  # longer than any handler takes that has lost its task and does not know
PAGE = 200
SKEW = 1e-5  # the store keeps microseconds
OPEN = frozenset(State) - FINAL


@dataclass(frozen=True, slots=True)
class SimulatedHistory:
    """What happened, and the evidence of it."""

    plan: Plan
    evidence: Evidence
    trace: Sequence[Transaction]
    faults: Counter[str]


def run(plan: Plan, open_database: Open) -> SimulatedHistory:
    """Live through a plan, from its first move until nothing more happens."""
    rng = random.Random(plan.seed)
    loop = VirtualLoop(_adopt)
    wall = WallClock(BEGIN, loop.time)
    with replaced(Environment(wall, loop.time, rng.random, rng.randbytes)):
        real = open_database(wall)
        try:
            return loop.run_until_complete(_World(plan, real, wall, loop, rng).live())
        finally:
            loop.close()
            real.close()


def _adopt(task: "asyncio.Task[Any]") -> None:
    process = current_process.get(None)
    if process is not None:
        process.adopt(task)


class _World:
    """The processes by name: one that is killed is started again, as a supervisor would."""

    def __init__(self, plan: Plan, real: Any, wall: WallClock, loop: VirtualLoop, rng: random.Random) -> None:
        self._plan = plan
        self._real = real
        self._wall = wall
        self._loop = loop
        self._rng = rng
        self._ledger = Ledger(loop.time)
        self._database = SharedDatabase(real, loop.time, loop.call_later)
        self._receiver = SimulatedReceiver(loop.time, rng, lambda: self._quiet_store().events.last().high)
        self._tasks = declare_tasks(SETTINGS)
        self._processes: dict[str, Process] = {}
        self._feed_ids: list[int] = []
        self._replaceable_ids: set[int] = set()
        self._cursor = Cursor()
        self._endpoints = Endpoints(rng)
        self._ticks_until: float | None = None
        self._over = False
        self._people = People(self._tasks, self._process, SETTINGS.compensation)

    async def live(self) -> SimulatedHistory:
        self._set_up()
        for name in (*WORKERS, *AGENTS, DUTIES, *CLIENTS, "reader"):
            self._start(name)
        for move in self._plan.moves:
            self._loop.call_at(move.at, self._carry_out, move)
        await asyncio.sleep(CHAOS_SECONDS + LAST_CALLS_SECONDS)
        self._heal()
        await self._stop_schedules()
        await self._rest()
        history = SimulatedHistory(self._plan, self._evidence(), self._database.trace, self._database.faults)
        await self._end()
        return history

    # processes

    def _process(self, name: str) -> Process | None:
        process = self._processes.get(name)
        return process if process is not None and process.alive else None

    def _start(self, name: str) -> None:
        rng = random.Random(f"{self._plan.seed} {name}")
        process = Process(name, self._database, self._ledger, rng, self._restart_later)
        self._processes[name] = process
        self._database.processes = list(self._processes.values())
        process.run(partial(self._begin, process))

    def _begin(self, process: Process) -> None:
        if process.name in WORKERS:
            registry: Registry = next(iter(self._tasks.values()))._app._registry
            worker = LoopWorker(
                process.store, registry, SETTINGS, name=process.name, concurrency=4, threads=1, beat=LoopBeat,
                watch=UnwatchedLoop,
            )  # fmt: skip
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
        its = (process.store, SETTINGS, process.in_thread)
        calls = Calls(*its, client=self._endpoints)
        calls.lease_seconds, calls.watch_seconds = CALL_LEASE_SECONDS, CALL_WATCH_SECONDS
        duties: list[Service] = [
            *light_duties(*its), Compensate(*its), Callbacks(*its, client=self._receiver),
            FireSchedules(*its, calls.wake), calls,
        ]  # fmt: skip
        if process.name == DUTIES:
            archive = Archive(*its)
            archive.keep_seconds = KEEP_SECONDS
            streams = RemoveUnusedStreams(*its)
            streams.unused_seconds = 0.0  # one may go before its first task comes
            streams.pause = UNUSED_LOOK_SECONDS
            duties += [archive, Sampler(*its), streams]
        for duty in duties:
            duty.start()

    async def _read(self, process: Process) -> None:
        """Follow the feed, and keep with what was read how far that was."""
        while True:
            with suppress(HeadgateError):
                happenings, cursor = await process.in_thread(process.store.events.after, self._cursor, PAGE)
                self._cursor = cursor
                self._feed_ids += [happening.id for happening in happenings]
                self._replaceable_ids |= {happening.id for happening in happenings if happening.kind == "progress"}
            await asyncio.sleep(READ_SECONDS)

    def _restart_later(self, process: Process) -> None:
        """Start a process that was killed again, after a while."""
        if not self._over and process.name in self._processes:
            self._loop.call_later(self._rng.uniform(*RESTART_SECONDS), self._start, process.name)

    # what befalls them

    def _carry_out(self, move: Move) -> None:
        parameters = dict(move.parameters)
        match move.what:
            case "kill":
                self._database.faults["process killed"] += 1
                self._processes[parameters["process"]].kill()
            case "crash" | "crash_after" | "no_answer" | "unreached":
                fault = Fault(move.what, parameters.get("statement", 0), parameters.get("within"))
                self._database.arm(parameters["process"], fault)
            case "freeze":
                self._database.faults["process frozen"] += 1
                self._processes[parameters["process"]].freeze(parameters["seconds"])
            case "outage":
                self._database.faults["store away"] += 1
                self._database.down_until = self._loop.time() + parameters["seconds"]
            case "lose_news":
                self._database.news_lost_until = self._loop.time() + parameters["seconds"]
            case "fall_ill":
                self._database.faults[f"receiver {parameters['how']}"] += 1
                self._receiver.fall_ill(parameters["how"], parameters["seconds"])
            case "step_clock":
                self._database.faults["clock set"] += 1
                self._wall.step(parameters["seconds"])
            case "submit_late":
                if not self._database.one_writer:  # else nobody commits past it
                    self._database.faults["slow commit"] += 1
                    seconds = parameters.pop("seconds")
                    self._loop.call_later(seconds, self._people.submit_late(self._real, **parameters))
            case _:
                self._people.do(move)

    def _set_up(self) -> None:
        store = self._quiet_store()
        store.migrate()
        for task in self._tasks.values():
            store.types.put(task._handler.type)
        for lane, capacity in LANES.items():
            store.lanes.set_capacity(lane, capacity)
        for name, capacity in RESOURCES.items():
            store.resources.set(name, capacity)
        for name, rate in RATES.items():
            store.rate_limits.set(name, rate)

    def _quiet_store(self) -> Store:
        """A store that no fault befalls."""
        return Process("world", self._database, self._ledger, self._rng, self._restart_later).store

    def _heal(self) -> None:
        """No more faults: the clock is at its latest, every lane has room, everybody answers."""
        self._database.disarm()
        self._database.down_until = self._database.news_lost_until = 0.0
        self._wall.step_to_latest()
        self._receiver.heal()
        store = self._quiet_store()
        for pause in store.pauses.active():
            store.pauses.end(pause.scope, pause.name)
        for lane in LANES:
            store.lanes.set_capacity(lane, 2)

    async def _stop_schedules(self) -> None:
        """Nothing would ever come to rest: give them the time to make up for what they missed, and end them."""
        schedules, healed = self._quiet_store().schedules, self._wall().timestamp()
        if not schedules.find(limit=1):
            return
        await asyncio.sleep(CATCH_UP_SECONDS)
        self._ticks_until = healed
        for schedule in schedules.find(status=ScheduleStatus.ONLINE, limit=PAGE):
            schedules.offline(schedule.id)

    async def _rest(self) -> None:
        """Wait until everything has ended; a person at the desk deals with what needs one."""
        store, end = self._quiet_store(), self._loop.time() + LONGEST_REST_SECONDS
        while self._loop.time() < end:
            await asyncio.sleep(LOOK_SECONDS)
            waiting = list(_all_tasks(store, Filter(status=tuple(OPEN))))
            open_calls = any(line.result is Result.EXECUTING for line, _ in _all_log_lines(store))
            if not waiting and not open_calls and not store.deliveries.deliverables().pending:
                break
            for task in waiting:
                self._people.deal_with(store, task, self._rng.random())
        await self._wait_for_frozen()

    async def _wait_for_frozen(self) -> None:
        """Wait until no process is frozen any more, and the last handlers have ended."""
        for process in list(self._processes.values()):
            with suppress(Killed):
                await process.thawed()
        await asyncio.sleep(LAST_HANDLERS_SECONDS)

    async def _end(self) -> None:
        self._over = True
        for process in self._processes.values():
            process.kill()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)

    # what is left

    def _evidence(self) -> Evidence:
        store = self._quiet_store()
        tasks = list(_all_tasks(store, Filter()))
        return Evidence(
            rows=self._rows(store),
            tasks=[_task_record(task) for task in tasks],
            ledger=self._ledger.entries,
            submissions=self._people.submissions,
            keys=_ids_by_name(tasks),
            feed_ids=self._feed_ids,
            replaceable_ids=self._replaceable_ids,
            deliveries=list(_all_deliveries(store)),
            received=self._receiver.receipts,
            callbacks={code: tuple(task._handler.type.callback) for code, task in self._tasks.items()},
            log_lines=self._log_lines(store),
            arrivals=self._endpoints.arrivals,
            ticks_until=self._ticks_until,
            uses={code: task._handler.type.uses for code, task in self._tasks.items()},
            timeouts={code: task._handler.type.timeout_seconds for code, task in self._tasks.items()},
            workers=[worker.id for worker in store.workers.all(lost_too=True) if worker.agent_id is None],
            ended_at=self._wall().timestamp(),
            skew=SKEW,
            start_seconds=SETTINGS.compensation_start_interval,
        )

    def _log_lines(self, store: Store) -> list[ScheduleLogLine]:
        found = sorted(_all_log_lines(store), key=lambda pair: pair[0].id)
        times = self._wall.virtual(line.create_date for line, _ in found)
        return [
            ScheduleLogLine(
                at,
                line.periodic_task_id,
                None if line.tick is None else tick_text(line.tick),
                line.result,
                line.task_id,
                trans,
            )
            for at, (line, trans) in zip(times, found, strict=True)
        ]

    def _rows(self, store: Store) -> list[Row]:
        rows, (page, cursor) = [], store.events.after(Cursor(), PAGE)
        while page:
            rows += page
            page, cursor = store.events.after(cursor, PAGE)
        rows.sort(key=lambda row: row.id)
        times = self._wall.virtual(row.at for row in rows)
        return [
            Row(
                row.id, row.task_id, row.seq, at, row.at.timestamp(), row.kind, row.before, row.after, row.actor,
                row.exec_id, row.detail,
            )
            for row, at in zip(rows, times, strict=True)
        ]  # fmt: skip


def _all_tasks(store: Store, wanted: Filter) -> Iterator[Task]:
    return every(lambda cursor: store.tasks.find(wanted, cursor=cursor, limit=PAGE))


def _all_deliveries(store: Store) -> Iterator[DeliveryRow]:
    for each in every(lambda cursor: store.deliveries.find(DeliveryFilter(), cursor=cursor, limit=PAGE)):
        yield DeliveryRow(each.id, each.webhook_id, each.task_id, each.kind, each.seq, each.status, each.attempts)


def _all_log_lines(store: Store) -> Iterator[tuple[TickLog, bool]]:
    """Every line of every schedule's log, and whether it ends with what its tick began."""
    for schedule in store.schedules.find(limit=PAGE):
        cursor = None
        while page := store.schedules.logs(schedule.id, cursor=cursor, limit=PAGE):
            yield from ((line, schedule.definition.log is LogMode.TRANS) for line in page)
            cursor = page[-1].id


def _task_record(task: Task) -> TaskRecord:
    finished = None if task.finished_at is None else task.finished_at.timestamp()
    return TaskRecord(
        task.id, task.tenant_id, task.type, task.status, task.lane, task.mutex, task.rate_key, task.parent_id,
        task.root_id, task.seq, task.attempt, task.exec_id, task.worker_id, finished, task.start_time.timestamp(),
        task.retry_of, task.agent_id, task.correlation_id, task.error_count, task.lost_count,
    )  # fmt: skip


def _ids_by_name(tasks: Sequence[Task]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for task in tasks:
        if task.name is not None and task.retry_of is None:
            found[task.name] = (*found.get(task.name, ()), task.id)
    return found
