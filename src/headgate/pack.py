"""Packs: what is built upon the engine for one trade, as data, and how one is found by its name."""

import difflib
import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

import msgspec

from headgate.core.errors import Invalid
from headgate.core.task import Task, TaskType
from headgate.settings import variables
from headgate.store.db.migrate import migrations
from headgate.store.db.packs import LEDGER

GROUP = "headgate.packs"
MOST = 1_000_000
_NAME = re.compile(r"[a-z][a-z0-9]{0,30}")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of a pack. In a new store `capacity` tasks of it run at once (None: any number), or as `variable` says.

    `/api/queue/stats` counts what is queued in it as `queued_CHANNEL`, if it has a channel.
    """

    name: str
    capacity: int | None = None
    variable: str = ""
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a pack. In a new store `capacity` tasks use it at once, or as `variable` says."""

    name: str
    capacity: int = 1
    variable: str = ""


@dataclass(frozen=True, slots=True)
class EventField:
    """An argument of the pack's tasks that its events carry, so that listeners can filter on it."""

    name: str
    type: type = int

    def value_in(self, ext: str) -> Any:
        """The argument; None if a task has none, or something of another type."""
        try:
            return getattr(msgspec.json.decode(ext, type=_argument(self.name, self.type)), self.name)
        except msgspec.MsgspecError:
            return None


@cache
def _argument(name: str, kind: type) -> Any:
    return msgspec.defstruct("Argument", [(name, kind | None, None)])


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console that is shown where the pack is on; `moved_from` is an old address that leads to it."""

    label: str
    path: str
    moved_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A pack. Modules are named, not imported: a worker loads the handlers, a server the routes and the duties."""

    name: str
    types: tuple[TaskType, ...] = ()
    lanes: tuple[Lane, ...] = ()
    resources: tuple[Resource, ...] = ()
    fields: tuple[EventField, ...] = ()
    pages: tuple[Page, ...] = ()
    settings: type | None = None  # a dataclass that `read_settings` reads
    tune: Callable[[TaskType, Any], TaskType] | None = None  # what the settings make of one of its types
    at_start: Callable[[], None] | None = None  # called at each start, before anything else of the pack
    migrations: str = ""  # the package with the steps of its tables, in migrations/sqlite and migrations/postgres
    handlers: str = ""  # "module:name" of its Tasks
    routes: str = ""  # "module:name" of its routes
    duties: str = ""  # "module:name" of its classes of `Duty`
    commands: str = ""  # "module:name" of its groups of commands, a dict by their names

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Invalid(f"pack {self.name!r}: use at most 31 of a-z and 0-9, beginning with a letter")
        if self.name in _reserved():
            raise Invalid(f"pack {self.name!r}: Headgate's own tables begin with headgate_{self.name}_")

    def tuned_types(self, environment: Mapping[str, str] | None = None) -> tuple[TaskType, ...]:
        """Its types, as its settings make them."""
        if self.tune is None or self.settings is None:
            return self.types
        settings: Any = read_settings(self.settings, environment)
        return tuple(self.tune(task_type, settings) for task_type in self.types)

    def fields_of(self, task_type: str, lane: str, ext: str) -> dict[str, Any]:
        """The pack's fields of a task; none of a task that is not of its types and lanes."""
        if lane not in (each.name for each in self.lanes) and task_type not in (each.code for each in self.types):
            return {}
        return {field.name: field.value_in(ext) for field in self.fields}


@cache
def _reserved() -> set[str]:
    """The first words of the engine's own tables, behind their prefix."""
    names = [LEDGER, *(name for step in migrations("postgres") for name in step.makes)]
    return {name.split("_")[1] for name in names}


def pack_fields(packs: Sequence[Pack], task: Task) -> dict[str, Any]:
    """What the events of a task carry for packs."""
    found: dict[str, Any] = {}
    for pack in packs:
        found |= pack.fields_of(task.type, task.lane, task.ext)
    return found


def find_packs(names: Iterable[str]) -> tuple[Pack, ...]:
    """The packs of these names, each once; `Invalid` for a name that no installed pack has."""
    return tuple(_find(name) for name in dict.fromkeys(names))


@cache
def _find(name: str) -> Pack:
    metadata = importlib.import_module("importlib.metadata")  # only who has packs pays for it
    installed = {entry.name: entry.value for entry in metadata.entry_points(group=GROUP)}
    if name not in installed:
        near = difflib.get_close_matches(name, installed, 1)
        known = f"installed are {', '.join(sorted(installed))}" if installed else "none is installed"
        raise Invalid(f"no pack {name!r}; {known}" + (f"; did you mean {near[0]!r}?" if near else ""))
    pack = load_object(f"pack {name}", installed[name])
    if not isinstance(pack, Pack) or pack.name != name:
        raise Invalid(f"pack {name}: {installed[name]} is not a Pack with that name")
    return pack


def load_object(label: str, place: str) -> Any:
    """What stands at `module:name`; `Invalid`, naming the label, if it cannot be loaded."""
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Invalid(f"{label}: {place} cannot be loaded: {error}") from error


def read_settings(kind: type[S], environment: Mapping[str, str] | None = None) -> S:
    """A pack's settings: each field of the dataclass from the variable of its name in capitals, or its default.

    The environment goes over `.env`, as for Headgate's own settings; an empty variable is none.
    """
    if not is_dataclass(kind):
        raise Invalid(f"{kind.__name__} is not a dataclass")
    environment = variables() if environment is None else environment
    names = {field.name: field.name.upper() for field in fields(kind)}
    found = {name: environment[variable] for name, variable in names.items() if environment.get(variable)}
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        reason, _, name = str(error).rstrip("`").partition(" - at `$.")
        raise Invalid(f"{name.upper() or kind.__name__}: {reason}") from None


def first_capacity(limit: Lane | Resource, environment: Mapping[str, str]) -> int | None:
    """What a limit begins with in a new store; `Invalid`, naming the variable, for what is no capacity."""
    text = environment.get(limit.variable, "").strip() if limit.variable else ""
    if not text:
        return limit.capacity
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST)) and int(text) <= MOST):
        raise Invalid(f"{limit.variable} must be a whole number from 0 to {MOST}")
    return int(text)
