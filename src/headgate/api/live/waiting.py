"""An answer that waits: for a task to end, for what it says, or for work. It ends early with its client or its key."""

import asyncio
from collections.abc import Collection
from typing import Annotated

from msgspec import Meta

from headgate.api.door.principal import LOCAL_PERSON, Principal
from headgate.api.door.shares import Kind
from headgate.api.door.visit import current_visit
from headgate.api.problems import Rejected
from headgate.api.server import Server
from headgate.core.errors import HeadgateError
from headgate.core.states import FINAL, State
from headgate.core.task import Task
from headgate.environment import monotonic, utc_now
from headgate.pauses import Backoff, wait
from headgate.store.execution.reports import LogLine

LONGEST_WAIT = 300.0
LOOKS = Backoff(0.01, 0.25, factor=1.5)
LOOK_SECONDS = 2.0  # how long a revoked key may still wait, and again as long as it is cached
KEY_ENDED = "the key is no longer good"

Wait = Annotated[float | None, Meta(description="Seconds to wait for the task to end.", ge=0, le=LONGEST_WAIT)]


def count_as(kind: Kind) -> None:
    """Count this request as a long poll or a stream of its key; 429, before it does anything, if those are too many."""
    if (visit := current_visit.get()) is not None:
        visit.become(kind)


async def wait_for_end(server: Server, task: Task, seconds: float, ends: Collection[State]) -> Task:
    """The task when it is in one of these states, or as it is when the time is up or the server stops.

    Call `count_as("polls")` before anything is changed for the request that waits.
    """
    for pause in LOOKS.pauses(seconds):
        if task.status in ends or await _is_over(server, pause):
            break
        task = await server.in_thread(server.store.tasks.get, task.id)
        await check_authorized(server)
    return task


async def new_log_lines(server: Server, task_id: int, after: int, limit: int, seconds: float) -> list[LogLine]:
    """A task's log lines behind `after`, as soon as there is one; none if the time is up or no more will come."""
    lines: list[LogLine] = []
    for pause in LOOKS.pauses(seconds):
        going = seconds > 0 and (await server.in_thread(server.store.tasks.get, task_id)).status not in FINAL
        lines = await server.in_thread(server.store.executions.log, task_id, after=after, limit=limit)
        await check_authorized(server)
        if lines or not going or await _is_over(server, pause):
            break
    return lines


async def _is_over(server: Server, pause: float) -> bool:
    """Wait; whether the client is gone or the server stops."""
    visit = current_visit.get()
    if visit is None:
        return await wait(server.stopping, pause)
    return await visit.wait_for_hang_up(pause) or server.stopping.is_set()


async def woken(server: Server, event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set; whether it was in time. 401 if the key of the request ends meanwhile."""
    end = monotonic() + seconds
    while True:
        left = end - monotonic()
        is_set = await wait(event, min(max(left, 0.0), LOOK_SECONDS))
        await check_authorized(server)
        if is_set or left <= LOOK_SECONDS:
            return is_set


async def check_authorized(server: Server) -> None:
    """Raise 401 if the key of the request that waits is no longer good."""
    visit = current_visit.get()
    if visit is not None and not await still_authorized(server, visit.who):
        raise Rejected(401, KEY_ENDED, {"WWW-Authenticate": "Bearer"})


async def still_authorized(server: Server, who: Principal) -> bool:
    """Whether the key that somebody came in with is still good, or there is still none."""
    try:
        if who.name == LOCAL_PERSON.name:
            return not await server.keyring.exist()
        if who.key_id is None:
            return True
        if who.session is not None and await server.sessions.get(who.session) is None:
            return False
        key = await server.keyring.get(who.key_id)
    except HeadgateError:  # the store is away: unknown
        return True
    return key is not None and key.is_active(utc_now())
