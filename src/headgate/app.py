"""The entry point: `Headgate` knows a program's tasks and their store."""

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

import headgate.store.db.drivers as drivers
from headgate.client import Call, Task
from headgate.core.callbacks import SETTING, Callback
from headgate.core.errors import Invalid
from headgate.core.limits import DeclaredLimits, Rate
from headgate.core.retry import RetryPolicy, never
from headgate.core.task import DEFAULT_LANE, DEFAULT_PRIORITY, NewTask, TaskType
from headgate.core.task import Task as Record
from headgate.events.listeners import TRIES, Event, Listeners, declared_listener
from headgate.events.telemetry import submitting
from headgate.outward.address import Allowed
from headgate.outward.callback import refused_targets, sealed_callback
from headgate.outward.sealing import Seals
from headgate.pack import Pack, find_packs, load_object
from headgate.pack_setup import declare_limits, declare_types, set_up
from headgate.registry import (
    MEMORY_MEGABYTES,
    Arguments,
    Handler,
    Registry,
    isolation_of,
    name_of,
    names_in_keys,
    place_of,
    type_options,
)
from headgate.settings import Settings, load
from headgate.store.store import Store, configured_store
from headgate.store.tasks.submit import Submitted
from headgate.store.tasks.submit_in import Joining, prepare
from headgate.task_function import TaskFunction
from headgate.threads import Threads
from headgate.timetable import DeclaredSchedule, Timetable

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
L = TypeVar("L", bound=Callable[[Event], Any])
R = TypeVar("R")
T = TypeVar("T")
MAX_THREADS = 16
UNREGISTERED = -1
log = logging.getLogger("headgate")


class _Decorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, R]: ...


class Headgate:
    """A program's tasks and their store: `Headgate()` takes HEADGATE_URL, or a file in this folder."""

    def __init__(self, url: str | None = None, *, settings: Settings | None = None, packs: Sequence[str] = ()) -> None:
        if settings is None:
            settings = load({"url": url})
        elif url is not None:
            settings = replace(settings, url=url)
        self._settings = settings
        self._registry = Registry()
        self._timetable = Timetable(self._registry)
        self._listeners = Listeners()
        self._limits = DeclaredLimits()
        self._opening = threading.RLock()
        self._store: Store | None = None
        self._owns_store = False  # whether we opened it, and must close it
        self._registered_edition = UNREGISTERED  # of the program whose types and schedules the store knows
        self._threads = Threads("headgate", MAX_THREADS)
        self._packs: tuple[Pack, ...] = ()
        self._pack_tasks: list[Tasks] = []
        self._use_packs([*settings.pack_names, *packs])
        _apps.add(self)

    def _use_packs(self, names: Iterable[str]) -> None:
        """Turn on packs besides those already on: the program gets their tasks and sets them up in its store."""
        for pack in find_packs(names):
            if pack not in self._packs:
                self._packs += (pack,)
                if pack.handlers:
                    self._take_over(load_object(f"pack {pack.name}", pack.handlers))
        self._settings = replace(self._settings, packs=",".join(sorted(pack.name for pack in self._packs)))

    def _take_over(self, tasks: "Tasks") -> None:
        """Make the handlers, schedules, listeners and limits of a pack this program's."""
        self._pack_tasks.append(tasks)
        if not tasks.works_elsewhere(self):
            tasks.program = self
        for handler in tasks._registry:
            self._registry.add(handler)
        for entry in tasks._timetable:
            self._timetable.add(entry)
        for listener in tasks._listeners:
            self._listeners.add(listener)
        self._limits.add(tasks._limits)

    # declaring

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskFunction[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> TaskFunction[P, R, R]: ...
    @overload
    def task(
        self,
        *,
        code: str | None = None,
        name: str = "",
        category: str = "",
        lane: str = DEFAULT_LANE,
        priority: int = DEFAULT_PRIORITY,
        mutex: str | None = None,
        rate_key: str | None = None,
        unique_key: str | None = None,
        unique: Literal["arguments"] | None = None,
        unique_seconds: float | None = None,
        debounce_seconds: float | None = None,
        debounce_longest_seconds: float | None = None,
        debounce_replace: bool = True,
        uses: Sequence[str] = (),
        retry: RetryPolicy = never,
        timeout_seconds: float = 1800.0,
        need_manual: bool = False,
        unknown_errors: Literal["retry", "fail"] = "retry",
        retry_on: Sequence[type[BaseException] | str] = (),
        fatal: Sequence[type[BaseException] | str] = (),
        callback: Callback | None = None,
        on_child_failure: Literal["continue", "cancel"] = "continue",
        isolation: Literal["loop", "thread", "process"] | None = None,
        memory_megabytes: float = MEMORY_MEGABYTES,
    ) -> _Decorator: ...
    def task(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Make a function a type of task: `@app.task`, or `@app.task(lane="mail", …)` with options.

        Where a pack has the type too, options that are not given are as the pack says; else they have their defaults.

        code: the type's name, if not the function's.
        name, category: for people, and for filters.
        lane: the lane its tasks stand in.
        priority: smaller runs first; 5 unless given.
        mutex: a key under which tasks run one at a time; `"customer:{customer_id}"` takes it from the arguments.
        rate_key: whose rate limit a task draws from; made of the arguments like `mutex`.
        unique_key: a key that one open task can have; made of the arguments like `mutex`.
        unique: `"arguments"` makes the unique key of all arguments.
        unique_seconds: how long a task is the only one of its unique key, even when it has ended by then.
        debounce_seconds: start when no further submit came for this long.
        debounce_longest_seconds: start after this long, however many further submits come.
        debounce_replace: the newest arguments count (the default), or the first.
        uses: resources it takes one of each, e.g. `["disk"]`.
        retry: `headgate.exponential(60, retries=3)`, `fixed`, `sequence` or `never` (the default).
        timeout_seconds: after which an execution is ended; 1800 unless given.
        need_manual: a task that fails for good waits for a person (`dead`) in place of ending as `failed`.
        unknown_errors: `"fail"` ends it on an error that is not known to be worth another try.
        retry_on, fatal: error classes, or their names, that are retried, or never; without `retry` nothing is retried.
        on_child_failure: `"cancel"` cancels the other children when one has failed for good.
        callback: who is told how a task ended; its `sk` is sealed under HEADGATE_SECRET at once.
        isolation: `"process"` gives a handler a process of its own, killed with everything it started.
        memory_megabytes: the most such a process may hold; 500 unless given.
        """
        if not function:
            return partial(self._declare, **options)
        return self._declare(*function, **options)

    def _declare(
        self,
        function: Callable[..., Any],
        /,
        *,
        code: str | None = None,
        isolation: str | None = None,
        memory_megabytes: float = MEMORY_MEGABYTES,
        **options: Any,
    ) -> TaskFunction[..., Any, Any]:
        name = name_of(function)
        code = name if code is None else code
        values = type_options(name, options)
        if "callback" in values:
            values["callback"] = self._checked_callback(values["callback"] or {}, code)
        arguments = Arguments(function)
        declared = TaskType(code, declared_by=place_of(function), **values)
        handler = Handler(
            function=function,
            type=replace(declared, defaults=arguments.defaults(names_in_keys(declared))),
            arguments=arguments,
            isolation=isolation_of(function, isolation),
            memory_megabytes=memory_megabytes,
            set_fields=frozenset(options),
        )
        self._registry.add(handler)
        return TaskFunction(self, handler)

    def _checked_callback(self, callback: Mapping[str, Any], code: str) -> dict[str, Any]:
        """A callback, checked and sealed. What only this process's settings forbid is logged: another may send it."""
        stored = sealed_callback(callback, code, Seals(self._settings.secrets))
        for refusal in refused_targets(stored, Allowed.parse(self._settings.callback_allow)):
            log.warning(
                "type %s: its callback is blocked until %s allows the address in the process that sends callbacks: %s",
                code, SETTING, refusal,
            )  # fmt: skip
        return stored

    def periodic(
        self,
        cron: str,
        *,
        timezone: str = "UTC",
        arguments: Mapping[str, Any] | None = None,
        code: str | None = None,
        missed: Literal["skip", "once", "all"] = "skip",
        overlap: Literal["allow", "skip", "queue"] = "allow",
        log: Literal["none", "trigger_log", "trans_log"] = "trans_log",
    ) -> Callable[[F], F]:
        """Run a task by the clock: above or below `@app.task`, or called with what `using` gives.

        The schedule is online from the program's first start on. What a person edits or takes offline stays so.

        timezone: of the cron expression; a change of the clock skips no tick and repeats none.
        arguments: of every call.
        code: the schedule's name, if not the task's.
        missed: ticks that passed while no process fired them: `"skip"` them, fire `"once"`, or make up for `"all"`.
        overlap: while the last one still runs: `"allow"` another, `"skip"` the tick, or `"queue"` it.
        log: keep `"none"`, a `"trigger_log"` of ticks, or a `"trans_log"` that ends with the task.
        """

        def declare(function: F) -> F:
            call = function.call if isinstance(function, TaskFunction) else None
            entry = DeclaredSchedule(function, call, cron, timezone, arguments, code, log, missed, overlap)
            if call is not None:
                entry.schedule(self._registry)  # so that errors are raised here
            self._timetable.add(entry)
            return function

        return declare

    def on(
        self, *events: str, types: Sequence[str] = (), name: str | None = None, tries: int = TRIES
    ) -> Callable[[L], L]:
        """Call a function with events of tasks: `@app.on("task.failed", types=["download"])`; `task.*` is all.

        Workers whose program declares it call it, at least once for each event over all of them, one event at a time
        and those of a task in order.

        types: only events of tasks of these types; all unless given.
        name: its place among the events is stored under this name, so that it continues there after a restart; the
            function's own name unless given. A new name begins with the next event.
        tries: how often it is called with an event while it raises, until it is called with the next.
        """

        if any(not isinstance(event, str) for event in events):
            raise Invalid('name the events of a listener: @app.on("task.failed"), or @app.on("task.*") for all')

        def declare(function: L) -> L:
            name_of(function)
            self._listeners.add(declared_listener(function, events, types, name, tries))
            return function

        return declare

    def lane(self, name: str, *, capacity: int | None) -> None:
        """Run at most `capacity` tasks of a lane at once, over all processes; None is no limit.

        Of a lane, a resource or a rate limit, what settings say replaces what a program declares, and what a person
        sets replaces both.
        """
        self._limits.lane(name, capacity)

    def resource(self, name: str, *, capacity: int) -> None:
        """Run at most `capacity` tasks at once that use a resource (`uses=[name]`), whatever their lane."""
        self._limits.resource(name, capacity)

    def rate_limit(self, name: str, *, rate: float | None, burst: int | None = None) -> None:
        """Start at most `rate` tasks a second of `lane:NAME`, `type:CODE` or `key:NAME`, and `burst` at once.

        `rate=None` is no limit. All tenants share it; `key:*` holds for each key that has no limit of its own, and for
        each tenant.
        """
        if (rate is None) != (burst is None):
            raise Invalid(f"rate limit {name}: give rate and burst")
        self._limits.rate_limit(name, None if rate is None or burst is None else Rate(rate, burst))

    # submitting

    async def submit(self, call: Call[R]) -> Task[R]:
        """Make one task; it is on disk when this returns."""
        return await self._in_thread(self.submit_sync, call)

    def submit_sync(self, call: Call[R]) -> Task[R]:
        """`submit`, for callers that are not async."""
        return self.submit_many_sync([call])[0]

    async def submit_many(self, calls: Sequence[Call[R]]) -> list[Task[R]]:
        """Make many tasks, all or none."""
        return await self._in_thread(self.submit_many_sync, calls)

    def submit_many_sync(self, calls: Sequence[Call[R]]) -> list[Task[R]]:
        """`submit_many`, for callers that are not async."""
        store = self.store
        with submitting([_new_task(call) for call in calls]) as new_tasks:
            made = store.tasks.submit_many(new_tasks)
        return [self._handle(store, done, call) for done, call in zip(made, calls, strict=True)]

    def submit_in(self, connection: object, call: Call[R]) -> Task[R]:
        """Make one task in a transaction of yours: it exists if and only if you commit.

        The connection is to the app's own database: one of sqlite3, psycopg or SQLAlchemy, or a SQLAlchemy session.
        Nothing is committed or rolled back here. The task can be waited for once you have committed; workers find it
        at their next look. On SQLite the file must have been set up before, by any other use or `headgate migrate`.
        """
        store, joining = self._prepare_submit_in(call)
        return self._handle(store, drivers.run(connection, joining.steps()), call)

    async def submit_in_async(self, connection: object, call: Call[R]) -> Task[R]:
        """`submit_in`, on an async connection: of psycopg, asyncpg, aiosqlite or SQLAlchemy."""
        store, joining = await self._in_thread(self._prepare_submit_in, call)
        return self._handle(store, await drivers.run_async(connection, joining.steps()), call)

    def _prepare_submit_in(self, call: Call[Any]) -> tuple[Store, Joining]:
        _new_task(call)
        store = self._opened()
        if not store.database.one_writer:  # else the caller may be writing, and declaring a type would wait for it
            store = self.store
        bases = (kind for pack in self._packs for kind in pack.tuned_types() if kind.code == call._handler.code)
        kind = call._handler.over(next(bases, None))
        return store, prepare(store.database, store.catalog, call._new, kind, call._handler.set_fields)

    def _handle(self, store: Store, made: Submitted, call: Call[R]) -> Task[R]:
        return Task(made, call._handler.result_type, lambda: store, self._in_thread)

    def get(self, task_id: int) -> Task[Any]:
        """A task by its id, to wait for it, look at it or cancel it. Nothing is read yet: `NotFound` comes from those.

        Its result is what its handler's annotation says, where this program has the handler; else plain JSON.
        `download.get(task_id)` is the same for a known type, and tells a type checker what the result is.
        """
        return Task(Submitted(task_id, False), self._result_type, lambda: self.store, self._in_thread)

    def _result_type(self, task: Record) -> Any:
        handler = self._registry.get(task.type)
        return Any if handler is None else handler.arguments.result

    # the store

    @property
    def store(self) -> Store:
        """The store, opened at first use, with this program's types and schedules known to it."""
        store = self._store
        if store is None or self._registered_edition != self._edition:
            with self._opening:
                store = self._opened()
                self._register(store)
        return store

    @property
    def _edition(self) -> int:
        return self._registry.edition + self._timetable.edition + self._limits.edition

    def _register(self, store: Store) -> None:
        edition = self._edition
        schedules = self._timetable.schedules()
        for tasks in self._pack_tasks:
            if tasks.works_elsewhere(self):
                raise Invalid("another app in this process uses this pack on a different store: close that app first")
            tasks.program = self
        set_up(store, self._packs)
        declare_limits(store, self._settings, self._limits)
        declare_types(store, self._registry)
        if schedules:
            store.schedules.register(schedules)
        self._registered_edition = edition

    def _opened(self) -> Store:
        """The store, opened without writing to a file whose schema is up to date: that never waits for a writer."""
        with self._opening:
            if self._store is None:
                self._store, self._owns_store, self._registered_edition = self._open(), True, UNREGISTERED
            return self._store

    def _open(self) -> Store:
        store = configured_store(self._settings)
        try:
            store.bring_up_to_date()
        except BaseException:
            store.close()
            raise
        atexit.register(self.close)
        return store

    def _shares_store(self, other: "Headgate") -> bool:
        if self._store is other._store:
            return True
        places = {(each._settings.url, each._settings.schema) for each in (self, other)}
        return len(places) == 1 and self._settings.url != "sqlite://"  # in memory, each has its own

    def bind(self, store: Store) -> None:
        """Use this store from now on; the app does not close it."""
        self.close()
        with self._opening:
            self._store, self._owns_store, self._registered_edition = store, False, UNREGISTERED

    async def _in_thread(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread, so that the caller's event loop is not blocked."""
        return await self._threads(work, *args, **kwargs)

    def close(self) -> None:
        """Release the store; the next use opens it again."""
        with self._opening:
            store, self._store = self._store, None
            owned, self._owns_store, self._registered_edition = self._owns_store, False, UNREGISTERED
            threads, self._threads = self._threads, Threads("headgate", MAX_THREADS)
        threads.close()
        if store is not None and owned:
            atexit.unregister(self.close)
            store.close()

    def _after_fork(self) -> None:
        """Leave connections and locks to the parent process; this process opens its own."""
        self._opening = threading.RLock()
        if self._store is not None:
            _inherited.append(self._store)  # to close one here would end it there
        self._store, self._owns_store, self._registered_edition = None, False, UNREGISTERED
        self._threads = Threads("headgate", MAX_THREADS)


class Tasks(Headgate):
    """The handlers of a pack. They work on the store of the program that turns the pack on."""

    def __init__(self) -> None:
        super().__init__(settings=replace(load(), packs=""))
        self.program: Headgate | None = None  # None in a child process, which is told where the store is

    @property
    def store(self) -> Store:
        return super().store if self.program is None else self.program.store

    @property
    def seals(self) -> Seals:
        """What seals and opens secrets, under the HEADGATE_SECRET of the program that turns the pack on."""
        return Seals((self if self.program is None else self.program)._settings.secrets)

    def works_elsewhere(self, program: Headgate) -> bool:
        """Whether these handlers work on a store that is not this program's."""
        before = self.program
        if before is None or before is program or before._store is None:
            return False
        return not program._shares_store(before)

    def _opened(self) -> Store:
        return super()._opened() if self.program is None else self.program._opened()

    def handler(
        self, task_type: TaskType, *, isolation: str | None = None, memory_megabytes: float = MEMORY_MEGABYTES
    ) -> _Decorator:
        """Make a function the handler of a type of the pack; it must be at the top level of its module."""

        def declare(function: Any, /) -> Any:
            name_of(function)
            handler = Handler(
                function=function,
                type=task_type,
                arguments=Arguments(function),
                isolation=isolation_of(function, isolation),
                memory_megabytes=memory_megabytes,
            )
            self._registry.add(handler)
            return TaskFunction(self, handler)

        return declare


_apps: "weakref.WeakSet[Headgate]" = weakref.WeakSet()
_inherited: list[Store] = []


def _forked() -> None:
    for app in _apps:
        app._after_fork()


os.register_at_fork(after_in_child=_forked)


def _new_task(call: Call[Any]) -> NewTask:
    if not isinstance(call, Call):
        raise Invalid(f"expected a Call, not {call!r}: use download.call(…)")
    return call._new
