"""An answer that waits for a task to end."""

import asyncio
from collections.abc import Collection
from typing import Annotated

from litestar.params import QueryParameter

from headgate.api.server import Server
from headgate.core.states import State
from headgate.core.task import Task
from headgate.outside import monotonic

LONGEST_WAIT = 300.0
FIRST_LOOK, LONGEST_LOOK = 0.01, 0.25

Wait = Annotated[float | None, QueryParameter(description="Seconds to wait for the end.", ge=0, le=LONGEST_WAIT)]


async def awaited(server: Server, task: Task, seconds: float, ends: Collection[State]) -> Task:
    """The task when it is in one of these states, or as it is when the time is up or the server stops."""
    end, pause = monotonic() + seconds, FIRST_LOOK
    while task.status not in ends and (left := end - monotonic()) > 0 and not server.stopping.is_set():
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_LOOK)
        task = await server.aside(server.store.get, task.id)
    return task
