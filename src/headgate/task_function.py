"""What `@app.task` gives back: called, it runs the function; submitted, a worker does."""

from collections.abc import Callable
from datetime import datetime
from functools import update_wrapper
from typing import Generic, Literal, ParamSpec, Protocol, TypeVar

from headgate.client import Call, Task, call_of
from headgate.core.errors import Invalid
from headgate.core.task import NewTask
from headgate.core.unique import BY_ARGUMENTS
from headgate.registry import Handler, Registry
from headgate.settings import Settings
from headgate.store.store import Store
from headgate.store.tasks.submit import Submitted

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
Returned = TypeVar("Returned")
T = TypeVar("T")


class App(Protocol):
    """The app that declared a task function: `Headgate`, as seen from the layers below it."""

    _registry: Registry
    _settings: Settings

    @property
    def store(self) -> Store: ...
    async def submit(self, call: Call[R]) -> Task[R]: ...
    def submit_sync(self, call: Call[R]) -> Task[R]: ...
    async def _in_thread(self, work: Callable[Q, T], /, *args: Q.args, **kwargs: Q.kwargs) -> T: ...


class TaskFunction(Generic[P, Returned, R]):
    """A function that is also a type of task. Called, it runs here and now; submitted, a worker runs it."""

    __name__: str

    def __init__(
        self, app: App, handler: Handler, options: NewTask | None = None, *, by_arguments: bool = False
    ) -> None:
        update_wrapper(self, handler.function)
        self._app = app
        self._handler = handler
        self._options = NewTask(handler.code) if options is None else options
        self._by_arguments = by_arguments  # whether a call's unique key is made of its arguments

    def __repr__(self) -> str:
        return f"<task {self._handler.code}: {self._handler.place}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Returned:
        return self._handler.function(*args, **kwargs)  # type: ignore[no-any-return]

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
        unique: Literal["arguments"] | None = None,
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
        on_child_failure: Literal["continue", "cancel"] | None = None,
    ) -> "TaskFunction[P, Returned, R]":
        """The same function, its tasks made with these options.

        name, category, lane, priority, timeout_seconds, on_child_failure: in place of the type's.
        mutex, rate_key, unique_key: in place of the type's, as they are: nothing is taken from the arguments.
        unique: `"arguments"` makes the unique key of all arguments.
        unique_seconds, debounce_seconds, debounce_longest_seconds, debounce_replace: in place of the type's.
        start_time: when it may start; a debounced type does not debounce it then.
        delay_seconds: in how many seconds it may start; as with start_time.
        max_error_count: how often it may fail and be run again, in place of what the type's policy says.
        tenant_id, creator: whose it is.
        agent_id: the only agent that may run it.
        parent_id: the task that it is a child of.
        correlation_id: what it has in common with others; that of the request or task which submits it unless given.
        """
        options = {key: value for key, value in locals().items() if key not in ("self", "unique") and value is not None}
        if unique not in (None, BY_ARGUMENTS):
            raise Invalid(f"{self._handler.code}: unique must be {BY_ARGUMENTS!r}, not {unique!r}")
        return TaskFunction(
            self._app,
            self._handler,
            self._options._replace(**options),
            by_arguments=self._by_arguments or unique is not None,
        )

    def get(self, task_id: int) -> Task[R]:
        """A task of this type by its id. Nothing is read yet; if it is of another type, waiting for it is `Invalid`."""
        return Task(Submitted(task_id, False), self._handler.result_type, lambda: self._app.store, self._app._in_thread)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A call to be submitted: alone, with others (`submit_many`), or in a transaction of yours (`submit_in`)."""
        return call_of(self._handler, self._options, args, kwargs, by_arguments=self._by_arguments)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> Task[R]:
        """Make a task of this call; it is on disk when this returns."""
        return await self._app.submit(self.call(*args, **kwargs))

    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> Task[R]:
        """`submit`, for callers that are not async."""
        return self._app.submit_sync(self.call(*args, **kwargs))
