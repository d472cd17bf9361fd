"""Consumers of the broker in other languages: they sign on here, start what was delivered, and report as agents do."""

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.keys import Role
from headgate.core.pause import PauseScope
from headgate.core.states import State
from headgate.settings import Settings
from tests.api.conftest import HERE
from tests.factories import lose, submit
from tests.worker.conftest import until

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def app(store, url):
    """A server with a broker, which nobody asks here: what the dispatcher hands over is taken from the store."""
    return create_app(store, Settings(url=url, broker="amqp://guest:guest@127.0.0.1:1/"))


def consume(client, types=("plain",), slots=2, agent="node", instance="1", **fields):
    body = {"types": list(types), "slots": slots, "instance": instance, **fields}
    return client.post(f"/api/agents/{agent}/consume", json=body)


def start(client, *reports, agent="node", instance="1"):
    tasks = [{"id": task_id, "exec_id": exec_id} for task_id, exec_id in reports]
    return client.post(f"/api/agents/{agent}/start", json={"instance": instance, "tasks": tasks})


def dispatch(store, leader=None):
    """What the dispatcher hands over now, as messages name it."""
    handed = store.dispatch.take(leader or store.dispatch.lead(30.0)).handovers
    return [(each.execution.id, each.execution.exec_id) for each in handed]


def outcomes(answer):
    assert answer.status_code == 200, answer.text
    return [item["outcome"] for item in answer.json()["items"]]


def end(client, report, word="complete", agent="node", **fields):
    task_id, exec_id = report
    return client.post(f"/api/agents/{agent}/tasks/{task_id}/{word}", json={"exec_id": exec_id, **fields})


def test_a_consumer_hears_which_queues_to_consume_and_how_they_are_declared(client, store):
    """Spec: D1, X6"""
    submit(store, lane="other")
    answer = consume(client, ["plain", "manual"]).json()
    assert answer["exchange"] == "headgate.tasks"
    assert answer["queues"] == [
        "headgate.tasks.default.manual",
        "headgate.tasks.default.plain",
        "headgate.tasks.other.plain",
    ]
    assert answer["arguments"]["x-queue-type"] == "quorum"
    assert answer["dispatched"] is False
    assert store.dispatch.lead(30.0) is not None
    assert consume(client).json()["dispatched"] is True


def test_a_consumer_gets_as_many_tasks_as_it_has_slots_and_starts_settles_and_gets_more(client, store):
    """Spec: D1, D2, X6"""
    tasks = [submit(store, ext=f'{{"number":{number}}}').id for number in range(3)]
    leader = store.dispatch.lead(30.0)
    assert dispatch(store, leader) == []
    consume(client, slots=2)
    first, second = dispatch(store, leader)
    assert dispatch(store, leader) == []
    [item] = start(client, first).json()["items"]
    assert (item["outcome"], item["task"]["status"], item["task"]["ext"]) == ("started", "running", {"number": 0})
    assert dispatch(store, leader) == [], "it runs in the slot that it was dispatched for"
    assert end(client, first, result=1).json()["status"] == "succeeded"
    [third] = dispatch(store, leader)
    assert outcomes(start(client, second, third)) == ["started", "started"]
    assert [report[0] for report in (first, second, third)] == tasks
    assert [(event.kind, event.actor) for event in store.events.of(first[0])][1:] == [
        ("scheduled", f"worker:{leader}"),
        ("started", "agent:node"),
        ("completed", "agent:node"),
    ]


def test_a_consumer_hears_that_what_is_in_the_broker_does_not_come(store, url):
    """Spec: D2"""
    settings = Settings(url=url, broker="amqp://guest:guest@127.0.0.1:1/", broker_resend_seconds=0.2)
    with TestClient(create_app(store, settings), base_url=HERE) as client:
        assert consume(client).json()["stalled"] is False
        submit(store)
        [handed] = dispatch(store)
        until(lambda: consume(client).json()["stalled"])
        assert consume(client, ["manual"]).json()["stalled"] is False
        start(client, handed)
        assert consume(client).json()["stalled"] is False


def test_what_a_message_names_is_started_once_and_only_under_its_exec_id(client, store):
    """Spec: D2, B3"""
    submit(store)
    consume(client), consume(client, instance="2")
    [handed] = dispatch(store)
    assert outcomes(start(client, (handed[0], UNKNOWN))) == ["stale"]
    assert outcomes(start(client, handed)) == ["started"]
    assert outcomes(start(client, handed, instance="2")) == ["stale"], "a duplicate at another process"
    assert outcomes(start(client, handed)) == ["started"], "the process that has it: the answer may have been lost"
    assert end(client, handed).json()["status"] == "succeeded"
    assert outcomes(start(client, handed)) == ["stale"]
    kinds = [event.kind for event in store.events.of(handed[0])]
    assert kinds == ["submitted", "scheduled", "started", "completed"]


def test_what_was_paused_since_is_held_back_and_what_was_cancelled_is_stale(client, store):
    """Spec: D2, A9"""
    paused, cancelled = submit(store), submit(store, "manual")
    consume(client, ["plain", "manual"])
    handed = dispatch(store)
    store.pauses.set(PauseScope.TYPE, "plain")
    client.post(f"/api/tasks/{cancelled.id}/cancel")
    assert outcomes(start(client, *handed)) == ["held_back", "stale"]
    assert store.tasks.get(paused.id).status is State.QUEUED
    assert store.tasks.get(paused.id).error_count == 0
    assert store.tasks.get(cancelled.id).status is State.CANCELLED


def test_a_consumer_that_takes_nothing_for_now_is_sent_nothing_and_may_claim(client, store):
    """Spec: D1"""
    task = submit(store)
    leader = store.dispatch.lead(30.0)
    consume(client)
    consume(client, slots=0)
    assert dispatch(store, leader) == []
    assert store.dispatch.served_types() == frozenset()
    claim = {"types": ["plain"], "lease_seconds": 30, "instance": "1"}
    assert [each["id"] for each in client.post("/api/agents/node/claim", json=claim).json()["tasks"]] == [task.id]


def test_a_consumer_that_is_not_heard_of_gets_nothing_more_and_what_it_had_goes_to_others(client, store):
    """Spec: D2, B2"""
    consume(client)
    tasks = [submit(store).id for _ in range(2)]
    leader = store.dispatch.lead(30.0)
    started, waiting = dispatch(store, leader)
    start(client, started)
    [row] = [each for each in store.workers.all() if each.agent_id == "node"]
    lose(store, row.id)
    answer = start(client, waiting)
    assert (answer.status_code, answer.json()["code"]) == (409, "worker-lost")
    store.executions.rescue(row.id)
    assert end(client, started).status_code == 409
    consume(client, instance="2")
    again = dispatch(store, leader)
    assert [task_id for task_id, _ in again] == tasks[:1]
    assert outcomes(start(client, *again, waiting, instance="2")) == ["started", "started"]


def test_why_and_the_list_of_workers_know_a_consumer(client, store):
    """Spec: D1, A8"""
    leader = store.dispatch.lead(30.0)
    consume(client, slots=1)
    running, waiting = submit(store), submit(store)
    [handed] = dispatch(store, leader)
    gate = client.get(f"/api/tasks/{running.id}/why").json()["gates"][0]
    assert (gate["code"], gate["params"]["queue"]) == ("in-broker", "headgate.tasks.default.plain")
    start(client, handed)
    [row] = [each for each in client.get("/api/workers").json()["items"] if each["kind"] == "agent"]
    assert (row["agent_id"], row["slots"], row["running"], row["by_broker"]) == ("node", 1, 1, True)
    gates = {gate["name"]: gate for gate in client.get(f"/api/tasks/{waiting.id}/why").json()["gates"]}
    assert (gates["worker"]["code"], gates["worker"]["holders"]) == ("workers-busy", [running.id])
    assigned = client.post("/api/tasks", json={"type": "plain", "ext": {}, "agent_id": "node"}).json()["id"]
    gates = {gate["name"]: gate for gate in client.get(f"/api/tasks/{assigned}/why").json()["gates"]}
    assert gates["worker"]["code"] == "agent-away", "what is assigned to an agent is not sent by message"


def test_a_key_of_one_tenant_consumes_nothing_and_starts_nothing(app, store):
    """Spec: B11. A queue holds the tasks of all tenants."""
    keys = {tenant: store.keys.add("agent", Role.AGENT, tenant_id=tenant)[1] for tenant in (None, 1)}
    submit(store, tenant_id=2)
    with TestClient(app, base_url=HERE) as client:
        client.headers["Authorization"] = f"Bearer {keys[None]}"
        consume(client)
        [handed] = dispatch(store)
        client.headers["Authorization"] = f"Bearer {keys[1]}"
        for answer in (consume(client), start(client, handed)):
            assert (answer.status_code, answer.json()["code"]) == (403, "shared-by-tenants")
        assert store.tasks.get(handed[0]).status is State.SCHEDULING
        client.headers["Authorization"] = f"Bearer {keys[None]}"
        assert outcomes(start(client, handed)) == ["started"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"types": [], "slots": 1, "instance": "1"},
        {"types": ["plain"], "slots": -1, "instance": "1"},
        {"types": ["plain"], "slots": 1},
        {"types": ["plain"], "slots": 1, "instance": "1", "lease_seconds": 1},
    ],
)
def test_a_consumer_that_makes_no_sense_is_refused(client, store, body):
    """Spec: D2"""
    assert client.post("/api/agents/node/consume", json=body).status_code == 422
    assert store.workers.all() == []


def test_a_server_without_a_broker_says_so(store, url):
    """Spec: D1"""
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as client:
        answer = consume(client)
    assert (answer.status_code, answer.json()["code"]) == (409, "no-broker")
    assert store.workers.all() == []
