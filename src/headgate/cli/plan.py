"""What a long-running process does, as passed to it on its command line."""

import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

import msgspec

from headgate.settings import check_broker

WORKER_MODULE = "headgate.cli.running"
SUPERVISOR_MODULE = "headgate.cli.supervisor"


class Duties(StrEnum):
    """Which of the background duties a process does."""

    ALL = "all"
    LIGHT = "light"  # those without which tasks would stand still
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One process: the modules and packs whose tasks it executes if it works, the duties it does, the API.

    A process without a `parent` executes nothing itself: it has worker processes, which it keeps alive.
    """

    modules: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()  # besides those that are configured
    work: bool = False
    duties: Duties = Duties.ALL
    api: bool = False
    host: str | None = None  # None: as configured
    port: int | None = None
    migrate: bool = False
    greeting: str = ""
    name: str | None = None
    processes: int = 1
    concurrency: int | None = None
    threads: int | None = None
    children: int | None = None
    log_json: bool = False
    stage: int | None = None  # where it notes whose handlers run code, for its supervisor to read after its death
    parent: int | None = None  # the pipe to the supervisor, who also holds its stdin: it ends when that does


def command_line(module: str, plan: ProcessPlan) -> list[str]:
    """The command that starts a process on this plan. `-P`: no file in the working directory may shadow ours."""
    return [sys.executable, "-P", "-m", module, msgspec.json.encode(plan).decode()]


def exec_process(module: str, plan: ProcessPlan, url: str | None, broker: str | None) -> NoReturn:
    """Replace this process with one that works on the plan, which frees the memory of the command line."""
    if broker is not None:
        check_broker(broker)
    for name, value in (("HEADGATE_URL", url), ("HEADGATE_BROKER", broker)):
        if value is not None:
            os.environ[name] = value  # not on the command line, which everybody on the machine can read
    sys.stdout.flush()
    sys.stderr.flush()
    arguments = command_line(module, plan)
    os.execv(arguments[0], arguments)


def plan_from_argv() -> ProcessPlan:
    """The plan this process was started with."""
    return msgspec.json.decode(sys.argv[1], type=ProcessPlan)
