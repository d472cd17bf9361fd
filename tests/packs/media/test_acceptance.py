"""The request queue's acceptance list, item by item, on a whole installation over HTTP, yt-dlp and site included."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.packs.conftest import Server, serving
from tests.packs.media.conftest import yt_dlps
from tests.worker.conftest import until

PATIENCE = 120.0
CLICKS = 8
ENDED = ("done", "failed", "canceled")


class Queue:
    """The queue as its page shows it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def ask(self, method, path, body=None):
        status, answer = self._server.ask(method, path, body)
        assert status < 300, (status, answer)
        return answer

    def click(self, method, path):
        """The answers to many clicks at once."""
        with ThreadPoolExecutor(CLICKS) as people:
            return list(people.map(lambda _: self.ask(method, path), range(CLICKS)))

    def requests(self, **wanted):
        query = "&".join(f"{name}={value}" for name, value in wanted.items())
        return self.ask("GET", f"/api/requests?size=100&{query}")["items"][::-1]

    def request(self, request_id):
        return self.ask("GET", f"/api/requests/{request_id}")

    def reaches(self, request_id, *states):
        until(lambda: self.request(request_id)["status"] in states, PATIENCE)
        return self.request(request_id)["status"]

    def agrees(self):
        """Whether the page and the statistics say the same of each lane; between two looks something may change."""
        stats = self.ask("GET", "/api/queue/stats")
        page = {lane: len(self.requests(lane=lane, status="running")) for lane in ("requires_cookie", "no_cookie")}
        return all(stats["running"].get(lane, 0) == count <= stats["capacity"][lane] for lane, count in page.items())


@pytest.fixture
def queue(environment, site):
    with serving("up", "--pack", "media") as server:
        yield Queue(server)


def test_the_request_queue_does_what_its_design_accepts(queue, site, runs):
    """Spec: C13, C10, C5, C3, A9"""
    subscribed = [
        queue.ask("POST", "/api/subscriptions", {"name": name, "url": f"{site.address}/list/{name}"})["id"]
        for name in ("slow-3", "birds-2")
    ]
    slow, birds = (f"/api/subscriptions/{each}" for each in subscribed)

    # capacity and pause; clicks at once make one request
    queue.ask("POST", "/api/queue/pause?scope=requires_cookie")
    queue.ask("POST", "/api/queue/capacity?requires_cookie=2&no_cookie=2")
    clicked = {answer["requests"][0]["id"] for answer in queue.click("POST", f"{slow}/download")}
    assert len(clicked) == 1
    assert [each["status"] for each in queue.requests(lane="requires_cookie")] == ["queued"]
    assert queue.ask("GET", f"{birds}/expected-total?sync=true")["result"] == {"expected_total": 2}
    assert queue.ask("GET", birds)["expected_total"] == 2
    queue.ask("POST", "/api/queue/resume?scope=all")
    assert queue.reaches(clicked.pop(), *ENDED) == "done"

    # one at a time for each subscription, however much room there is
    first, second, third = (each["id"] for each in queue.requests(type="download"))
    until(lambda: "bytes" in ((queue.request(first)["progress"] or {}).get("note") or ""), PATIENCE)
    assert [queue.request(each)["status"] for each in (first, second, third)] == ["running", "queued", "queued"]
    assert queue.agrees()

    # to the top, queued and running
    queue.ask("POST", f"/api/requests/{third}/prioritize")
    queue.ask("POST", f"/api/requests/{first}/prioritize")
    assert queue.request(first)["status"] == "running"

    # cancel, running and queued; the room is free for the next
    queue.ask("POST", f"/api/requests/{first}/cancel")
    assert queue.reaches(first, *ENDED) == "canceled"
    assert queue.reaches(third, "running") == "running"
    assert queue.ask("POST", f"/api/requests/{second}/cancel")["status"] == "canceled"
    site.step_seconds = 0
    assert queue.reaches(third, *ENDED) == "done"

    # room comes back after a failure
    wrong = {"type": "download", "url": f"{site.address}/file/status-404-1.1.mp4"}
    failing = [queue.ask("POST", "/api/requests/enqueue", wrong)["id"] for _ in range(2)]
    assert [queue.reaches(each, *ENDED) for each in failing] == ["failed", "failed"]
    until(queue.agrees, PATIENCE)
    assert not any(queue.ask("GET", "/api/queue/stats")["running"].values())
    assert len(yt_dlps(runs)) == 6  # one after the other, the cancelled one too
