"""Correlation ids and spans, from the submit to the settling, with OpenTelemetry's own SDK; and nothing without it."""

import asyncio
import logging
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.app import Headgate
from headgate.client import call_of
from headgate.core.states import FINAL
from headgate.core.task import NewTask
from headgate.events.log_lines import FIELDS
from headgate.events.telemetry import request_origin
from headgate.settings import Settings
from tests.worker.conftest import until, working

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.fixture
def spans(monkeypatch):
    """What is traced meanwhile, by everybody in this process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.fixture
def app(url):
    made = Headgate(settings=Settings(url=url, poll_seconds=0.2))

    @made.task
    async def greet(name: str = "you") -> str:
        with trace.get_tracer("shop").start_as_current_span("look up"):
            return name

    @made.task
    def count() -> int:
        with trace.get_tracer("shop").start_as_current_span("add up"):
            return 1

    @made.task
    async def fail() -> None:
        raise ValueError("the password is plover")

    yield made
    made.close()


def a(app, task_type):
    handler = app._registry[task_type]
    return call_of(handler, NewTask(handler.code), (), {})


def named(spans, name):
    return [span for span in spans.get_finished_spans() if span.name == name]


def finished(app, task_ids):
    until(lambda: all(app.store.tasks.get(each).status in FINAL for each in task_ids))


def settled(spans, count):
    """The spans "settle", when so many tasks are in them."""
    until(lambda: sum(span.attributes["headgate.batch"] for span in named(spans, "settle")) >= count)
    return named(spans, "settle")


@pytest.mark.parametrize(("task_type", "inner"), [("greet", "look up"), ("count", "add up")])
def test_submit_run_and_what_a_handler_does_are_one_trace(app, spans, task_type, inner):
    """Spec: D11"""
    task = app.submit_sync(a(app, task_type))
    with working(app):
        finished(app, [task.id])
        [settle] = settled(spans, 1)
    [submit], [run], [within] = (
        named(spans, f"submit {task_type}"),
        named(spans, f"run {task_type}"),
        named(spans, inner),
    )
    assert submit.context.trace_id == run.context.trace_id == within.context.trace_id
    assert within.parent.span_id == run.context.span_id
    assert task.record_sync().correlation_id == f"{submit.context.trace_id:032x}"
    assert run.attributes["headgate.task.id"] == task.id
    assert run.attributes["headgate.outcome"] == "Returned"
    assert [link.context.span_id for link in settle.links] == [run.context.span_id]


@pytest.mark.parametrize("task_type", ["greet", "count", "fail"])
def test_the_lines_of_a_task_have_the_trace_of_its_run(app, spans, caplog, task_type):
    """Spec: D10"""
    caplog.set_level(logging.INFO, "headgate.tasks")
    handler = app._registry[task_type]
    task = app.submit_sync(call_of(handler, NewTask(handler.code, correlation_id="order-7"), (), {}))
    with working(app):
        finished(app, [task.id])
        settled(spans, 1)
    [run] = named(spans, f"run {task_type}")
    until(lambda: len([each for each in caplog.records if each.name == "headgate.tasks"]) == 1)
    [record] = [each for each in caplog.records if each.name == "headgate.tasks"]
    fields = getattr(record, FIELDS)
    assert (fields["trace_id"], fields["correlation_id"]) == (f"{run.context.trace_id:032x}", "order-7")


def test_a_settle_says_how_many_it_wrote_down(app, spans):
    """Spec: D11"""
    made = app.submit_many_sync([a(app, "greet") for _ in range(20)])
    with working(app):
        finished(app, [task.id for task in made])
        settles = settled(spans, 20)
    assert sum(span.attributes["headgate.batch"] for span in settles) == 20
    assert sum(len(span.links) for span in settles) == 20
    assert named(spans, "submit greet")[0].attributes["headgate.tasks"] == 20


def test_a_failure_is_marked_and_its_message_stays_with_the_task(app, spans):
    """Spec: D11"""
    task = app.submit_sync(a(app, "fail"))
    with working(app):
        finished(app, [task.id])
        settled(spans, 1)
    [run] = named(spans, "run fail")
    assert run.status.status_code is trace.StatusCode.ERROR
    assert run.status.description == "ValueError"
    assert not any("plover" in span.to_json() for span in spans.get_finished_spans())


def test_a_submit_joins_the_span_it_is_made_in_also_from_a_coroutine(app, spans):
    """Spec: D11"""

    async def shop():
        with trace.get_tracer("shop").start_as_current_span("checkout") as outer:
            task = await app.submit(a(app, "greet"))
            return outer.get_span_context(), task

    outer, task = asyncio.run(shop())
    [submit] = named(spans, "submit greet")
    assert submit.parent.span_id == outer.span_id
    assert task.record_sync().correlation_id == f"{outer.trace_id:032x}"


def test_a_request_with_a_trace_is_gone_on_with(app, spans, url):
    """Spec: D10, D11"""
    with TestClient(create_app(app.store, Settings(url=url)), base_url="http://127.0.0.1") as client:
        made = client.post("/api/tasks", json={"type": "greet"}, headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
    [submit] = named(spans, "submit greet")
    assert made.json()["correlation_id"] == TRACE == f"{submit.context.trace_id:032x}"
    assert f"{submit.parent.span_id:016x}" == SPAN
    with working(app):
        finished(app, [made.json()["id"]])
        settled(spans, 1)
    assert named(spans, "run greet")[0].context.trace_id == submit.context.trace_id


def test_a_request_without_a_trace_gets_one(app, spans, url):
    """Spec: D10, D11"""
    with TestClient(create_app(app.store, Settings(url=url)), base_url="http://127.0.0.1") as client:
        made = client.post("/api/tasks", json={"type": "greet"})
        named_so = client.post("/api/tasks", json={"type": "greet"}, headers={"X-Correlation-ID": "order-7"})
    first, _ = named(spans, "submit greet")
    assert made.json()["correlation_id"] == f"{first.context.trace_id:032x}"
    assert named_so.json()["correlation_id"] == "order-7"


@pytest.mark.parametrize("traceparent", [
    "", "00", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{SPAN}-01",
    f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01-more", f"00-{TRACE}-{SPAN}-01\n",
])  # fmt: skip
def test_a_traceparent_that_is_none_counts_as_not_said(traceparent):
    """Spec: D10"""
    request = request_origin("r-1", "", traceparent)
    assert (request.correlation_id, request.parent, request.named) == ("r-1", None, False)


ALONE = """
import sys
import headgate, headgate.testing
from headgate.api.app import create_app
app = headgate.Headgate()
@app.task
async def greet() -> None: ...
with headgate.testing.sandbox(app) as box:
    greet.submit_sync()
    assert [ran.status for ran in box.drain()] == ["succeeded"]
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def test_a_program_that_does_not_trace_loads_nothing_of_it():
    """Spec: D11"""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
