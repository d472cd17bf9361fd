"""The schedules of one program: which of its tasks, when, with which arguments; each under its code."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.client import Call, call_of
from headgate.core.cron import Cron, Missed, Overlap
from headgate.core.errors import Invalid
from headgate.core.schedule import LogMode, NewSchedule, check_schedule
from headgate.core.task import NewTask
from headgate.registry import Handler, Registry


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """What `@app.periodic` says. Above `@app.task` it knows how to call the task, below it only the function."""

    function: Callable[..., Any]
    call: Callable[..., Call[Any]] | None
    cron: str
    timezone: str = "UTC"
    arguments: Mapping[str, Any] | None = None
    code: str | None = None
    log: str = LogMode.TRANS
    missed: str = Missed.SKIP
    overlap: str = Overlap.ALLOW

    def __post_init__(self) -> None:
        Cron(self.cron, self.timezone)
        for name, choices in (("log", LogMode), ("missed", Missed), ("overlap", Overlap)):
            if getattr(self, name) not in list(choices):
                raise Invalid(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}")

    def schedule(self, registry: Registry) -> NewSchedule:
        """The schedule it declares; `Invalid` if its function is not a task or does not take its arguments."""
        arguments = self.arguments or {}
        if self.call is None:
            handler = self._handler_in(registry)
            call = call_of(handler, NewTask(handler.code), (), arguments)
        else:
            call = self.call(**arguments)
        new = NewSchedule(
            task=call._new,
            cron_expressions=self.cron,
            timezone=self.timezone,
            log=LogMode(self.log),
            missed=Missed(self.missed),
            overlap=Overlap(self.overlap),
            code=call._new.type if self.code is None else self.code,
        )
        check_schedule(new)
        return new

    def _handler_in(self, registry: Registry) -> Handler:
        name = self.function.__qualname__
        found = [handler for handler in registry if handler.function is self.function]
        if not found:
            raise Invalid(f"{name} has @app.periodic but not @app.task: add @app.task")
        if len(found) > 1:
            codes = ", ".join(handler.code for handler in found)
            raise Invalid(f"{name} is more than one task ({codes}): put @app.periodic above the right @app.task")
        return found[0]


class Timetable:
    """The entries of one program."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._entries: list[DeclaredSchedule] = []
        self.edition = 0  # moves with every entry that is added

    def add(self, entry: DeclaredSchedule) -> None:
        self._entries.append(entry)
        self.edition += 1

    def __iter__(self) -> Iterator[DeclaredSchedule]:
        return iter(list(self._entries))

    def schedules(self) -> list[NewSchedule]:
        """The schedules of all entries; `Invalid` if two have the same code."""
        found: dict[str | None, NewSchedule] = {}
        for entry in self:
            new = entry.schedule(self._registry)
            if new.code in found:
                raise Invalid(f"two schedules have the code {new.code}: give one of them another code")
            found[new.code] = new
        return list(found.values())
