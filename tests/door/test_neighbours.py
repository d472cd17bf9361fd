"""A tenant learns nothing of another: every route of the table, asked with its keys, on a real socket.

It stands in for row-level security (docs/decisions.md): a statement that forgets the tenant is seen here, whichever
route it is behind.
"""

import re
import shutil

import pytest

from headgate.core.keys import Role
from headgate.core.pause import PauseScope
from tests.api.test_tenants import BODIES, EXEC
from tests.conftest import DATABASES, empty
from tests.door.neighbours import CANARY, MINE, NEVER_SHOWN, NOBODY, ROUTES, STREAMS, THEIRS, neighbours

# Types are everybody's.
NAMING = [route for route in ROUTES if "{" in route.path and "{code}" not in route.path]
# Two looks differ in these whatever others do: times, and how long ago something was.
CLOCKWORK = re.compile(r'"(as_of|at|\w+_at|\w+_date|\w+_until|\w+_in_seconds|in_seconds|request_id)":("[^"]*"|[^,}]*)')
MOST_LOOKS = 30


@pytest.fixture(scope="module", params=DATABASES)
def two(request, tmp_path_factory):
    if request.param == "sqlite":
        file = tmp_path_factory.mktemp("neighbours") / "store.db"
        shutil.copy(request.getfixturevalue("sqlite_file"), file)
        url = f"sqlite:///{file}"
    else:
        url = request.getfixturevalue("postgres_url")
        empty(url)
    with neighbours(url) as found:
        yield found


def canaries(answer):
    """The words of tenant 2 in an answer, without what the request itself said."""
    said = CANARY.findall(str(answer.request.url))
    return {word for word in CANARY.findall(f"{answer.headers} {answer.text}") if word not in said}


def test_no_answer_to_a_tenant_holds_a_word_of_another(two):
    """Spec: B11, X12"""
    leaks = {}
    for role in Role:
        for request, answer in two.sweep(role, MINE, queries=role is Role.ADMIN):
            if found := canaries(answer):
                leaks[f"{request} as {role.word}"] = found
    assert leaks == {}


def test_a_key_of_all_tenants_sees_every_word_so_that_none_was_hidden_by_chance(two):
    """Spec: B11"""
    shown = {word for _, answer in two.sweep(Role.ADMIN, None, of=THEIRS) for word in CANARY.findall(answer.text)}
    assert {word for word in two.said if CANARY.fullmatch(word)} - shown == NEVER_SHOWN
    own = {word for _, answer in two.sweep(Role.ADMIN, MINE) for word in re.findall(r"mine-[a-z-]*[a-z]", answer.text)}
    unseen = {"mine" + word.removeprefix("canary") for word in NEVER_SHOWN} | {"mine-worker"}
    assert {word for word in two.said if word.startswith("mine-")} - own == unseen


@pytest.mark.parametrize("path", STREAMS)
def test_no_stream_tells_a_tenant_of_another(two, path):
    """Spec: B11, D6"""
    wanted = {"type": "parse", "url": "https://example.org/x", "requires_cookie": False}
    last = two.do("POST", "/api/requests/enqueue", MINE, wanted)["id"]
    marker = f'"request_id":{last},' if "requests" in path else f'"task_id":{last},'
    for role in (Role.READ, Role.ADMIN):
        told = two.streamed(path, role, MINE, marker)
        assert CANARY.findall(told) == []
        assert f'"tenant_id":{THEIRS}' not in told
    everything = two.streamed(path, Role.READ, None, marker)
    assert "key-admin" in everything
    assert CANARY.search(everything)


def test_whatever_a_neighbour_does_changes_no_figure_that_a_tenant_sees(two):
    """Spec: B11, X12"""

    def looked():
        two.store.statistics.take_sample()
        return {request: CLOCKWORK.sub("", answer.text) for request, answer in two.sweep(Role.ADMIN, MINE)}

    two.store.pauses.end(PauseScope.TENANT, str(THEIRS))
    looks = [looked(), looked()]
    while looks[-1] != looks[-2]:  # the first look at an expected total makes a request, and buckets fill
        assert len(looks) < MOST_LOOKS
        looks.append(looked())
    before = looks[-1]
    for lane in ("default", "canary-lane", "canary-other-lane"):
        task = {"type": "plain", "lane": lane, "rate_key": f"canary-key-of-{lane}"}
        two.do("POST", "/api/tasks/bulk", THEIRS, {"tasks": [task] * 3 + [task | {"mutex": "canary-line"}] * 2})
        two.do("POST", "/api/tasks", THEIRS, task | {"delay_seconds": 3600})
    claim = {"limit": 5, "wait_seconds": 0, "types": ["plain"]}
    first, *running = two.do("POST", "/api/agents/canary-second/claim", THEIRS, claim)["tasks"]
    assert running
    failed = {"exec_id": first["exec_id"], "error_info": "canary-error", "retryable": False}
    two.do("POST", f"/api/agents/canary-second/tasks/{first['id']}/fail", THEIRS, failed)
    after = looked()
    assert {request: (before[request], after[request]) for request in before if before[request] != after[request]} == {}


@pytest.mark.parametrize("route", NAMING, ids=lambda route: f"{route.method} {route.path}")
def test_what_another_tenant_has_is_as_absent_as_what_nobody_has(two, route):
    """Spec: B11"""
    body = BODIES.get(route.path.rpartition("/")[2])
    if "{agent_id}" in route.path:
        body = {"exec_id": EXEC} if body is None else body
    if (route.method, route.path) == ("PUT", "/api/periodic-tasks/{periodic_id}"):
        body = {"type": "plain", "cron_expressions": "* * * * *"}
    paths = [two.path(route, whose) for whose in (THEIRS, NOBODY)]
    answers = [two.ask(route.method, path, Role.ADMIN, MINE, body) for path in paths]
    foreign, absent = (CLOCKWORK.sub("", answer.text) for answer in answers)
    assert answers[0].status_code == answers[1].status_code, foreign
    for things in (two.things[THEIRS], two.things[NOBODY]):
        assert things.keys() == two.things[MINE].keys()
    for name, thing in two.things[THEIRS].items():
        foreign = re.sub(rf"\b{re.escape(str(thing))}\b", str(two.things[NOBODY][name]), foreign)
    assert foreign == absent
