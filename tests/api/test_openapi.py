"""The OpenAPI file is complete and true: whatever is asked for by it is answered by it."""

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from starlette.testclient import TestClient

from headgate.api.app import create_app, routes_of
from headgate.api.door.principal import Role
from headgate.core.states import State
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.settings import Settings
from headgate.store.store import Store, open_store
from tests.api.conftest import HERE
from tests.factories import TYPES, put
from tests.schedules import CALLED, new

EXAMPLES = 8
MEDIA = find_packs(["media"])
JUDGED = {"checks": {"negative_data_rejection": {"expected-statuses": [400, 401, 403, 404, 409, 413, 415, 422]}}}
# A type must be known, a retry needs a count: what the schema allows may still break a rule of ours.
NOT_ASKED = ("positive_data_acceptance",)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Store]:
    """A store with something of everything in it."""
    with open_store(f"sqlite:///{tmp_path}/store.db") as opened:
        opened.migrate()
        set_up(opened, MEDIA)
        for kind in TYPES:
            opened.types.put(kind)
        for state in (
            State.DEAD,
            State.SUCCEEDED,
            State.RETRYING,
            State.PAUSED,
            State.PENDING,
            State.QUEUED,
            State.NOTIFYING,
        ):
            put(opened, state)
        for http in (None, CALLED, None):
            opened.schedules.trigger(opened.schedules.add(new(http=http)).id)
        yield opened


def file_of(store: Store) -> dict[str, Any]:
    with TestClient(create_app(store, Settings(packs="media")), base_url=HERE) as client:
        found: dict[str, Any] = client.get("/api/openapi.json").json()
    return found


def test_every_answer_is_as_the_openapi_file_says(served):
    """Spec: X6"""
    load_all_checks()
    schema = schemathesis.openapi.from_dict(file_of(served), config=schemathesis.Config.from_dict(JUDGED))
    schema.app = create_app(served, Settings(packs="media"))
    wrong: list[str] = []
    excluded = CHECKS.get_by_names(NOT_ASKED)
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if streams(operation):
            continue
        _, key = served.keys.add("fuzz", Role.ADMIN)  # for each, since some of them make and revoke keys
        for mode in GenerationMode:
            try:
                ask(operation, mode, key, excluded)
            except Unsatisfiable:  # there is no wrong way to ask for it
                continue
            except FailureGroup as found:
                wrong.append(str(found))
    assert not wrong, "\n\n".join(wrong)


def ask(operation, mode, key, excluded):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def asked(case):
        hurry(case)
        if mode is GenerationMode.POSITIVE:
            make_known(case)
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {key}"}
        case.call_and_validate(base_url=HERE, excluded_checks=excluded)

    asked()


def streams(operation):
    """Whether it never ends."""
    answers = operation.definition.raw["responses"].values()
    return any("text/event-stream" in answer.get("content", {}) for answer in answers)


def hurry(case):
    """Wait for nothing that will not come."""
    for where in (case.body, case.query):
        for name, most in (("wait_seconds", 60), ("wait", 300), ("sync", True)):
            said = where.get(name) if isinstance(where, dict) else None
            written = str(said).lower() in ("true", "1")  # in an address
            if written or (isinstance(said, int | float) and 0 <= said <= most):
                where[name] = type(most)(0)


def make_known(case):
    """Ids, and tasks of a type, that there are, so that they get further."""
    for name, value in case.path_parameters.items():
        if name in ("task_id", "request_id") and isinstance(value, int):
            case.path_parameters[name] = 1 + value % 8
        if name == "periodic_id" and isinstance(value, int):
            case.path_parameters[name] = 1 + value % 3
    if case.path.startswith("/api/periodic-tasks") and isinstance(case.body, dict) and "type" in case.body:
        case.body |= {"type": "plain", "cron_expressions": "*/5 * * * *", "timezone": "Asia/Shanghai"}
    if isinstance(case.body, dict):
        for task in (case.body, *case.body.get("tasks", [])):
            if "type" in task and case.path.startswith("/api/tasks"):
                task["type"] = "plain"


def test_every_route_is_in_the_openapi_file(served):
    """Spec: X6"""
    paths = file_of(served)["paths"]
    routes = {
        (route.path, route.method.lower())
        for route in routes_of(MEDIA)
        if route.path not in ("/api/docs", "/api/openapi.json")
    }
    assert routes == {(path, method) for path in paths for method in paths[path]}


def test_every_body_refuses_unknown_fields_and_says_so(served):
    """Spec: X6"""
    found = file_of(served)
    shapes = found["components"]["schemas"]
    taken = [
        part["$ref"].rsplit("/", 1)[1]
        for path in found["paths"].values()
        for operation in path.values()
        if "requestBody" in operation
        for body in operation["requestBody"]["content"].values()
        for part in (body["schema"], *body["schema"].get("oneOf", []))
        if "$ref" in part
    ]
    assert taken
    assert [name for name in taken if shapes[name].get("additionalProperties") is not False] == []


def test_a_query_of_any_names_says_so(served):
    """Spec: X6"""
    [query] = file_of(served)["paths"]["/api/queue/capacity"]["post"]["parameters"]
    assert (query["in"], query["style"], query["explode"], query["required"]) == ("query", "form", True, True)
    schema = query["schema"]
    assert (schema["type"], schema["minProperties"]) == ("object", 1)
    assert schema["additionalProperties"] == {"type": "integer", "minimum": 0, "maximum": 1_000_000}


def test_a_body_that_may_be_left_out_is_not_required(served):
    """Spec: X6"""
    paths = file_of(served)["paths"]
    assert paths["/api/tasks/{task_id}/cancel"]["post"]["requestBody"]["required"] is False
    assert paths["/api/tasks/{task_id}/resolve"]["post"]["requestBody"]["required"] is True


def test_the_docs_page_names_every_route_and_loads_nothing(client):
    """Spec: X6"""
    page = client.get("/api/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in client.get("/api/openapi.json").json()["paths"]:
        assert path in page.text
    for part in (
        "#NewTaskIn",
        "#TaskOut",
        'id="NewTaskIn"',
        "Needs the role <code>submit</code>",
        "1 to 255 characters",
    ):
        assert part in page.text
    assert "<script" not in page.text
    assert "src=" not in page.text
    assert page.text.count("<style>") == 1
    style = page.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page.headers["content-security-policy"]
