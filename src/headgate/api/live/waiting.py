"""An answer that waits: for a task to end, or for what it says."""

from collections.abc import Collection
from typing import Annotated

from msgspec import Meta

from headgate.api.server import Server
from headgate.core.states import FINAL, State
from headgate.core.task import Task
from headgate.pauses import Backoff, wait
from headgate.store.execution.reports import LogLine

LONGEST_WAIT = 300.0
LOOKS = Backoff(0.01, 0.25, factor=1.5)

Wait = Annotated[float | None, Meta(description="Seconds to wait for the end.", ge=0, le=LONGEST_WAIT)]


async def wait_for_end(server: Server, task: Task, seconds: float, ends: Collection[State]) -> Task:
    """The task when it is in one of these states, or as it is when the time is up or the server stops."""
    for pause in LOOKS.pauses(seconds):
        if task.status in ends or await wait(server.stopping, pause):
            break
        task = await server.in_thread(server.store.tasks.get, task.id)
    return task


async def new_log_lines(server: Server, task_id: int, after: int, limit: int, seconds: float) -> list[LogLine]:
    """A task's log lines behind `after`, as soon as there is one; none if the time is up or it says nothing more."""
    lines: list[LogLine] = []
    for pause in LOOKS.pauses(seconds):
        going = seconds > 0 and (await server.in_thread(server.store.tasks.get, task_id)).status not in FINAL
        lines = await server.in_thread(server.store.executions.log, task_id, after=after, limit=limit)
        if lines or not going or await wait(server.stopping, pause):
            break
    return lines
