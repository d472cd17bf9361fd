"""Small inputs cost a server little, whatever they are: on a real socket, by the processor time of its process.

A cost is a multiple of what a plain request costs, so that it says nothing of the machine. The bounds are some ten
times what the dearest inputs were seen to cost.
"""

import json
import statistics
from urllib.parse import urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.core.task import NewTask, TaskType
from headgate.store.store import open_store
from lab.headgate_server import headgate_server
from lab.raw_http import raw_client
from tests.plans.small_inputs import ATOMS, EXPRESSIONS, KIB, MOMENTS, TEMPLATES, ZONES

TASKS = 4_000
PLAIN = ("GET", "/api/tasks?limit=1")
TRIES = 3  # the server does other things meanwhile; what is dear is dear each time
MOST_OF_A_PREVIEW, MOST_OF_A_LIST, MOST_OF_A_TEMPLATE = 400, 50, 50
MOST_OF_A_BODY, MOST_OF_ITS_KIB = 50, 30
few = settings(max_examples=40)


class Meter:
    """Sends requests, and tells how many plain ones each costs."""

    def __init__(self, server, client):
        self._server = server
        self._client = client
        self._plain = statistics.median(self._seconds(*PLAIN) for _ in range(50))

    def cost(self, method, path, body=b""):
        return min(self._seconds(method, path, body) for _ in range(TRIES)) / self._plain

    def _seconds(self, method, path, body=b""):
        before = self._server.cpu_seconds()
        head = self._client.head(method, path, Content_Type="application/json", Content_Length=str(len(body)))
        self._client.send(head + body)
        assert self._client.answer().status in (200, 201, 422)
        return self._server.cpu_seconds() - before


@pytest.fixture(scope="module")
def meter(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        store.migrate()
        store.types.put(TaskType("plain"))
        store.types.put(TaskType("keyed", unique_key="{a}"))
        for start in range(0, TASKS, 500):
            numbers = range(start, start + 500)
            store.tasks.submit_many([NewTask("plain", category=f"c{n % 7}", creator=n % 31) for n in numbers])
    with headgate_server(folder) as server, raw_client(server.address) as client:
        yield Meter(server, client)


@few
@example("0 0 0 */28 2 MON#5", "Europe/Berlin", None)  # every 28 years
@given(EXPRESSIONS, st.sampled_from(ZONES), MOMENTS)
def test_no_schedule_makes_a_preview_dear(meter, expression, zone, after):
    """Spec: B9, X12"""
    asked = {"cron_expressions": expression, "timezone": zone, "count": 1}
    asked |= {} if after is None else {"after": after.isoformat()}
    assert meter.cost("GET", f"/api/periodic-tasks/preview?{urlencode(asked)}") < MOST_OF_A_PREVIEW


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["queued", "running", "dead"]), "type": st.sampled_from(["plain", "keyed"]),
        "lane": st.sampled_from(["default", "none"]), "category": st.sampled_from(["c1", "none"]),
        "creator": st.integers(0, 40), "mutex": st.just("m"), "parent_id": st.just(3), "agent_id": st.just("a"),
        "correlation_id": st.just("c"), "created_after": st.sampled_from(["2020-01-01T00:00:00Z"]),
        "created_before": st.sampled_from(["2100-01-01T00:00:00Z"]), "q": st.sampled_from(["x", "%", "_", "pl", "\\"]),
        "view": st.sampled_from("ABCD"), "cursor": st.integers(1, TASKS),
    },
)  # fmt: skip


@few
@example({"q": "no task has this", "type": "plain"})
@example({"type": "keyed", "category": "c1", "q": "%"})
@given(FILTERS)
def test_no_filter_makes_a_short_list_dear(meter, filters):
    """Spec: X12"""
    words = filters if "view" not in filters else {key: filters[key] for key in filters if key != "status"}
    assert meter.cost("GET", f"/api/tasks?{urlencode(words | {'limit': 10})}") < MOST_OF_A_LIST


@few
@example(["{a}"] * 85)
@given(TEMPLATES)
def test_no_template_makes_an_edit_or_a_submit_dear(meter, parts):
    """Spec: B5, X12"""
    edit = json.dumps({"unique_key": "".join(parts)[:255] or None}).encode()
    assert meter.cost("PUT", "/api/task-types/keyed", edit) < MOST_OF_A_TEMPLATE
    submit = json.dumps({"type": "keyed", "ext": {"a": {"b": 1}, "b": [9]}}).encode()
    assert meter.cost("POST", "/api/tasks", submit) < MOST_OF_A_TEMPLATE


@few
@example(["1e308"], 1_000)
@example(["{}"], 1_000)
@given(st.lists(ATOMS, min_size=1, max_size=8), st.integers(1, 1_000))
def test_no_body_costs_a_server_much_more_than_its_length(meter, atoms, times):
    """Spec: X6, X12"""
    body = f'{{"type": "plain", "unique": "arguments", "ext": {{"a": [{",".join(atoms * times)}]}}}}'.encode()
    assert meter.cost("POST", "/api/tasks", body) < MOST_OF_A_BODY + MOST_OF_ITS_KIB * len(body) / KIB
