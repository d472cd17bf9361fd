"""Schedules, made the way the product makes them, and fired by hand."""

from datetime import datetime, timedelta
from typing import Any

from headgate.core.cron import Missed, Overlap
from headgate.core.schedule import Endpoint, LogMode, NewSchedule, Schedule, ScheduleStatus, TickLog
from headgate.core.task import NewTask, Task
from headgate.duties.schedules import fire_due
from headgate.store.reading.lists import Filter
from headgate.store.schedules.tick_runs import CallShare, HttpCall
from headgate.store.store import Store
from tests.factories import START, Clock

MINUTELY = "* * * * *"
CALLED = Endpoint("https://example.org/hook")


def new(cron: str = MINUTELY, type_code: str = "plain", **said: Any) -> NewSchedule:
    """What is asked for: fields of the task and of the schedule."""
    about = {"log": LogMode, "missed": Missed, "overlap": Overlap}
    of_schedule: dict[str, Any] = {name: kind(said.pop(name)) for name, kind in about.items() if name in said}
    for name in ("timezone", "http", "code"):
        if name in said:
            of_schedule[name] = said.pop(name)
    return NewSchedule(NewTask(type_code, **said), cron, **of_schedule)


def online(store: Store, cron: str = MINUTELY, type_code: str = "plain", **said: Any) -> Schedule:
    return store.schedules.add(new(cron, type_code, **said), status=ScheduleStatus.ONLINE)


def tick(store: Store, clock: Clock, minutes: float = 1) -> int:
    """Let time go by, and fire what is due; of how many schedules."""
    clock.advance(60 * minutes)
    return fire_due(store)


def take_calls(store: Store, caller: str, limit: int = 10) -> list[HttpCall]:
    """Take so many of the calls that wait, of each tenant to each host."""
    waiting = store.schedules.waiting_calls(tenants=10, hosts=10)
    shares = [CallShare(tenant_id, host, limit) for tenant_id, hosts in waiting.items() for host in hosts]
    return store.schedules.take_calls(caller, shares)


def fired(store: Store, schedule: Schedule) -> list[int]:
    """The ticks that made a task, as minutes since the clock's start, in their order."""
    ids = sorted((task.id, task.correlation_id or "") for task in made(store))
    mark = f"periodic:{schedule.id}:"
    texts = [text.removeprefix(mark) for _, text in ids if text.startswith(mark) and not text.endswith("by-hand")]
    return [minute(text) for text in texts]


def minute(text: str) -> int:
    return round((datetime.fromisoformat(text) - START) / timedelta(minutes=1))


def made(store: Store) -> list[Task]:
    return store.tasks.find(Filter(), limit=200).items


def logged(store: Store, schedule: Schedule) -> list[tuple[str, str | None]]:
    """What its log says, oldest first."""
    return [(line.result.value, line.error_info) for line in lines(store, schedule)]


def lines(store: Store, schedule: Schedule) -> list[TickLog]:
    return store.schedules.logs(schedule.id, limit=200)[::-1]
