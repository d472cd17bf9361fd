"""Run an app's tasks inside a test: in memory, in order, by a clock that the test moves."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from headgate.app import Headgate
from headgate.client import Task
from headgate.core.errors import Invalid
from headgate.core.machine import Raised
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.duties.schedules import fire_due
from headgate.environment import utc_now
from headgate.events.listeners import event_for_listeners
from headgate.events.live import PAGE, Feed
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.db.scratch import scratch_schema
from headgate.store.reading.lists import Filter
from headgate.store.store import Store, open_store
from headgate.store.wakeup.message import News
from headgate.task_function import TaskFunction
from headgate.threads import inline
from headgate.worker.context import Context, Interrupted, Paused, Reporter, current
from headgate.worker.holds import HoldLine
from headgate.worker.reports import ExecutionReports, LoopReporter, SteadyProgress, ThreadReporter
from headgate.worker.run import Run, event_of_error, event_of_result

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
__all__ = ["Box", "Ran", "sandbox"]
MOST_EXECUTIONS = 10_000
LEASE_SECONDS = 1e9  # a test may advance the clock by years
A_LITTLE_LATER = timedelta(milliseconds=1)  # a bucket's next token is reckoned in fractions


@dataclass(frozen=True, slots=True)
class Ran:
    """One execution: of which task, of which type, and what the task was when it had ended."""

    id: int
    type: str
    status: State
    error: str | None = None  # the first line of it


@contextmanager
def sandbox(app: Headgate, *, now: datetime | None = None, url: str | None = None) -> Iterator["Box"]:
    """Bind `app` to an empty store in memory for a while; nothing of its own store is read or written.

    Time stands still, at `now` if that is given, until the box is told to move it. `url` names the database of your
    test in place of memory, so that `submit_in` works with connections to it: a SQLite file that holds no task yet, or
    a PostgreSQL, where the tables are in a schema of their own that is dropped afterwards.
    """
    if now is not None and now.tzinfo is None:
        raise Invalid("now needs a time zone")
    before = None if app._owns_store else app._store  # one that somebody bound: a sandbox around this one
    with _empty_schema(url) as schema:
        box = Box(app, now or utc_now(), url or "sqlite://", schema)
        try:
            yield box
        finally:
            app.close()
            if before is not None:
                app.bind(before)
            box._close()


@contextmanager
def _empty_schema(url: str | None) -> Iterator[str]:
    if url is None or url.startswith("sqlite"):
        yield ""
        return
    with scratch_schema(url) as (schema, renew):
        renew()
        yield schema


class Box:
    """An app's tasks, and the time by which they run."""

    def __init__(self, app: Headgate, now: datetime, url: str, schema: str) -> None:
        self.now = now
        empty = open_store(url, lambda: self.now, schema=schema)
        empty.migrate()
        if empty.tasks.find(limit=1).items:
            empty.close()
            raise Invalid(f"a sandbox needs a database without tasks; {url} has some")
        app.bind(empty)
        self.store: Store = app.store  # the same, and it knows the app's types
        self._app = app
        self._worker_id = self.store.workers.register("sandbox", lease_seconds=LEASE_SECONDS)
        self._feed = Feed(self.store)
        self._heard = self._feed.end()
        self._runner = asyncio.Runner()

    def _close(self) -> None:
        self._runner.close()
        self.store.close()

    def advance(self, seconds: float) -> None:
        """Advance the clock. Nothing runs by itself."""
        if seconds < 0:
            raise Invalid("time cannot go back")
        self.now += timedelta(seconds=seconds)

    def submitted(self, task: TaskFunction[P, Any, R], /, **arguments: Any) -> list[Task[R]]:
        """The tasks of a type that were submitted, in order, whatever became of them: those with these arguments."""
        if unknown := arguments.keys() - set(task._handler.arguments.names):
            raise Invalid(f"{task._handler.code} has no argument {', '.join(sorted(unknown))}")
        return [task.get(task_id) for task_id, given in self._calls_of(task) if arguments.items() <= given.items()]

    def assert_submitted(self, task: TaskFunction[P, Any, R], /, **arguments: Any) -> Task[R]:
        """Fail unless such a task was submitted; returns the last one. Arguments that are not named do not matter."""
        if found := self.submitted(task, **arguments):
            return found[-1]
        calls = [_call_text(task, given) for _, given in self._calls_of(task)]
        raise AssertionError(
            f"{_call_text(task, arguments)} was not submitted, but " + (", ".join(calls) or f"no {task._handler.code}")
        )

    def assert_not_submitted(self, task: TaskFunction[P, Any, R], /, **arguments: Any) -> None:
        """Fail if such a task was submitted."""
        if found := self.submitted(task, **arguments):
            ids = ", ".join(str(each.id) for each in found)
            raise AssertionError(f"{_call_text(task, arguments)} was submitted: task {ids}")

    def _calls_of(self, task: TaskFunction[..., Any, Any]) -> list[tuple[int, dict[str, Any]]]:
        """The tasks of a type, oldest first, with all their arguments: what was left out has its default."""
        handler, page = task._handler, self.store.tasks.find(Filter(type=task._handler.code))
        records = page.items
        while page.next_cursor is not None:
            page = self.store.tasks.find(Filter(type=task._handler.code), cursor=page.next_cursor)
            records = records + page.items
        parameters = inspect.signature(handler.function).parameters.values()
        defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        return [(record.id, defaults | handler.arguments.decode(record.ext)) for record in reversed(records)]

    def drain(self, *, through: float = 0.0) -> list[Ran]:
        """Run everything that is due, one task after the other, with children; returns what ran, in order.

        `through` lets that many seconds go by meanwhile, from one start time to the next, so that delayed tasks and
        retries run at their time too, and schedules fire. Handlers run here, one at a time: one that waits for another
        task waits in vain. Listeners are called after each task; what they raise is raised here.
        """
        if through < 0:
            raise Invalid("time cannot go back")
        return self._outside_event_loop(lambda: self._drain(self.now + timedelta(seconds=through)))

    def _outside_event_loop(self, work: Callable[[], T]) -> T:
        """Here, or in a thread if an event loop runs here: handlers that are no coroutines may start one."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return work()
        with ThreadPoolExecutor(1, thread_name_prefix="headgate sandbox") as thread:
            return thread.submit(copy_context().run, work).result()

    def _drain(self, end: datetime) -> list[Ran]:
        self.store.wakeups.hear(News(missed=True))  # a test's own transaction sends no wake-up
        ran: list[Ran] = []
        while True:
            while (execution := self._next()) is not None:
                if len(ran) == MOST_EXECUTIONS:
                    raise RuntimeError(
                        f"{MOST_EXECUTIONS:,} executions without an end: does a task submit itself forever?"
                    )
                ran.append(self._execute(execution))
                self._call_listeners()
            if self._call_listeners():  # which may have submitted something
                continue
            moment = self._next_moment()
            if moment is None or moment > end:
                self.now = max(self.now, end)
                return ran
            self.now = moment

    def _call_listeners(self) -> int:
        """Call the app's listeners with new events; returns how many calls were made. Their errors are raised."""
        calls = 0
        page, after = self._feed.read(self._heard, PAGE)
        for entry in page:
            self._heard = entry.place
            code = None if entry.task_info is None else entry.task_info.type
            for listener in self._app._listeners:
                if listener.wants(entry.event, code):
                    answer = listener.function(event_for_listeners(entry.event, code or ""))
                    if inspect.iscoroutine(answer):
                        self._runner.run(answer, context=copy_context())
                    calls += 1
        self._heard = after
        return calls + (self._call_listeners() if len(page) == PAGE else 0)

    def _next(self) -> Execution | None:
        fire_due(self.store)
        self.store.due.bring()
        codes = frozenset(handler.code for handler in self._app._registry)
        claimed = self.store.claims.take(ClaimRequest(self._worker_id, 1, types=codes))
        return claimed.executions[0] if claimed.executions else None

    def _next_moment(self) -> datetime | None:
        """When something can run that cannot run now: at a start time, a tick, or with a token of a rate limit."""
        aheads = (self.store.due.next_in(), self.store.schedules.next_due())
        moments = [self.now + timedelta(seconds=ahead) for ahead in aheads if ahead is not None]
        for task in self.store.tasks.find(Filter(status=(State.QUEUED,)), limit=200).items:
            closed = [gate for gate in self.store.tasks.why(task.id) if not gate.open]
            moments += [gate.until + A_LITTLE_LATER for gate in closed if gate.until is not None]
        return min((moment for moment in moments if moment > self.now), default=None)

    def _execute(self, execution: Execution) -> Ran:
        run = Run(execution, self._app._registry[execution.type])
        rules = self.store.types.recent(execution.type)
        try:
            answer = self._call(run)
        except (Exception, SystemExit, asyncio.CancelledError, Paused, Interrupted) as error:  # Ctrl-C is the test's
            event = event_of_error(run, error, rules)
        else:
            event = event_of_result(run, answer, rules)
        if event is not None:
            self.store.executions.settle([Outcome(execution, event, progress=run.progress)])
        task = self.store.tasks.get(execution.id)
        error_line = event.error.partition("\n")[0] if isinstance(event, Raised) else None
        return Ran(execution.id, execution.type, task.status, error_line)

    def _call(self, run: Run) -> Any:
        """The handler's result, called in a context where it finds its own `Context`."""
        if inspect.iscoroutinefunction(run.handler.function):
            return self._runner.run(self._coroutine(run), context=copy_context())
        return copy_context().run(self._function, run)

    async def _coroutine(self, run: Run) -> Any:
        task = asyncio.current_task()
        assert task is not None
        run.interrupt = task.cancel
        try:
            reporter = LoopReporter(self._reports(run), inline)
            try:
                answer = await run.handler.function(**self._begin(run, reporter))
            except BaseException:
                await reporter.close()
                raise
            await reporter.finish()
        finally:
            await asyncio.sleep(0)  # reports that it did not wait for are made all the same
        return answer

    def _function(self, run: Run) -> Any:
        reports = self._reports(run)
        progress = SteadyProgress(reports.progress, lambda: self.now.timestamp(), timers=False)
        reporter = ThreadReporter(reports, _on_own_loop, progress)
        try:
            return run.handler.function(**self._begin(run, reporter))
        finally:
            reporter.close()

    def _reports(self, run: Run) -> ExecutionReports:
        return ExecutionReports(self.store, inline, run, HoldLine(self.store, inline, most_seconds=0.0))

    def _begin(self, run: Run, reporter: Reporter) -> dict[str, Any]:
        """Make the context that the handler sees; its arguments."""
        saved = self.store.executions.checkpoints(run.execution.id)
        run.context = Context(run.execution, reporter, saved)
        current.set(run.context)
        return run.handler.arguments.decode(run.execution.ext)


def _on_own_loop(work: Coroutine[Any, Any, None]) -> Future[None]:
    with ThreadPoolExecutor(1, thread_name_prefix="headgate sandbox") as thread:
        return thread.submit(asyncio.run, work)


def _call_text(task: TaskFunction[..., Any, Any], arguments: dict[str, Any]) -> str:
    return f"{task._handler.code}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
