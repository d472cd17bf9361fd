"""One history: processes, people and faults as the plan says, on one virtual clock, and the evidence of it."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any

from headgate.core.errors import HeadgateError
from headgate.core.schedule import Result, ScheduleStatus
from headgate.core.states import FINAL, State
from headgate.duties import (
    Archive,
    Callbacks,
    Calls,
    Compensate,
    Dispatcher,
    FireSchedules,
    Relay,
    RemoveUnusedStreams,
    Sampler,
    light_duties,
)
from headgate.duties.relay import SUBSCRIPTION
from headgate.environment import Environment, replaced
from headgate.registry import Registry
from headgate.service import Service
from headgate.settings import Settings
from headgate.simulation.agent import LoopAgent
from headgate.simulation.broker import SimulatedBroker
from headgate.simulation.database import Fault, SharedDatabase, Transaction, WallClock
from headgate.simulation.evidence import Evidence, Ledger
from headgate.simulation.handovers import Handovers
from headgate.simulation.link import SimulatedLink
from headgate.simulation.loop import VirtualLoop
from headgate.simulation.network import Endpoints, SimulatedReceiver
from headgate.simulation.people import People
from headgate.simulation.plan import AGENTS, CHAOS_SECONDS, CLIENTS, DUTIES, WORKERS, Move, Plan
from headgate.simulation.process import Killed, Process, current_process
from headgate.simulation.remains import PAGE, Remains, all_log_lines, all_tasks
from headgate.simulation.tasks import LANES, RATES, RESOURCES, declare_tasks
from headgate.simulation.worker import LoopBeat, LoopWorker, UnwatchedLoop
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
WITH_BROKER = replace(
    SETTINGS, broker="amqp://broker.example", broker_consumers=2, broker_prefetch=2, broker_resend_seconds=3.0
)
UNUSED_LOOK_SECONDS = 1.0
KEEP_SECONDS = 5.0
RESTART_SECONDS = (0.2, 4.0)
CATCH_UP_SECONDS = 20.0  # longer than any process is frozen: every earlier tick is dealt with in that time
CALL_LEASE_SECONDS, CALL_WATCH_SECONDS = 10.0, 2.0
LONGEST_REST_SECONDS = 400.0
LOOK_SECONDS = 2.0
READ_SECONDS = 0.7
LAST_CALLS_SECONDS = 1.0  # after that every client call has reached the store
LAST_HANDLERS_SECONDS = 6.0  # longer than any handler runs that has lost its task without knowing it
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
        self._settings = WITH_BROKER if plan.broker else SETTINGS
        self._tasks = declare_tasks(SETTINGS)
        self._processes: dict[str, Process] = {}
        self._feed_ids: list[int] = []
        self._replaceable_ids: set[int] = set()
        self._cursor = Cursor()
        self._endpoints = Endpoints(rng)
        self._ticks_until: float | None = None
        self._over = False
        self._remains = Remains(self._quiet_store(), wall)
        self._people = People(self._tasks, self._process, SETTINGS.compensation, self._remains.look)
        self._handovers = Handovers(real, self._database)
        self._broker = SimulatedBroker(
            loop.time, loop.call_later, random.Random(f"{plan.seed} broker"), self._database.faults,
            self._handovers.last_row,
        )  # fmt: skip

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
                process.store, registry, self._settings, name=process.name, concurrency=4, threads=1, beat=LoopBeat,
                watch=UnwatchedLoop, link=partial(SimulatedLink, self._broker),
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
        its = (process.store, self._settings, process.in_thread)
        calls = Calls(*its, client=self._endpoints)
        calls.lease_seconds, calls.watch_seconds = CALL_LEASE_SECONDS, CALL_WATCH_SECONDS
        duties: list[Service] = [
            *light_duties(*its), Compensate(*its), Callbacks(*its, client=self._receiver),
            FireSchedules(*its, calls.wake), calls,
        ]  # fmt: skip
        if self._plan.broker:
            duties += [duty(*its, partial(SimulatedLink, self._broker)) for duty in (Dispatcher, Relay)]
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
        """Follow the feed, and store the cursor with what was read."""
        while True:
            with suppress(HeadgateError):
                happenings, cursor = await process.in_thread(process.store.events.after, self._cursor, PAGE)
                self._cursor = cursor
                self._feed_ids += [happening.id for happening in happenings]
                self._replaceable_ids |= {happening.id for happening in happenings if happening.kind == "progress"}
            await asyncio.sleep(READ_SECONDS)

    def _restart_later(self, process: Process) -> None:
        """Start a process that was killed again, after a while."""
        self._broker.drop(process)
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
            case "break_broker":
                self._broker.suffer(**parameters)
            case "submit_late":
                if not self._database.one_writer:  # else nothing can commit past it
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
        if self._plan.broker:  # a new subscription begins with the next event: nothing has happened yet
            store.subscriptions.lease(SUBSCRIPTION, "nobody", 0.0)
            store.subscriptions.release(SUBSCRIPTION, "nobody")

    def _quiet_store(self) -> Store:
        """A store without faults."""
        return Process("world", self._database, self._ledger, self._rng, self._restart_later).store

    def _heal(self) -> None:
        """No more faults: the clock is at its latest, every lane has room, everybody answers."""
        self._database.disarm()
        self._database.down_until = self._database.news_lost_until = 0.0
        self._wall.step_to_latest()
        self._receiver.heal()
        self._broker.heal()
        store = self._quiet_store()
        for pause in store.pauses.active():
            store.pauses.end(pause.scope, pause.name)
        for lane in LANES:
            store.lanes.set_capacity(lane, 2)

    async def _stop_schedules(self) -> None:
        """Schedules would never come to rest: give them time to make up for missed ticks, and end them."""
        schedules, healed = self._quiet_store().schedules, self._wall().timestamp()
        if not schedules.find(limit=1):
            return
        await asyncio.sleep(CATCH_UP_SECONDS)
        self._ticks_until = healed
        for schedule in schedules.find(status=ScheduleStatus.ONLINE, limit=PAGE):
            schedules.offline(schedule.id)

    async def _rest(self) -> None:
        """Wait until everything has ended; a person at the desk deals with what needs one."""
        store, end, fewest = self._quiet_store(), self._loop.time() + LONGEST_REST_SECONDS, inf
        while self._loop.time() < end:
            await asyncio.sleep(LOOK_SECONDS)
            waiting = list(all_tasks(store, Filter(status=tuple(OPEN))))
            if len(waiting) < fewest:  # an hour of missed ticks may be more than a narrow lane does in that time
                fewest, end = len(waiting), self._loop.time() + LONGEST_REST_SECONDS
            open_calls = any(line.result is Result.EXECUTING for line, _ in all_log_lines(store))
            if not waiting and not open_calls and not store.deliveries.deliverables().pending:
                break
            for task in waiting:
                self._people.deal_with(store, task, self._rng.random())
        await self._wait_for_frozen()
        await self._wait_for_relay(store, end)

    async def _wait_for_relay(self, store: Store, end: float) -> None:
        """Wait until nothing that has happened is left to be published."""
        while self._loop.time() < end:
            if all(each.waiting_since is None for each in store.subscriptions.all()):
                break
            await asyncio.sleep(LOOK_SECONDS)

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
        store, remains = self._quiet_store(), self._remains
        remains.look()
        return Evidence(
            rows=remains.rows,
            tasks=remains.tasks,
            ledger=self._ledger.entries,
            submissions=self._people.submissions,
            keys=remains.ids_by_name,
            feed_ids=self._feed_ids,
            replaceable_ids=self._replaceable_ids,
            removed_ids=remains.removed_ids,
            messages=self._broker.entries if self._plan.broker else None,
            handovers=self._handovers.entries,
            deliveries=remains.deliveries,
            received=self._receiver.receipts,
            callbacks={code: tuple(task._handler.type.callback) for code, task in self._tasks.items()},
            log_lines=remains.log_lines,
            arrivals=self._endpoints.arrivals,
            ticks_until=self._ticks_until,
            uses={code: task._handler.type.uses for code, task in self._tasks.items()},
            timeouts={code: task._handler.type.timeout_seconds for code, task in self._tasks.items()},
            workers=[worker.id for worker in store.workers.all(lost_too=True) if worker.agent_id is None],
            ended_at=self._wall().timestamp(),
            skew=SKEW,
            start_seconds=SETTINGS.compensation_start_interval,
        )
