"""The subject of a log line or a span: the request that is being answered here, or the task that is running.

Spans are made with OpenTelemetry where the program has set that up; nothing of it is ever imported from here.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from headgate.core.machine import Event, LeaseLost, Raised
from headgate.core.task import Execution, NewTask, Task

SCOPE = "headgate"
SAFE_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")


@dataclass(slots=True)
class RequestOrigin:
    """A request, and what is submitted for it: `correlation_id` is what all of that has in common."""

    request_id: str
    correlation_id: str
    named: bool  # by the caller: else a trace of ours may give it a better one
    parent: tuple[int, int, int] | None = None  # trace, span and flags of the caller
    user: str | None = None  # once it is known who asks
    task_id: int | None = None  # the one task that it is about


subject: ContextVar[RequestOrigin | Execution | None] = ContextVar("headgate_subject", default=None)


def request_origin(request_id: str, correlation_id: str, traceparent: str) -> RequestOrigin:
    """A request with these headers; one that is not valid counts as missing."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is not None and found[4] and traceparent.startswith("00-"):  # which ends with its flags
        found = None
    parent = None if found is None else (int(found[1], 16), int(found[2], 16), int(found[3], 16))
    if SAFE_ID.fullmatch(correlation_id):
        return RequestOrigin(request_id, correlation_id, True, parent)
    if found is not None:
        return RequestOrigin(request_id, found[1], True, parent)
    return RequestOrigin(request_id, request_id, False)


def log_fields() -> dict[str, Any]:
    """The fields that say what a log line written here and now is about; those that are not known are left out."""
    match subject.get():
        case Execution() as run:
            return task_fields(run)
        case RequestOrigin() as request:
            fields = {
                "request_id": request.request_id, "task_id": request.task_id, "correlation_id": request.correlation_id,
                "trace_id": _trace_id(request.correlation_id, request.parent), "user": request.user,
            }  # fmt: skip
            return {name: value for name, value in fields.items() if value is not None}
    return {}


def task_fields(task: Execution | Task, span: Any = None) -> dict[str, Any]:
    """The fields of a line about a task, or about an execution with this span."""
    fields = {
        "task_id": task.id, "exec_id": task.exec_id, "type": task.type, "attempt": task.attempt,
        "correlation_id": task.correlation_id, "trace_id": _trace_id(task.correlation_id, span=span),
        "user": str(task.creator) if task.creator else None, "tenant_id": task.tenant_id,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def _trace_id(correlation_id: str | None, parent: tuple[int, int, int] | None = None, span: Any = None) -> str | None:
    """The trace that a line belongs to: of the span, if there is one, else of the caller, else the correlation id."""
    if (trace := _tracing()) is not None:
        where = (trace.get_current_span() if span is None else span).get_span_context()
        if where.is_valid:
            return f"{where.trace_id:032x}"
    if parent is not None:
        return f"{parent[0]:032x}"
    return correlation_id if correlation_id is not None and _TRACE_ID.fullmatch(correlation_id) else None


def about_task(task_id: int) -> None:
    """From here on, lines written for the request that is being answered are about this task."""
    if isinstance(request := subject.get(), RequestOrigin):
        request.task_id = task_id


@contextmanager
def submitting(new_tasks: Sequence[NewTask]) -> Iterator[Sequence[NewTask]]:
    """A span around submitting these tasks; yields them with the correlation id of what they are submitted for."""
    source = subject.get()
    trace = _tracing()
    if trace is None:
        yield _correlated(new_tasks, None if source is None else source.correlation_id)
        return
    request = source if isinstance(source, RequestOrigin) else None
    parent = None
    if request is not None and request.parent is not None and not trace.get_current_span().get_span_context().is_valid:
        parent = _remote_parent(trace, *request.parent)
    types = {task.type for task in new_tasks}
    attributes = {"headgate.tasks": len(new_tasks)}
    name = f"submit {min(types)}" if len(types) == 1 else "submit"
    tracer = trace.get_tracer(SCOPE)
    with tracer.start_as_current_span(
        name, parent, trace.SpanKind.PRODUCER, attributes, record_exception=False
    ) as span:
        where = span.get_span_context()
        common = None if source is None else source.correlation_id
        if where.is_valid and (common is None or (request is not None and not request.named)):
            common = f"{where.trace_id:032x}"
            if request is not None:
                request.correlation_id = common
        yield _correlated(new_tasks, common)


def _correlated(new_tasks: Sequence[NewTask], common: str | None) -> Sequence[NewTask]:
    if common is None:
        return new_tasks
    return [task if task.correlation_id is not None else task._replace(correlation_id=common) for task in new_tasks]


def start_run_span(run: Execution) -> Any:
    """A span for an execution, in the trace of its submit if the correlation id is one; None if nothing is traced."""
    trace = _tracing()
    if trace is None:
        return None
    parent = None
    if run.correlation_id is not None and _TRACE_ID.fullmatch(run.correlation_id):
        trace_id = int(run.correlation_id, 16)
        # The span of the submit is not known here, only its trace: a stand-in, which every run of the trace has.
        parent = _remote_parent(trace, trace_id, trace_id % 2**64 or 1, trace.TraceFlags.SAMPLED)
    attributes = {
        "headgate.task.id": run.id, "headgate.task.type": run.type, "headgate.task.attempt": run.attempt,
        "headgate.tenant.id": run.tenant_id,
    }  # fmt: skip
    if run.correlation_id is not None:
        attributes["headgate.correlation.id"] = run.correlation_id
    # Without a parent it begins a trace of its own, whatever the worker was in when it claimed.
    context = parent or trace.set_span_in_context(trace.INVALID_SPAN)
    return trace.get_tracer(SCOPE).start_span(f"run {run.type}", context, trace.SpanKind.CONSUMER, attributes)


def enter_run(run: Execution, span: Any) -> None:
    """From here on, in this coroutine or thread, log lines and spans belong to this execution."""
    subject.set(run)
    if span is not None and (trace := _tracing()) is not None:
        sys.modules["opentelemetry.context"].attach(trace.set_span_in_context(span))


def end_run_span(span: Any, event: Event | None) -> None:
    """The execution is over. Its error is with the task, in full; here is only what kind it was."""
    trace = _tracing()
    if span is None or trace is None:
        return
    span.set_attribute("headgate.outcome", "none" if event is None else type(event).__name__)
    match event:
        case Raised(error):
            span.set_status(trace.StatusCode.ERROR, error.partition("\n")[0].partition(":")[0])
        case LeaseLost():
            span.set_status(trace.StatusCode.ERROR, "lost")
    span.end()


@contextmanager
def settling(count: int, runs: Iterable[Any]) -> Iterator[None]:
    """A span around settling a batch of executions; it links to the spans of `runs`."""
    trace = _tracing() if count else None
    if trace is None:
        yield
        return
    links = [trace.Link(run.span.get_span_context()) for run in runs if run is not None and run.span is not None]
    attributes = {"headgate.batch": count}
    tracer = trace.get_tracer(SCOPE)
    with tracer.start_as_current_span(
        "settle",
        trace.set_span_in_context(trace.INVALID_SPAN),
        trace.SpanKind.CLIENT,
        attributes,
        links,
        record_exception=False,
    ):
        yield


def _tracing() -> Any:
    """OpenTelemetry's `trace`, if the program has imported it and set up something that takes spans."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return trace


def _remote_parent(trace: Any, trace_id: int, span_id: int, flags: int) -> Any:
    where = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(where))
