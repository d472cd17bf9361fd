"""Routes of one's own: a handler's signature says what its route takes, and the request is taken at its word."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.api.door.principal import Principal, Role
from headgate.api.openapi import openapi_of
from headgate.api.problems import Rejected, problem_response
from headgate.api.routing import Header, Json, Router, Routes
from headgate.core.errors import Invalid, Refused
from headgate.settings import Settings
from tests.api.conftest import HERE

routes = Routes("shelves")


class Book(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    pages: Annotated[int, Meta(ge=1)] = 1


class Shelf(msgspec.Struct):
    name: str
    reader: str
    books: list[Book]


@routes.get("/api/shelves/{name}", Role.READ, "Look a shelf up", errors=(404,))
async def get_shelf(
    name: str,
    who: Principal,
    limit: Annotated[int, Meta(ge=1, le=9)] = 5,
    tag: list[str] | None = None,
    sorted: bool = False,
    mark: Annotated[str | None, Header("X-Mark")] = None,
) -> Shelf:
    """What stands on it,
    in order.
    """
    return Shelf(f"{name} {limit} {tag} {sorted} {mark}", who.name, [])


@routes.get("/api/shelves/empty", Role.READ, "The one that is empty")
async def empty() -> Shelf:
    return Shelf("empty", "", [])


@routes.put("/api/shelves/{name}/books/{number}", Role.OPERATOR, "Put a book there")
async def put_book(name: str, number: int, data: Book) -> Json[Shelf]:
    return Json(Shelf(f"{name}/{number}", "", [data]), 202, {"X-Put": "yes"})


@routes.post("/api/shelves/{name}/lock", Role.OPERATOR, "Lock a shelf")
@routes.post("/api/shelves/{name}/open", Role.OPERATOR, "Open a shelf")
async def act(name: str, action: str) -> Shelf:
    return Shelf(f"{name} {action}", "", [])


@routes.delete("/api/shelves/{name}", summary="Take a shelf down")
async def remove(name: str) -> None:
    if name == "wall":
        raise Refused("the wall stays")


@pytest.fixture
def client(store, url):
    with TestClient(create_app(store, Settings(url=url), routes), base_url=HERE) as opened:
        yield opened


def test_parameters_come_from_the_path_the_query_and_headers(client):
    """Spec: X6"""
    answer = client.get("/api/shelves/a?limit=9&tag=x&tag=null&sorted=true", headers={"X-Mark": "m"}).json()
    assert answer == {"name": "a 9 ['x', 'null'] True m", "reader": "person", "books": []}
    assert client.get("/api/shelves/a").json()["name"] == "a 5 None False None"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/shelves/eu%2Fwest", "eu/west"),
        ("/api/shelves/eu%2fw%20est", "eu/w est"),
        ("/api/shelves/%E4%B8%AD", "中"),
        ("/api/shelves/a+b/", "a+b"),
        ("/api/%73helves/empty", "empty"),  # what is written otherwise is the same name
    ],
)
def test_a_name_may_hold_whatever_can_be_written(client, path, name):
    """Spec: X6"""
    assert client.get(path).json()["name"].split(" 5")[0] == name


def test_everything_that_is_wrong_with_the_parameters_is_told_at_once(client):
    """Spec: X6"""
    answer = client.get("/api/shelves/a?limit=10&sorted=perhaps")
    assert answer.status_code == 422
    problem = answer.json()
    assert [error.partition(":")[0] for error in problem["errors"]] == ["limit", "sorted"]
    assert all(error in problem["detail"] for error in problem["errors"])


@pytest.mark.parametrize("number", ["1.0", "1e0", "+1", "01", " 1", "1_0", "١"])
def test_a_number_is_written_in_plain_digits(client, number):
    """Spec: X6"""
    answer = client.get("/api/shelves/a", params={"limit": number})
    assert (answer.status_code, answer.json()["errors"]) == (422, ["limit: write a number in plain digits"])
    assert client.get("/api/events", params={"task_id": number}).status_code == 422


@pytest.mark.parametrize("name", ["X-Mark", "Content-Type"])
def test_a_header_that_is_there_twice_is_refused(client, name):
    """Spec: X6"""
    method, path = ("GET", "/api/shelves/a") if name == "X-Mark" else ("PUT", "/api/shelves/a/books/7")
    twice = [(name, "application/json")] * 2
    answer = client.request(method, path, headers=twice, content=b'{"title": "t"}')
    assert (answer.status_code, answer.json()["detail"]) == (400, f"the header {name} is given twice")


def test_a_body_and_an_answer_with_a_status_and_headers_of_its_own(client):
    """Spec: X6"""
    answer = client.put("/api/shelves/a/books/7", json={"title": "t"})
    assert (answer.status_code, answer.headers["x-put"]) == (202, "yes")
    assert answer.json() == {"name": "a/7", "reader": "", "books": [{"title": "t", "pages": 1}]}
    assert client.put("/api/shelves/a/books/7", json={"title": "t", "pages": "2"}).status_code == 422
    assert client.put("/api/shelves/a/books/seven", json={"title": "t"}).status_code == 404
    assert client.put("/api/shelves/a/books/7").status_code == 422


def test_routes_that_differ_in_their_last_word_alone_share_a_handler(client):
    """Spec: X6"""
    assert [client.post(f"/api/shelves/a/{each}").json()["name"] for each in ("lock", "open")] == ["a lock", "a open"]
    assert client.post("/api/shelves/a/open?action=lock").status_code == 422
    paths = client.get("/api/openapi.json").json()["paths"]
    operations = {each: paths[f"/api/shelves/{{name}}/{each}"]["post"] for each in ("lock", "open")}
    assert [each["summary"] for each in operations.values()] == ["Lock a shelf", "Open a shelf"]
    assert len({each["operationId"] for each in operations.values()}) == 2
    assert [[each["name"] for each in one["parameters"]] for one in operations.values()] == [["name"], ["name"]]


def test_nothing_is_answered_with_nothing_and_an_error_with_its_problem(client):
    """Spec: X6"""
    answer = client.delete("/api/shelves/a")
    assert (answer.status_code, answer.content) == (204, b"")
    assert client.delete("/api/shelves/wall").json()["type"] == "urn:headgate:problem:refused"
    wrong = client.post("/api/shelves/a")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "DELETE, GET")


def test_a_route_that_names_no_role_is_for_admins(client, store):
    """Spec: B11"""
    [route] = [route for route in routes if route.method == "DELETE"]
    assert route.role is Role.ADMIN
    _, key = store.keys.add("operator", Role.OPERATOR)
    client.app.server.keyring.forget()
    answer = client.delete("/api/shelves/a", headers={"Authorization": f"Bearer {key}"})
    assert (answer.status_code, answer.json()["detail"]) == (403, "this needs the role admin")


def test_a_route_describes_itself(client):
    """Spec: X6"""
    operation: dict[str, Any] = client.get("/api/openapi.json").json()["paths"]["/api/shelves/{name}"]["get"]
    assert (operation["tags"], operation["x-role"]) == (["shelves"], "read")
    assert operation["description"] == "What stands on it, in order."
    found = {each["name"]: (each["in"], each["required"], each["schema"]) for each in operation["parameters"]}
    assert found == {
        "name": ("path", True, {"type": "string"}),
        "limit": ("query", False, {"type": "integer", "minimum": 1, "maximum": 9, "default": 5}),
        "tag": ("query", False, {"type": "array", "items": {"type": "string"}}),
        "sorted": ("query", False, {"type": "boolean", "default": False}),
        "X-Mark": ("header", False, {"type": "string"}),
    }
    assert "404" in operation["responses"]
    assert "413" not in operation["responses"]  # it takes no body


def test_two_routes_at_one_address_are_refused():
    """Spec: X6"""
    with pytest.raises(ValueError, match="two routes for GET /api/shelves/empty"):
        Router(None, [*routes, *[route for route in routes if route.path.endswith("empty")]])


async def no_name(other: str = "") -> str:
    return other


async def word(action: str = "all") -> str:
    return action


async def plain() -> str:
    return ""


@pytest.mark.parametrize(
    ("path", "handler", "options", "why"),
    [
        ("/api/shelves/{name}", no_name, {}, "no_name has no parameter 'name'"),
        ("/api/shelves/words", word, {}, "`action` is the last word of the path"),
        ("/api/shelves/words", plain, {"errors": (404, 418)}, "no problem with the status 418"),
    ],
)
def test_a_route_that_could_not_be_answered_is_refused_when_it_is_added(path, handler, options, why):
    """Spec: X6"""
    with pytest.raises(ValueError, match=f"GET {path}: .*{why}"):
        Routes("shelves").get(path, **options)(handler)


def test_a_page_of_the_console_is_no_place_for_a_route(store, url):
    """Spec: X6"""
    pages = Routes("pages")
    pages.get("/shelves")(plain)
    with pytest.raises(Invalid, match="GET /shelves: the console uses this path"):
        create_app(store, Settings(url=url), pages)


def test_a_word_in_a_path_hides_no_name_below_it(store, url, client):
    """Spec: X6"""
    words = Routes("words")
    words.get("/api/lanes/books/report", Role.READ)(plain)
    store.lanes.set_capacity("books", 1)
    with TestClient(create_app(store, Settings(url=url), words), base_url=HERE) as opened:
        assert opened.get("/api/lanes/books/report").json() == ""
        assert opened.put("/api/lanes/books", json={"capacity": 2}).json()["capacity"] == 2
    assert client.delete("/api/shelves/empty").status_code == 204
    wrong = client.post("/api/shelves/empty")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "DELETE, GET")


@pytest.mark.parametrize(("status", "code"), [(404, "not-found"), (409, "refused"), (418, "error"), (422, "invalid")])
def test_a_request_can_be_rejected_with_any_status(status, code):
    """Spec: X6"""
    answer = problem_response(Rejected(status, "no"), "r-1")
    assert answer.status_code == status
    assert msgspec.json.decode(answer.body)["type"] == f"urn:headgate:problem:{code}"


def test_the_file_of_routes_is_made_once():
    """Spec: X6"""
    assert openapi_of(tuple(routes)) is openapi_of(tuple(routes))
