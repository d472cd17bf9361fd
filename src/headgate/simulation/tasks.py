"""The tasks of a simulated program: each does what its arguments say, and writes it to the ledger."""

import asyncio
from typing import Any

from headgate.app import Headgate
from headgate.client import Call
from headgate.core.callbacks import Callback
from headgate.core.limits import Rate
from headgate.core.retry import fixed
from headgate.settings import Settings
from headgate.simulation.network import URL
from headgate.simulation.process import current_process
from headgate.task_function import TaskFunction
from headgate.worker.context import Context, context
from headgate.worker.run import Snooze

LANES = {"narrow": 2, "single": 1}
RESOURCES = {"tool": 1, "press": 2}
RATES = {"type:limited": Rate(2.0, 3), "key:api": Rate(1.0, 2)}
KEYED = "keyed"
ERRAND = "errand"  # for agents; what is assigned to none, workers do as well
PARENTS = ("parent", "strict", "overseer")

Function = TaskFunction[..., Any, Any]


def declare_tasks(settings: Settings) -> dict[str, Function]:
    """Declare the app's tasks; returns them by their codes."""
    app = Headgate(settings=settings)

    async def perform(seconds: float, ends: list[str], children: int = 0, stubborn: bool = False) -> Snooze | None:
        me, notes = context(), Notes(context())
        notes.write("start")
        try:
            await notes.work(seconds, stubborn=stubborn)
            end = ends[min(me.attempt, len(ends)) - 1]
            if end == "children":
                await me.submit_many([_child(tasks, number) for number in range(children)])
                await notes.work(0.1)
            elif end == "children, unawaited":
                for number in range(children):
                    notes.write("child")
                    me.submit(_child(tasks, number))
            elif end == "give up":
                await me.submit_many([_child(tasks, number) for number in range(children)])
                raise ValueError("it will never work")
            elif end == "checkpoint":
                await me.checkpoint("half", {"attempt": me.attempt})
                await notes.work(seconds)
            elif end == "progress":
                await me.progress(1, 2)
                await notes.work(seconds)
            elif end == "fail":
                raise ConnectionError("the other side hung up")
            elif end == "crash":
                current_process.get().kill()
            elif end == "snooze":
                return Snooze(1.0)
            return None
        except Exception:
            notes.write("error")
            raise
        finally:
            notes.write("end")

    tasks: dict[str, Function] = {}
    for code, options in _TYPES.items():
        tasks[code] = app.task(code=code, **_DEFAULTS | options)(perform)
    return tasks


# Longer than a history: no deadline is to make up for what is forgotten.
_DEFAULTS: dict[str, Any] = {"retry": fixed(0.5, retries=2), "timeout_seconds": 3600.0}
_CALLBACK: Callback = {"success": {"url": f"{URL}/good"}, "error": {"url": f"{URL}/bad", "method": "PUT"}}
_TYPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "narrow": {"lane": "narrow"},
    "single": {"lane": "single"},
    "tooled": {"uses": ("tool",), "timeout_seconds": 3.0},
    "pressed": {"uses": ("tool", "press"), "lane": "narrow"},
    "limited": {},
    KEYED: {},
    "manual": {"need_manual": True},
    "parent": {},
    "strict": {"on_child_failure": "cancel"},
    "overseer": {"need_manual": True},
    "brief": {"timeout_seconds": 1.0},
    ERRAND: {"timeout_seconds": 60.0},  # what an agent forgets while it lives is ended by its deadline
    "told": {"callback": _CALLBACK},
    "told-manual": {"callback": _CALLBACK, "need_manual": True},
}


def _child(tasks: dict[str, Function], number: int) -> Call[Any]:
    code = ("plain", "narrow", KEYED)[number % 3]
    function = tasks[code].using(mutex="family") if code == KEYED else tasks[code]
    return function.call(0.2, {0: ["fail", "ok"], 3: ["fail"]}.get(number % 5, ["ok"]))


class Notes:
    """What one execution writes to the ledger, as long as its process is there to write."""

    def __init__(self, me: Context) -> None:
        self._me = me
        self._process = current_process.get()

    def write(self, what: str) -> None:
        self._process.note(what, self._me.task_id, self._me.exec_id, self._me.attempt)

    async def work(self, seconds: float, *, stubborn: bool = False) -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(seconds / 2)
            except asyncio.CancelledError:
                if not stubborn or not self._process.alive:
                    raise
            await self._process.thawed()
            self.write("effect")
