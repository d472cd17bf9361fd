"""The front door: `Headgate` knows a program's tasks, and where they are kept."""

import asyncio
import atexit
import difflib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import fields, replace
from datetime import datetime
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from headgate.client import Call, Task, call_of
from headgate.core.callbacks import Callback
from headgate.core.errors import Invalid, Unavailable
from headgate.core.family import CONTINUE
from headgate.core.retry import RetryPolicy, never
from headgate.core.task import DEFAULT_LANE, DEFAULT_PRIORITY, KEYS, NewTask, TaskType
from headgate.core.template import names_in
from headgate.events.telemetry import submitting
from headgate.outward.callback import stored
from headgate.outward.sealing import Seals
from headgate.registry import (
    MEMORY_MEGABYTES,
    Arguments,
    Handler,
    Registry,
    isolation_of,
    name_of,
    place_of,
    same_function,
)
from headgate.settings import Settings, load
from headgate.store import drivers, open_store
from headgate.store.base import Store
from headgate.store.joining import Joining, prepare
from headgate.store.tasks import Submitted
from headgate.timetable import Entry, Timetable

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Answer = TypeVar("Answer")
T = TypeVar("T")
CALLERS = 16
log = logging.getLogger("headgate")


class TaskFunction(Generic[P, Answer, R]):
    """A function that is also a type of task. Called, it runs here and now; submitted, a worker runs it."""

    __name__: str

    def __init__(self, app: "Headgate", handler: Handler, wish: NewTask) -> None:
        update_wrapper(self, handler.function)
        self.app = app
        self.handler = handler
        self._wish = wish

    def __repr__(self) -> str:
        return f"<task {self.handler.code}: {self.handler.place}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Answer:
        return self.handler.function(*args, **kwargs)  # type: ignore[no-any-return]

    def using(
        self,
        *,
        name: str | None = None,
        lane: str | None = None,
        category: str | None = None,
        priority: int | None = None,
        mutex: str | None = None,
        rate_key: str | None = None,
        unique_key: str | None = None,
        unique: str | None = None,
        unique_seconds: float | None = None,
        debounce_seconds: float | None = None,
        debounce_longest_seconds: float | None = None,
        debounce_replace: bool | None = None,
        start_time: datetime | None = None,
        delay_seconds: float | None = None,
        max_error_count: int | None = None,
        timeout_seconds: float | None = None,
        tenant_id: int | None = None,
        creator: int | None = None,
        agent_id: str | None = None,
        parent_id: int | None = None,
        correlation_id: str | None = None,
        on_child_failure: str | None = None,
    ) -> "TaskFunction[P, Answer, R]":
        """The same function, its tasks made with these options."""
        said = {key: value for key, value in locals().items() if key not in ("self", "unique") and value is not None}
        handler = self.handler if unique is None else replace(self.handler, unique=unique)
        return TaskFunction(self.app, handler, self._wish._replace(**said))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A call to be submitted: alone, with others (`submit_many`), or in a transaction of yours (`submit_in`)."""
        return call_of(self.handler, self._wish, args, kwargs)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> Task[R]:
        """Make a task of this call; it is on disk when this returns."""
        return await self.app.submit(self.call(*args, **kwargs))

    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> Task[R]:
        """`submit`, for callers that are not async."""
        return self.app.submit_sync(self.call(*args, **kwargs))


class _Decorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, R]: ...


class Headgate:
    """A program's tasks and their store: `Headgate()` takes HEADGATE_URL, or a file in this folder."""

    def __init__(self, url: str | None = None, *, settings: Settings | None = None) -> None:
        if settings is None:
            settings = load({"url": url})
        elif url is not None:
            settings = replace(settings, url=url)
        self.settings = settings
        self.registry = Registry()
        self.timetable = Timetable(self.registry)
        self._opening = threading.RLock()
        self._store: Store | None = None
        self._ours = False  # whether we opened it, and are to close it
        self._put = 0  # the edition of the program whose types and schedules the store knows
        self._callers: ThreadPoolExecutor | None = None
        _apps.add(self)

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
        unique: str | None = None,
        unique_seconds: float | None = None,
        debounce_seconds: float | None = None,
        debounce_longest_seconds: float | None = None,
        debounce_replace: bool = True,
        uses: Sequence[str] = (),
        retry: RetryPolicy = never,
        timeout_seconds: float = 1800.0,
        need_manual: bool = False,
        unknown_errors: str = "retry",
        callback: Callback | None = None,
        on_child_failure: str = CONTINUE,
        isolation: str | None = None,
        memory_megabytes: float = MEMORY_MEGABYTES,
    ) -> _Decorator: ...
    def task(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Make a function a type of task, under its own name unless `code` says otherwise.

        `mutex`, `rate_key` and `unique_key` may name the function's parameters: `subscription:{subscription_id}`.
        `callback` says who is told how a task ended; its `sk` is sealed under HEADGATE_SECRET at once.
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
        unique: str | None = None,
        unique_seconds: float | None = None,
        debounce_seconds: float | None = None,
        debounce_longest_seconds: float | None = None,
        debounce_replace: bool = True,
        uses: Sequence[str] = (),
        callback: Callback | None = None,
        isolation: str | None = None,
        memory_megabytes: float = MEMORY_MEGABYTES,
        **of_type: Any,
    ) -> TaskFunction[..., Any, Any]:
        name = name_of(function)
        _check_options(of_type)
        if isinstance(uses, str):
            raise Invalid(f"{name}: uses is a list of resources: uses=[{uses!r}]")
        if unique is not None and of_type.get("unique_key") is not None:
            raise Invalid(f"{name}: give unique or unique_key, not both")
        code = name if code is None else code
        told = stored(callback or {}, code, Seals(self.settings.secrets))
        arguments = Arguments(function)
        named = [each for label in KEYS for each in names_in(of_type.get(label) or "")]
        handler = Handler(
            function=function,
            type=TaskType(
                code,
                uses=tuple(uses),
                callback=told,
                defaults=arguments.defaults(named),
                declared_by=place_of(function),
                **of_type,
            ),
            arguments=arguments,
            isolation=isolation_of(function, isolation),
            memory_megabytes=memory_megabytes,
            unique=unique,
            unique_seconds=unique_seconds,
            debounce_seconds=debounce_seconds,
            debounce_longest_seconds=debounce_longest_seconds,
            debounce_replace=debounce_replace,
        )
        self.registry.add(handler)
        return TaskFunction(self, handler, handler.wish)

    def periodic(
        self,
        cron: str,
        *,
        timezone: str = "UTC",
        arguments: Mapping[str, Any] | None = None,
        code: str | None = None,
        missed: str = "skip",
        overlap: str = "allow",
        log: str = "trans_log",
    ) -> Callable[[F], F]:
        """Run a task by the clock: above or below `@app.task`, or called with what `using` gives.

        The schedule is online from the program's first start on, under `code` (the task's own unless it is said). What
        a person edits or takes offline stays as they left it. `arguments` are those of every call.
        """

        def declare(function: F) -> F:
            task = function if isinstance(function, TaskFunction) else None
            handler, wish = (None, None) if task is None else (task.handler, task._wish)
            entry = Entry(function, handler, wish, cron, timezone, arguments, code, log, missed, overlap)
            if task is not None:
                entry.schedule(self.registry)  # so that what is wrong is said here
            self.timetable.add(entry)
            return function

        return declare

    # submitting

    async def submit(self, call: Call[R]) -> Task[R]:
        """Make one task; it is on disk when this returns."""
        return await self.aside(self.submit_sync, call)

    def submit_sync(self, call: Call[R]) -> Task[R]:
        """`submit`, for callers that are not async."""
        return self.submit_many_sync([call])[0]

    async def submit_many(self, calls: Sequence[Call[R]]) -> list[Task[R]]:
        """Make many tasks, all or none."""
        return await self.aside(self.submit_many_sync, calls)

    def submit_many_sync(self, calls: Sequence[Call[R]]) -> list[Task[R]]:
        """`submit_many`, for callers that are not async."""
        store = self.store
        with submitting([_wish(call) for call in calls]) as wishes:
            made = store.submit_many(wishes)
        return [self._handle(store, done, call) for done, call in zip(made, calls, strict=True)]

    def submit_in(self, connection: object, call: Call[R]) -> Task[R]:
        """Make one task in a transaction of yours: it exists if and only if you commit.

        The connection is to the app's own database: one of sqlite3, psycopg or SQLAlchemy, or a SQLAlchemy session.
        Nothing is committed or rolled back here. The task can be waited for once you have committed; workers find it
        at their next look. On SQLite the file must have been set up before, by any other use or `headgate migrate`.
        """
        store, joining = self._joining(call)
        return self._handle(store, drivers.run(connection, joining.steps()), call)

    async def submit_in_async(self, connection: object, call: Call[R]) -> Task[R]:
        """`submit_in`, on an async connection: of psycopg, asyncpg, aiosqlite or SQLAlchemy."""
        store, joining = await self.aside(self._joining, call)
        return self._handle(store, await drivers.run_async(connection, joining.steps()), call)

    def _joining(self, call: Call[Any]) -> tuple[Store, Joining]:
        _wish(call)
        store = self._opened()
        if store.dialect == "postgres":  # on SQLite the caller may be writing, and registering a type would wait for it
            store = self.store
        return store, prepare(store, call.new, call.handler.type)

    def _handle(self, store: Store, made: Submitted, call: Call[R]) -> Task[R]:
        return Task(made, call.handler.arguments.result, store, self.aside)

    # the store

    @property
    def store(self) -> Store:
        """The store, opened at first use, with this program's types and schedules known to it."""
        store = self._store
        if store is None or self._put != self._edition:
            with self._opening:
                store = self._opened()
                self._register(store)
        return store

    @property
    def _edition(self) -> int:
        return self.registry.edition + self.timetable.edition

    def _register(self, store: Store) -> None:
        edition = self._edition
        schedules = self.timetable.schedules()
        known = store.types() if edition else {}
        for handler in self.registry:
            if known.get(handler.code) != handler.type:
                self._put_type(store, handler, known.get(handler.code))
        if schedules:
            store.schedules.register(schedules)
        self._put = edition

    def _put_type(self, store: Store, handler: Handler, before: TaskType | None) -> None:
        """Say what holds for the type from now on, unless a person did; whoever else said otherwise is told of."""
        store.put_type(handler.type)
        if store.type_of(handler.code) != handler.type:
            log.info("type %s was edited by hand: what %s declares does not hold", handler.code, handler.place)
        elif before is not None and not same_function(before.declared_by, handler.place):
            log.warning(
                "type %s was declared by %s, with other rules; those of %s hold now. If both are in use, they take "
                "each other's tasks: give one another code", handler.code, before.declared_by, handler.place,
            )  # fmt: skip

    def _opened(self) -> Store:
        """The store; of a file with its schema up to date nothing but that is asked, so it can be opened any time."""
        with self._opening:
            if self._store is None:
                self._store, self._ours, self._put = self._open(), True, 0
            return self._store

    def _open(self) -> Store:
        store = open_store(self.settings.url, schema=self.settings.schema)
        try:
            missing = store.migration_plan()
            if missing and store.dialect != "sqlite":
                raise Unavailable("the store's schema is not up to date: run `headgate migrate` first")
            if missing:  # a file is ours to set up; a server has an owner
                store.migrate()
        except BaseException:
            store.close()
            raise
        atexit.register(self.close)
        return store

    def bind(self, store: Store) -> None:
        """Use this store from now on. Whoever opened it closes it."""
        self.close()
        with self._opening:
            self._store, self._ours, self._put = store, False, 0

    async def aside(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run blocking work in a thread, so that the caller's event loop goes on."""
        callers = self._callers
        if callers is None:
            with self._opening:
                callers = self._callers = self._callers or ThreadPoolExecutor(CALLERS, thread_name_prefix="headgate")
        return await asyncio.get_running_loop().run_in_executor(callers, copy_context().run, work, *arguments)

    def close(self) -> None:
        """Let go of the store; it is opened anew at the next use."""
        with self._opening:
            store, self._store = self._store, None
            ours, self._ours, self._put = self._ours, False, 0
            callers, self._callers = self._callers, None
        if callers is not None:
            callers.shutdown()
        if store is not None and ours:
            atexit.unregister(self.close)
            store.close()

    def after_fork(self) -> None:
        """Leave the parent process its connections and locks; what this process needs it opens anew."""
        self._opening = threading.RLock()
        if self._store is not None:
            _inherited.append(self._store)  # to close one here would end it there
        self._store, self._ours, self._put, self._callers = None, False, 0, None


_apps: "weakref.WeakSet[Headgate]" = weakref.WeakSet()
_inherited: list[Store] = []


def _forked() -> None:
    for app in _apps:
        app.after_fork()


os.register_at_fork(after_in_child=_forked)


def _wish(call: Call[Any]) -> NewTask:
    if not isinstance(call, Call):
        raise Invalid(f"{call!r} is no call to be submitted: say `name_of_the_task.call(…)`")
    return call.new


_OF_TASK = (
    "code", "unique", "unique_seconds", "debounce_seconds", "debounce_longest_seconds", "debounce_replace", "uses",
    "callback", "isolation", "memory_megabytes",
)  # fmt: skip
_SAID_OTHERWISE = ("code", "uses", "callback", "defaults", "declared_by")
_OF_TYPE = tuple(field.name for field in fields(TaskType) if field.name not in _SAID_OTHERWISE)


def _check_options(of_type: dict[str, Any]) -> None:
    for name in of_type:
        if name not in _OF_TYPE:
            near = difflib.get_close_matches(name, [*_OF_TYPE, *_OF_TASK], 1)
            raise Invalid(f"@app.task knows no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    if not isinstance(of_type.get("retry", never), RetryPolicy):
        raise Invalid("retry is a policy: headgate.exponential(60, retries=3), headgate.fixed(…), headgate.sequence(…)")
