"""What a tenant learns of another: nothing, by any route; made from the route table, so that none is forgotten."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app, routes_of
from headgate.api.door.gatekeeper import ALWAYS_OPEN
from headgate.core.keys import Role
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import Store
from tests.api.conftest import HERE, Client
from tests.factories import PLAIN
from tests.schedules import new

MINE, THEIRS = 1, 2
ABSENT = 10**9
CANARY = "canary-4711"
MEDIA = find_packs(["media"])
TABLE = routes_of(MEDIA)
NEEDED = {
    "/api/periodic-tasks/preview": "?cron_expressions=@daily",
    "/api/requests/busy": "?subscription_id=1",
}  # where a question is nothing without it
EXEC = "00000000-0000-4000-8000-000000000000"


class Route(NamedTuple):
    method: str
    path: str
    role: Role | None
    shared: bool


def routes() -> list[Route]:
    """What the API answers to."""
    return sorted(Route(route.method, route.path, route.role, route.shared) for route in TABLE)


ROUTES = routes()
GUARDED = [route for route in ROUTES if route.path not in ALWAYS_OPEN]
OF_A_TASK = [route for route in GUARDED if re.search(r"/(tasks|requests)/\{\w*id\}|\{task_id\}", route.path)]
OF_A_SCHEDULE = [route for route in GUARDED if "{periodic_id}" in route.path]
# What a route needs to get as far as looking for its task.
BODIES: dict[str, Any] = {
    "resolve": {"remark": "done"},
    "reschedule": {"delay_seconds": 60},
    "progress": {"exec_id": EXEC, "done": 1},
    "log": {"exec_id": EXEC, "lines": [{"level": "info", "message": "x"}]},
    "complete": {"exec_id": EXEC, "status": "Success", "result": None},
    "fail": {"exec_id": EXEC, "error_info": "x"},
    "checkpoint": {"exec_id": EXEC, "name": "x", "state": {}},
}


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


def filled(path: str, task_id: int = 1) -> str:
    path = path.replace("rate-limits/{name}", "rate-limits/lane:default").replace("{agent_id}", "agent")
    path = path.replace("{code}", "plain").replace("{name}", "default")
    return re.sub(r"\{\w+\}", str(task_id), path)


class House:
    """Two tenants, and keys of every kind."""

    def __init__(self, client: Client, store: Store) -> None:
        self.client = client
        self.store = store
        self.keys: dict[str, str] = {}
        for role in Role:
            for tenant in (None, MINE, THEIRS):
                self.keys[f"{role.word} {tenant}"] = store.keys.add(role.word, role, tenant_id=tenant)[1]

    def ask(self, method: str, path: str, key: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.keys[key]}"} if key in self.keys else {}
        given = {} if body is None else {"json": body}
        return self.client.request(method, path, headers=headers, **given)


@pytest.fixture
def family(store: Store, url: str) -> Iterator[House]:
    """On each database in turn, with a task and a schedule of each tenant that tell a secret of theirs."""
    for tenant in (MINE, THEIRS):
        secret = CANARY if tenant == THEIRS else "mine"
        store.tasks.submit(
            NewTask(
                PLAIN.code, ext=json.dumps({"secret": secret}), tenant_id=tenant, name=secret, category=secret,
                mutex="shared", unique_key="same", correlation_id=secret,
            )
        )  # fmt: skip
        store.schedules.add(new("0 0 1 1 *", tenant_id=tenant, category=secret, ext=json.dumps({"secret": secret})))
    set_up(store, MEDIA, migrate=True)
    with TestClient(create_app(store, Settings(url=url, packs="media")), base_url=HERE) as client:
        yield House(client, store)


def test_every_route_says_which_role_it_needs():
    """Spec: B11"""
    assert [named(route) for route in GUARDED if not isinstance(route.role, Role)] == []
    assert len(GUARDED) > 30
    assert len(OF_A_TASK) > 15
    assert len(OF_A_SCHEDULE) == 8


@pytest.mark.parametrize("route", OF_A_TASK, ids=named)
def test_another_tenants_task_is_as_absent_as_one_that_never_was(family, route):
    """Spec: B11"""
    body = BODIES.get(route.path.rpartition("/")[2])
    if body is None and "{agent_id}" in route.path:
        body = {"exec_id": EXEC}
    before = family.store.tasks.get(2), family.store.events.of(2)
    foreign, absent = (
        family.ask(route.method, filled(route.path, task_id), f"admin {MINE}", body) for task_id in (2, ABSENT)
    )
    assert foreign.status_code == absent.status_code
    assert foreign.status_code in (404, 409), foreign.text
    told, never = (answer.text.replace(answer.json()["request_id"], "") for answer in (foreign, absent))
    assert re.sub(r'(task |request |"task_id":)2\b', rf"\g<1>{ABSENT}", told) == never
    assert (family.store.tasks.get(2), family.store.events.of(2)) == before


@pytest.mark.parametrize("route", OF_A_SCHEDULE, ids=named)
def test_another_tenants_schedule_is_as_absent_as_one_that_never_was(family, route):
    """Spec: B11, B9"""
    body = {"type": "plain", "cron_expressions": "* * * * *"} if route.method == "PUT" else None
    before = family.store.schedules.get(2)
    foreign, absent = (
        family.ask(route.method, filled(route.path, number), f"admin {MINE}", body) for number in (2, ABSENT)
    )
    assert foreign.status_code == absent.status_code == 404
    told, never = (answer.text.replace(answer.json()["request_id"], "") for answer in (foreign, absent))
    assert re.sub(r'(schedule |"schedule_id":)2\b', rf"\g<1>{ABSENT}", told) == never
    assert family.store.schedules.get(2) == before
    assert family.ask(route.method, filled(route.path, 1), f"admin {MINE}", body).status_code in (200, 204)


@pytest.mark.parametrize("route", [r for r in GUARDED if r.method == "GET" and "events" not in r.path], ids=named)
def test_nothing_that_can_be_read_tells_of_another_tenants_task(family, route):
    """Spec: B11"""
    answer = family.ask("GET", filled(route.path) + NEEDED.get(route.path, ""), f"admin {MINE}")
    assert answer.status_code in (200, 403, 404), answer.text  # 403: figures of all tenants together
    assert CANARY not in answer.text


def test_lists_filters_and_cursors_stay_within_the_tenant(family):
    """Spec: B11"""

    def ids(query: str, key: str = f"admin {MINE}") -> list[int]:
        return [task["id"] for task in family.ask("GET", f"/api/tasks{query}", key).json()["items"]]

    assert ids("", "admin None") == [2, 1]
    for query in ("", "?mutex=shared", "?cursor=3", "?status=queued", "?type=plain"):
        assert ids(query) == [1]
    for query in (f"?q={CANARY}", f"?category={CANARY}", f"?correlation_id={CANARY}", "?parent_id=2"):
        assert ids(query) == []


def test_an_action_on_many_reaches_the_tenants_own_alone(family):
    """Spec: B11"""
    body = {"action": "cancel", "ids": [1, 2, ABSENT]}
    mine, foreign, absent = family.ask("POST", "/api/tasks/actions", f"admin {MINE}", body).json()["items"]
    assert mine["status"] == "cancelled"
    assert foreign["problem"].replace("2", str(ABSENT)) == absent["problem"]
    family.ask("POST", "/api/tasks/actions", f"admin {MINE}", {"action": "cancel", "filter": {"type": "plain"}})
    assert family.store.tasks.get(2).status is State.QUEUED


def test_what_a_key_submits_is_its_tenants_whatever_it_says(family):
    """Spec: B11"""
    body = {"type": "plain", "unique_key": "new"}
    assert family.ask("POST", "/api/tasks", f"submit {MINE}", body).json()["tenant_id"] == MINE
    assert family.ask("POST", "/api/tasks", f"submit {MINE}", body | {"tenant_id": MINE}).status_code == 201
    assert family.ask("POST", "/api/tasks", f"submit {MINE}", body | {"tenant_id": THEIRS}).status_code == 403
    assert family.ask("POST", "/api/tasks", "submit None", body | {"tenant_id": THEIRS}).json()["tenant_id"] == THEIRS


def test_a_parent_of_another_tenant_is_no_parent(family):
    """Spec: B11"""
    foreign, absent = (
        family.ask("POST", "/api/tasks", f"submit {MINE}", {"type": "plain", "parent_id": task_id})
        for task_id in (2, ABSENT)
    )
    assert foreign.status_code == absent.status_code
    assert foreign.json()["detail"].replace("2", str(ABSENT)) == absent.json()["detail"]


def test_keys_mutexes_and_unique_keys_of_tenants_do_not_meet(family):
    """Spec: B11"""
    headers = {"Idempotency-Key": "one"}
    made = []
    for tenant in (MINE, THEIRS):
        said = headers | {"Authorization": f"Bearer {family.keys[f'submit {tenant}']}"}
        made.append(family.client.post("/api/tasks", json={"type": "plain", "ext": {"of": tenant}}, headers=said))
    assert [answer.status_code for answer in made] == [201, 201]
    assert made[0].json()["id"] != made[1].json()["id"]
    assert {family.store.tasks.get(task_id).status for task_id in (1, 2)} == {State.QUEUED}


def test_an_agent_is_given_its_tenants_tasks_alone(family):
    """Spec: B11, B2"""
    body = {"limit": 10, "wait_seconds": 0}
    claimed = family.ask("POST", "/api/agents/a/claim", f"agent {MINE}", body).json()["tasks"]
    assert [task["id"] for task in claimed] == [1]
    asked = family.ask("POST", "/api/agents/a/claim", f"agent {MINE}", body | {"tenant_id": THEIRS})
    assert asked.status_code == 403


def test_an_exec_id_of_another_tenants_task_opens_nothing(family):
    """Spec: B11, B3"""
    worker_id = family.store.workers.register("w")
    [theirs] = family.store.claims.take(ClaimRequest(worker_id, 2, tenant_id=THEIRS)).executions
    assert theirs.id == 2
    body = {"exec_id": theirs.exec_id, "status": "Success", "result": None}
    answer = family.ask("POST", "/api/agents/a/tasks/2/complete", f"agent {MINE}", body)
    assert answer.status_code in (404, 409)
    assert family.store.tasks.get(2).status is State.RUNNING


def test_holders_of_other_tenants_are_a_count(family):
    """Spec: B11"""
    family.store.lanes.set_capacity("default", 1)
    [first] = family.store.claims.take(ClaimRequest(family.store.workers.register("w"), 1, tenant_id=THEIRS)).executions
    assert first.id == 2
    why = family.ask("GET", "/api/tasks/1/why", f"read {MINE}").text
    assert CANARY not in why
    assert not re.search(r'"holders":\[[^\]]*\b2\b', why)
