"""The plan of a history, drawn from its seed: a list of moves, so that some can be left out."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headgate.core.pause import PauseScope
from headgate.simulation.broker import CONDITIONS as BROKER_CONDITIONS
from headgate.simulation.broker import FAULTS as BROKER_FAULTS
from headgate.simulation.network import CONDITIONS
from headgate.simulation.tasks import ERRAND, KEYED, LANES, PARENTS, RATES, RESOURCES

WORKERS = ("worker 1", "worker 2", "worker 3")
DUTIES = "duties"
CLIENTS = ("client 1", "client 2")
AGENTS = {"agent 1": "rig", "agent 2": "rig", "agent 3": "mill"}  # processes, and the agent that each is one of
CHAOS_SECONDS = 20.0

# Transactions that are rare, and who makes them: a fault waits for each of these, too.
RARE_TRANSACTIONS: tuple[tuple[str, str], ...] = tuple(
    (process, what)
    for what, processes in {
        "Workers.mark_lost": (WORKERS[0], DUTIES),
        "Executions.lose": (WORKERS[0], DUTIES),
        "Executions.end_overdue": (WORKERS[0], DUTIES),
        "DueTasks.bring": (WORKERS[0], DUTIES),
        "Mutexes.repair": (WORKERS[0], DUTIES),
        "History.move": (DUTIES,),  # to history
        "Families.close": (*WORKERS, DUTIES),  # a family
        "Families.cancel": (*CLIENTS, *WORKERS, DUTIES),
        "FamilyProgress.tell": (WORKERS[0], DUTIES),
        "Tasks.act": CLIENTS,
        "Lanes.set_capacity": CLIENTS,
        "Catalog.make_streams": CLIENTS,
        "Tasks.submit_many": (*CLIENTS, *WORKERS),
        "Executions.settle_and_claim": WORKERS,
        "Executions.give_back_strays": WORKERS,
        "Executions.save_checkpoint": WORKERS,
        "Executions.progress": WORKERS,
        "Workers.register": WORKERS,
        "Workers.beat": WORKERS,
        "Agents.hand_over": AGENTS,
        "Executions.start": AGENTS,
        "Agents.sign_on": AGENTS,
        "Compensation.begin": (WORKERS[0], DUTIES),
        "Compensation.poll": (WORKERS[0], DUTIES),
        "Deliveries.record_and_lease": (WORKERS[0], DUTIES),
        "Deliveries.redeliver": CLIENTS,
        "Schedules.fire": (WORKERS[0], DUTIES),
        "Schedules.end_runs": (WORKERS[0], DUTIES),
        "Schedules.take_calls": (WORKERS[0], DUTIES),
        "Schedules.end_call": (WORKERS[0], DUTIES),
        "Schedules.add": CLIENTS,
        "Schedules.put": CLIENTS,
        "Schedules.set_status": CLIENTS,
        "Schedules.trigger": CLIENTS,
    }.items()
    for process in processes
)
# Those that only a broker makes necessary.
BROKER_TRANSACTIONS: tuple[tuple[str, str], ...] = tuple(
    (process, what)
    for what, processes in {
        "Dispatch.lead": (WORKERS[0], DUTIES),
        "Dispatch.take": (WORKERS[0], DUTIES),
        "Executions.return_unstarted": (WORKERS[0], DUTIES),
        "Executions.settle_and_start": WORKERS,
        "Subscriptions.lease": (WORKERS[0], DUTIES),
        "Subscriptions.save": (WORKERS[0], DUTIES),
        "History.remove": CLIENTS,
    }.items()
    for process in processes
)
BROKER_EVERY = 3  # histories one has a broker
CALL = "call"  # a schedule that calls an endpoint
OFTEN, RARE = ["*/2 * * * * *", "*/5 * * * * *"], ["*/20 * * * * *", "* * * * *"]
NEXT_TRANSACTION_WEIGHT = 10  # faults that wait for any transaction, to one for each of the rare ones

PAUSES = (
    (PauseScope.TYPE, "plain"), (PauseScope.TYPE, KEYED), (PauseScope.TYPE, ERRAND), (PauseScope.TENANT, "1"),
    (PauseScope.KEY, "api"), (PauseScope.LANE, "narrow"), (PauseScope.ALL, ""),
)  # fmt: skip

Draw = random.Random


class Move(NamedTuple):
    """At a time, an act of a person or a fault of a process."""

    at: float
    what: str
    parameters: dict[str, Any]

    def __str__(self) -> str:
        parameters = " ".join(f"{key}={value!r}" for key, value in self.parameters.items() if value is not None)
        return f"{self.at:7.3f}  {self.what} {parameters}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A history before it happens. The seed also decides how long every call takes."""

    seed: int
    moves: Sequence[Move]
    broker: bool = False  # workers get their tasks from one


def plan(seed: int, broker: bool | None = None) -> Plan:
    """The history of a seed: with a broker, without, or (None) as the seed says."""
    draw = random.Random(seed)
    if broker is None:
        broker = seed % BROKER_EVERY == BROKER_EVERY - 1
    moves = [
        *(_submit(draw, number) for number in range(draw.randint(20, 40))),
        *(_act(draw) for _ in range(draw.randint(4, 14))),
        *(_edit(draw) for _ in range(draw.randint(1, 6))),
        *(_fault(draw) for _ in range(draw.randint(3, 12))),
        *(_late(draw, number) for number in range(draw.randint(0, 3))),
        *(_errand(draw, number) for number in range(draw.randint(0, 9))),
        *(_mishap(draw) for _ in range(draw.randint(0, 3))),
        *(_illness(draw) for _ in range(draw.randint(0, 3))),
        *(_schedule(draw, number) for number in range(draw.randint(0, 2))),
        *(_steer_schedule(draw) for _ in range(draw.randint(0, 5))),
        *(_pause(draw) for _ in range(draw.randint(0, 4))),
    ]
    if broker:
        moves += [
            *(_broker_fault(draw) for _ in range(draw.randint(1, 8))),
            *(_purge(draw) for _ in range(draw.randint(0, 4))),
        ]
    return Plan(seed, sorted(moves, key=lambda move: move.at), broker)


def _submit(draw: Draw, number: int) -> Move:
    task_type = draw.choice(
        ["plain", "plain", "narrow", "narrow", "single", "tooled", "pressed", "limited", KEYED, KEYED, KEYED, "manual",
         "parent", "parent", "strict", "overseer", "brief", "told", "told", "told-manual"]
    )  # fmt: skip
    parameters: dict[str, Any] = {"client": draw.choice(CLIENTS), "key": f"wish {number}", "type": task_type}
    parameters["seconds"] = draw.choice([0.0, 0.05, 0.3, 0.3, 1.0, 1.5, 4.0])
    parameters["ends"] = _ends(draw, task_type)
    parameters["children"] = draw.randint(1, 6) if task_type in PARENTS else 0
    parameters["stubborn"] = draw.random() < 0.2
    parameters["mutex"] = f"key {draw.randint(1, 3)}" if task_type == KEYED or draw.random() < 0.08 else None
    parameters["rate_key"] = "api" if draw.random() < 0.1 else None
    parameters["priority"] = draw.choice([None, None, 1, 9])
    parameters["delay_seconds"] = draw.choice([None, None, None, 0.5, 3.0])
    parameters["unique_key"] = f"unique {draw.randint(1, 2)}" if draw.random() < 0.08 else None
    parameters["parent"] = draw.random() if draw.random() < 0.08 else None  # a task that is there becomes its parent
    parameters["tenant_id"] = 1 if draw.random() < 0.1 else None
    begin = draw.random() * draw.choice([0.5, 6.0, CHAOS_SECONDS])
    return Move(begin, "submit", {key: value for key, value in parameters.items() if value is not None})


def _errand(draw: Draw, number: int) -> Move:
    """Tasks for agents, most of them assigned to one."""
    parameters: dict[str, Any] = {"client": draw.choice(CLIENTS), "key": f"errand {number}", "type": ERRAND}
    parameters["seconds"] = draw.choice([0.05, 0.3, 1.0, 2.5])
    parameters["ends"] = draw.choice(
        [["ok"], ["ok"], ["ok"], ["forget", "ok"], ["forget", "forget", "ok"], ["die", "ok"], ["fail", "ok"], ["fail"]]
    )
    parameters |= {"children": 0, "stubborn": False, "agent_id": draw.choice(["rig", "rig", "rig", "mill", None])}
    parameters["lane"] = draw.choice([None, None, *LANES])
    parameters["mutex"] = f"key {draw.randint(1, 3)}" if draw.random() < 0.2 else None
    parameters["tenant_id"] = 1 if draw.random() < 0.1 else None
    parameters["priority"] = draw.choice([None, None, 1, 9])
    begin = draw.random() * draw.choice([0.5, 6.0, CHAOS_SECONDS])
    return Move(begin, "submit", {key: value for key, value in parameters.items() if value is not None})


def _mishap(draw: Draw) -> Move:
    """Faults of agents, and a person who searches for lost starts."""
    at, agent = draw.uniform(0.1, CHAOS_SECONDS), draw.choice(list(AGENTS))
    match draw.randint(1, 6):
        case 1:
            return Move(at, "kill", {"process": agent})
        case 2:
            return Move(at, "freeze", {"process": agent, "seconds": draw.uniform(2, 12)})
        case 3:
            return Move(at, "trigger", {"client": draw.choice(CLIENTS)})
    within = draw.choice(
        [*["Agents.hand_over"] * 2, "Executions.start", "Executions.settle_and_claim", "Workers.beat", None]
    )
    what = draw.choice(["crash", "crash_after", "no_answer", "no_answer", "unreached"])
    return Move(at, what, {"process": agent, "within": within, "statement": draw.randint(0, 12)})


def _late(draw: Draw, number: int) -> Move:
    parameters: dict[str, Any] = {"key": f"late wish {number}", "type": draw.choice(["plain", "narrow"])}
    parameters["seconds"] = draw.uniform(0.1, 3)
    return Move(draw.uniform(0.1, CHAOS_SECONDS - 4), "submit_late", parameters)


def _illness(draw: Draw) -> Move:
    parameters = {"how": draw.choice(CONDITIONS[1:]), "seconds": draw.choice([0.5, 3.0, 10.0])}
    return Move(draw.uniform(0.1, CHAOS_SECONDS), "fall_ill", parameters)


def _schedule(draw: Draw, number: int) -> Move:
    parameters: dict[str, Any] = {"client": draw.choice(CLIENTS), "key": f"schedule {number}"}
    parameters["type"] = draw.choice(["plain", "plain", "narrow", "manual", CALL])
    parameters["missed"] = draw.choice(["skip", "once", "all"])
    parameters["cron"] = draw.choice(RARE if parameters["missed"] == "all" else [*RARE, *OFTEN])
    parameters["overlap"] = draw.choice(["allow", "skip", "queue"])
    # What makes no task is known by its log alone.
    quiet = parameters["overlap"] != "skip" and parameters["type"] != CALL
    parameters["log"] = draw.choice(["none", "trigger_log", "trans_log"]) if quiet else "trans_log"
    parameters["seconds"] = draw.choice([0.05, 0.3] if parameters["overlap"] == "queue" else [0.05, 0.3, 3.0])
    parameters["ends"] = draw.choice([["ok"], ["ok"], ["fail"], ["fail", "ok"]])
    return Move(draw.uniform(0.0, CHAOS_SECONDS / 2), "add_schedule", parameters)


def _steer_schedule(draw: Draw) -> Move:
    what = draw.choice(["schedule_offline", "schedule_online", "schedule_online", "schedule_trigger", "schedule_edit"])
    parameters: dict[str, Any] = {"client": draw.choice(CLIENTS), "pick": draw.random()}
    if what == "schedule_edit":
        parameters["cron"] = draw.choice([None, *RARE])
    return Move(draw.uniform(0.5, CHAOS_SECONDS), what, parameters)


def _ends(draw: Draw, task_type: str) -> list[str]:
    if task_type in PARENTS:
        return draw.choice([["children"], ["children"], ["give up"], ["give up", "children"], ["crash", "children"]])
    if task_type in ("manual", "told-manual"):
        return draw.choice([["fail"], ["ok"], ["fail", "fail", "fail", "ok"]])
    if draw.random() < 0.02:
        return ["crash"]
    return draw.choice(
        [["ok"], ["ok"], ["ok"], ["fail", "ok"], ["fail"], ["checkpoint"], ["progress"], ["snooze", "ok"],
         ["crash", "ok"] if draw.random() < 0.2 else ["ok"]]
    )  # fmt: skip


def _act(draw: Draw) -> Move:
    what = draw.choice(
        ["cancel", "cancel", "cancel", "pause", "pause", "resume", "prioritize", "retry", "resolve", "redeliver"]
    )
    recent = max(draw.random(), draw.random())  # people steer what they asked for last
    return Move(draw.uniform(0.1, CHAOS_SECONDS), what, {"client": draw.choice(CLIENTS), "pick": recent})


def _edit(draw: Draw) -> Move:
    at, client = draw.uniform(0.1, CHAOS_SECONDS), draw.choice(CLIENTS)
    match draw.randint(1, 5):
        case 1 | 2:
            lane = draw.choice(list(LANES))
            return Move(at, "set_capacity", {"client": client, "lane": lane, "capacity": draw.randint(0, 3)})
        case 3:
            paused = draw.choice([None, "default", *LANES])
            return Move(at, draw.choice(["pause_lane", "resume_lane"]), {"client": client, "lane": paused})
        case 4:
            name = draw.choice(list(RESOURCES))
            return Move(at, "set_resource", {"client": client, "name": name, "capacity": draw.randint(1, 2)})
    name = draw.choice(list(RATES))
    return Move(at, "set_rate", {"client": client, "name": name, "rate": draw.choice([0.5, 2.0, 5.0]), "burst": 2})


def _pause(draw: Draw) -> Move:
    scope, name = draw.choice(PAUSES)
    parameters: dict[str, Any] = {"client": draw.choice(CLIENTS), "scope": scope, "name": name}
    at = draw.uniform(0.1, CHAOS_SECONDS)
    if draw.random() < 0.25:
        return Move(at, "end_pause", parameters)
    return Move(at, "set_pause", parameters | {"seconds": draw.choice([None, 0.5, 2.0, 6.0])})


def _broker_fault(draw: Draw) -> Move:
    at, what = draw.uniform(0.1, CHAOS_SECONDS), draw.choice([*BROKER_FAULTS, "transaction"])
    match what:
        case "transaction":
            what = draw.choice(["crash", "crash_after", "no_answer", "no_answer", "unreached"])
            process, within = draw.choice(BROKER_TRANSACTIONS)
            return Move(at, what, {"process": process, "within": within, "statement": draw.randint(0, 8)})
        case "stop":
            parameters: dict[str, Any] = {"seconds": draw.choice([0.0, 0.3, 3.0, 8.0])}
        case "cut" | "cut_in_mid_publish":
            parameters = {"process": draw.choice([*WORKERS, DUTIES] if what == "cut" else [WORKERS[0], DUTIES])}
        case "fall_ill":
            parameters = {"how": draw.choice(BROKER_CONDITIONS), "seconds": draw.choice([1.0, 3.0, 10.0])}
        case _:
            parameters = {"pick": draw.random()}
    return Move(at, "break_broker", {"what": what, **parameters})


def _purge(draw: Draw) -> Move:
    parameters = {"client": draw.choice(CLIENTS), "seconds": draw.choice([0.0, 0.5, 3.0])}
    return Move(draw.uniform(1.0, CHAOS_SECONDS), "purge", parameters)


def _fault(draw: Draw) -> Move:
    at = draw.uniform(0.1, CHAOS_SECONDS)
    anyone = draw.choice([*WORKERS, *WORKERS, DUTIES, *CLIENTS])
    match draw.randint(1, 10):
        case 1:
            return Move(at, "kill", {"process": anyone})
        case 2 | 3 | 4 | 5 | 6:
            what = draw.choice(["crash", "crash", "crash_after", "no_answer", "no_answer", "unreached"])
            process, within = draw.choice([*[(anyone, None)] * NEXT_TRANSACTION_WEIGHT, *RARE_TRANSACTIONS])
            parameters = {"process": process, "within": within, "statement": draw.randint(0, 8)}
            return Move(at, what, parameters)
        case 7:
            return Move(at, "freeze", {"process": draw.choice([*WORKERS, DUTIES]), "seconds": draw.uniform(2, 12)})
        case 8:
            return Move(at, "outage", {"seconds": draw.uniform(0.2, 6)})
        case 9:
            return Move(at, "lose_news", {"seconds": draw.uniform(0.5, 5)})
    return Move(at, "step_clock", {"seconds": draw.choice([-3600.0, -5.0, -1.0, 1.0, 5.0, 3600.0])})
