"""One request costs a bounded amount, whatever it asks for; on a real socket."""

import json
from urllib.parse import quote

import pytest

from lab.raw_http import raw_client

KIB = 1024
MIB = 1024 * KIB
RARE = "0 0 0 */28 2 MON#5"  # every 28 years


@pytest.fixture(scope="module", autouse=True)
def _types(server):
    with raw_client(server.address) as client:
        assert client.ask("PUT", "/api/task-types/plain", {}).status == 200


def test_json_of_any_depth_is_taken_or_refused_and_never_an_error_of_ours(client):
    """Spec: X6"""
    for depth in range(940, 1010):
        for begin, end in (("[", "]"), ('{"a":', "}")):
            nested = begin * depth + "1" + end * depth
            body = f'{{"type": "plain", "ext": {nested}}}'.encode()
            about = {"Content_Type": "application/json", "Content_Length": str(len(body))}
            client.send(client.head("POST", "/api/tasks", **about) + body)
            answer = client.answer()
            assert (answer.status, "nested" in answer.json["detail"]) == (422, True)


def test_a_page_ends_at_2_mib_and_the_next_goes_on_there(client):
    """Spec: X12"""
    made = [client.ask("POST", "/api/tasks", {"type": "plain", "ext": "x" * 250 * KIB}).json["id"] for _ in range(12)]
    found, cursor, pages = [], "", 0
    while cursor is not None:
        answer = client.ask("GET", f"/api/tasks?limit=200&q=xxx{cursor and f'&cursor={cursor}'}")
        assert len(answer.body) < 2 * MIB + 64 * KIB
        page = json.loads(answer.body)
        found += [task["id"] for task in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert found == made[::-1]
    assert pages == 2


def test_a_preview_of_ticks_that_lie_decades_apart_ends_with_those_it_found(client):
    """Spec: B9, X12"""
    asked = f"cron_expressions={quote(RARE)}&timezone=Europe/Berlin&count=100"
    answer = client.ask("GET", f"/api/periodic-tasks/preview?{asked}")
    assert answer.status == 200
    assert 1 <= len(answer.json["items"]) < 100
