"""Every route, asked by every kind of caller over a socket: made from the route table, so that none is missed."""

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.api.app import routes_of
from headgate.api.door.gatekeeper import ALWAYS_OPEN
from headgate.api.routing import Route
from headgate.core.keys import Role
from headgate.environment import utc_now
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.store.store import open_store
from lab.headgate_server import HeadgateServer, headgate_server
from lab.raw_http import raw_client

PACKS = find_packs(["media"])
ROUTES = routes_of(PACKS)
NO_KEY = ("nobody", "a stranger", "revoked", "expired")
WITH_KEY = tuple(f"{role.word}{manner}" for role in Role for manner in ("", " of a tenant"))
SIGNED_IN = tuple(f"{role.word} by session" for role in Role if role is not Role.AGENT)  # which signs in nowhere
STRANGERS_KEY = "hg_999_" + "0" * 56
MOST_FAILURES = 15  # from one address, before its next wrong key is answered with 429
ADDRESSES = (f"127.0.1.{number}" for number in count(1))
# A parameter that no route has is refused after the caller has been judged and before anything is done.
PROBE = "?no-such-parameter=1"


class Answer(NamedTuple):
    """What a route made of a caller."""

    status: int
    code: str
    detail: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("roles")


@pytest.fixture(scope="module")
def keys(folder: Path) -> dict[str, str]:
    """A key of each kind of caller, in the store before its server begins."""
    made = {"a stranger": STRANGERS_KEY}
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        store.migrate()
        set_up(store, PACKS, migrate=True)
        for role in Role:
            made[role.word] = store.keys.add(role.word, role)[1]
            made[f"{role.word} of a tenant"] = store.keys.add(role.word, role, tenant_id=1)[1]
        revoked, made["revoked"] = store.keys.add("revoked", Role.ADMIN)
        store.keys.revoke(revoked.id)
        made["expired"] = store.keys.add("expired", Role.ADMIN, expires_at=utc_now() + timedelta(milliseconds=1))[1]
    return made


@pytest.fixture(scope="module")
def server(folder: Path, keys: dict[str, str]) -> Iterator[HeadgateServer]:
    with headgate_server(folder, packs="media") as running:
        yield running


def headers_of(server: HeadgateServer, keys: dict[str, str], caller: str) -> dict[str, str]:
    """What a caller sends with each request; a session is begun for those who have one."""
    key = keys.get(caller.removesuffix(" by session"))
    bearer = {} if key is None else {"Authorization": f"Bearer {key}"}
    if "session" not in caller:
        return bearer
    with raw_client(server.address) as client:
        cookie = client.ask("POST", "/api/session", **bearer).headers["set-cookie"].partition(";")[0]
    return {"Cookie": cookie, "X-Headgate-Console": "1", "Origin": server.address}


def answers(server: HeadgateServer, headers: dict[str, str]) -> Iterator[tuple[Route, Answer]]:
    """What each route answers. Addresses change, because wrong keys of one address are counted."""
    for first in range(0, len(ROUTES), MOST_FAILURES):
        with raw_client(server.address, next(ADDRESSES)) as client:
            for route in ROUTES[first : first + MOST_FAILURES]:
                path = re.sub(r"\{\w+\}", "999999999", route.path)
                answer = client.ask(route.method, path + PROBE, **headers)
                yield route, Answer(answer.status, answer.json["code"], answer.json["detail"])


def expected(route: Route, caller: str) -> tuple[int, str]:
    """The status and the code that a caller gets by what the route declares."""
    if route.path in ALWAYS_OPEN:
        return 422, "invalid"
    if caller in NO_KEY:
        return 401, "unauthorized"
    role, of_a_tenant = Role[caller.split()[0].upper()], caller.endswith("of a tenant")
    if role < route.role or (role is Role.AGENT) > (route.role is Role.AGENT):
        return 403, "role-needed"
    if of_a_tenant and route.shared and route.method != "GET":
        return 403, "shared-by-tenants"
    return (422, "invalid") if route.any_query is None else (404, "no-lane")


@pytest.mark.parametrize("caller", [*NO_KEY, *WITH_KEY, *SIGNED_IN])
def test_every_route_answers_every_caller_as_the_role_it_declares_says(server, keys, caller):
    """Spec: B11"""
    wrong = []
    for route, answer in answers(server, headers_of(server, keys, caller)):
        due = expected(route, caller)
        named = answer.code != "role-needed" or answer.detail == f"this needs the role {route.role.word}"
        if (answer.status, answer.code) != due or not named:
            wrong.append((route.method, route.path, answer, due))
    assert wrong == []


def test_readers_change_nothing_but_their_session_and_agents_have_their_own_routes():
    """Spec: B11"""
    assert len(ROUTES) > 100
    assert {route.path for route in ROUTES if route.role is Role.READ and route.method != "GET"} == {"/api/session"}
    assert {route for route in ROUTES if route.role is Role.AGENT} == {
        route for route in ROUTES if route.path.startswith("/api/agents/")
    }
