"""Tenant 1 does its worst, all at once, and tenant 2 is served all the same: a server, sockets, both databases.

Nothing here goes by the clock; `make siege` measures. What tenant 2 gets is counted: its tasks start within twice as
many starts as it needs when it is alone, and each of its requests is answered while those of tenant 1 wait or get 429.
"""

import itertools
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headgate.api.submits import MOST_HELD
from headgate.core.keys import Role
from headgate.core.task import NewTask, TaskType
from headgate.store.db.postgres import CONNECTIONS, MOST_OF_A_CALLER
from headgate.store.store import Store, open_store
from lab.headgate_server import headgate_server
from lab.raw_http import RawAnswer, RawClient, raw_client

PATIENCE = 60.0
POLLS, STREAMS = 4, 3
SHARE = f"rate=10/400,polls={POLLS},streams={STREAMS}"
HOSTILE, QUIET = 1, 2
PRESS = "press"  # a lane of one, which both tenants use
TASKS, PRESSED, SLOTS = 12, 4, 5
HOSTS = ["127.0.0.4", "127.0.0.5"]
CALLS_TO_A_HOST = 10  # of a tenant, at once
CALLS = CALLS_TO_A_HOST + 4
STUCK = 12
MOST_STARTS = 100
NEVER = "0 0 29 2 1"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
BESIEGED = "besieged"


class Tenant:
    """Somebody with a key for each role, who asks from an address of their own."""

    def __init__(self, store: Store, tenant_id: int | None, source: str) -> None:
        self.tenant_id = tenant_id
        self.source = source
        self.keys = {
            role: store.keys.add(f"{role.word} of {tenant_id}", role, tenant_id=tenant_id)[1]
            for role in (Role.OPERATOR, Role.AGENT)
        }
        self.address = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> RawAnswer:
        with raw_client(self.address, self.source) as client:
            return client.ask(method, path, body, **self.key(path), **headers)

    def send(self, stack: ExitStack, method: str, path: str, body: bytes = b"") -> RawClient:
        """Ask, and leave the answer to be read."""
        client = stack.enter_context(raw_client(self.address, self.source))
        about = self.key(path) | {"Content_Type": "application/json", "Content_Length": str(len(body))}
        client.send(client.head(method, path, **about) + body)
        return client

    def key(self, path: str) -> dict[str, str]:
        role = Role.AGENT if path.startswith("/api/agents/") else Role.OPERATOR
        return {"Authorization": f"Bearer {self.keys[role]}"}


def scheduled_call(tenant: Tenant, url: str) -> str:
    """Make a schedule that calls an endpoint; returns the path that triggers it."""
    schedule = {"type": "plain", "cron_expressions": NEVER, "http": {"url": url}}
    made = tenant.ask("POST", "/api/periodic-tasks", schedule)
    assert made.status == 201, made
    return f"/api/periodic-tasks/{made.json['id']}/trigger"


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


# Tenant 1


class Attack:
    """Everything that one tenant can do, from many clients; `counts` has what they were answered."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.counts: Counter[tuple[str, int]] = Counter()
        self.called: Counter[str] = Counter()  # its receivers, by host; they never answer
        self._over = threading.Event()
        self._clients = ExitStack()
        self._receivers: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count()

    def _begin(self, work: Callable[..., None], *args: Any) -> None:
        self._threads.append(threading.Thread(target=work, args=args, daemon=True))
        self._threads[-1].start()

    def close(self) -> None:
        self._over.set()
        for receiver in self._receivers:
            receiver.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        self._clients.close()

    def fill_the_queue(self) -> None:
        """Tasks of the first priority, in as many streams as there is room for: rate keys, lanes, categories."""
        assert self.tenant.ask("POST", "/api/tasks/bulk", self.bulk()).status == 201

    def bulk(self) -> dict[str, Any]:
        tasks = []
        for number in itertools.islice(self._numbers, 1000):
            lane = PRESS if number % 10 == 0 else f"lane{number % 20}"
            task = {"type": "plain", "priority": -1_000_000, "lane": lane, "rate_key": f"k{number % 61}"}
            tasks.append(task | {"category": "shared" if lane == PRESS else f"c{number % 7}"})
        return {"tasks": tasks}

    def call_receivers_that_never_answer(self) -> None:
        for host in HOSTS:
            receiver = socket.create_server((host, 0), backlog=128)
            self._receivers.append(receiver)
            self._begin(self._take_calls, receiver, host)
            call = scheduled_call(self.tenant, f"http://{host}:{receiver.getsockname()[1]}/")
            for _ in range(CALLS):
                assert self.tenant.ask("POST", call).status == 200

    def _take_calls(self, receiver: socket.socket, host: str) -> None:
        with receiver, ExitStack() as calls, suppress(OSError):  # which ends it
            while True:
                calls.enter_context(receiver.accept()[0])
                self.called[host] += 1

    def wait_in_every_way(self) -> None:
        """Long polls and streams, one more of each than there may be."""
        with selectors.DefaultSelector() as refused:
            for number in range(POLLS + 1):
                path, body = f"/api/agents/poll{number}/claim", b'{"types": ["none"], "wait_seconds": 60}'
                client = self.tenant.send(self._clients, "POST", path, body)
                refused.register(client.socket, selectors.EVENT_READ, client)
            [[key, _]] = refused.select(PATIENCE)
            self.counts["poll", key.data.answer().status] += 1
        for _ in range(STREAMS + 1):
            client = self.tenant.send(self._clients, "GET", "/api/events")
            self.counts["stream", client.answer_head()[0]] += 1

    def flood(self) -> None:
        """Pages, bulk submits, submits and claims, each client as fast as it is answered."""
        one, own = {"type": "plain", "priority": -1_000_000}, {"limit": 20, "categories": ["c1", "c2"]}
        for _ in range(2):
            self._begin(self._flood, "page", "GET", "/api/tasks?limit=200", None)
            self._begin(self._flood, "bulk", "POST", "/api/tasks/bulk", self.bulk())
            self._begin(self._flood, "submit", "POST", "/api/tasks", one)
            self._begin(self._flood, "claim", "POST", "/api/agents/b/claim", own)

    def _flood(self, name: str, method: str, path: str, body: Any) -> None:
        with raw_client(self.tenant.address, self.tenant.source) as client:
            while not self._over.is_set():
                self.counts[name, client.ask(method, path, body, **self.tenant.key(path)).status] += 1


@contextmanager
def locked(store: Store, url: str, attack: Attack) -> Iterator[Callable[[], int]]:
    """On PostgreSQL, requests of the attacker are stuck at rows that somebody has locked; yields how many wait."""
    if url.startswith("sqlite"):
        yield lambda: 0
        return
    cancelled = store.tasks.submit(NewTask("plain", tenant_id=HOSTILE)).id
    held = [store.tasks.submit(NewTask("plain", tenant_id=HOSTILE, unique_key=str(n))).id for n in range(STUCK)]
    for task_id in held:
        store.tasks.cancel(task_id)
    with psycopg.connect(url) as rival, psycopg.connect(url, autocommit=True) as looker, ExitStack() as stack:
        rival.execute("SELECT 1 FROM headgate_task WHERE id = %s FOR UPDATE", [cancelled])
        rival.execute("UPDATE headgate_task SET status = 'queued', finished_at = NULL WHERE id = ANY(%s)", [held])
        for number in range(STUCK):
            attack.tenant.send(stack, "POST", f"/api/tasks/{cancelled}/cancel")
            submit = f'{{"type": "plain", "unique_key": "{number}"}}'.encode()
            attack.tenant.send(stack, "POST", "/api/tasks", submit)

        def waiting() -> int:
            found = looker.execute(WAITING, [BESIEGED]).fetchone()
            assert found is not None
            return int(found[0])

        until(lambda: waiting() >= MOST_OF_A_CALLER)
        yield waiting


# Tenant 2


def errands(tenant: Tenant) -> list[int]:
    """What a tenant does in a day: the answers' statuses."""
    made = tenant.ask("POST", "/api/tasks", {"type": "plain", "delay_seconds": 3600})
    task = f"/api/tasks/{made.json['id']}"
    answers = [
        made, tenant.ask("GET", task), tenant.ask("GET", f"{task}/why"), tenant.ask("GET", f"{task}/events"),
        tenant.ask("GET", "/api/tasks?status=pending&limit=20"), tenant.ask("GET", "/api/counts"),
        tenant.ask("POST", "/api/tasks", {"type": "plain", "mutex": "own", "delay_seconds": 3600}),
        tenant.ask("POST", "/api/tasks", {"type": "plain", "delay_seconds": 3600}, Idempotency_Key=task),
        tenant.ask("POST", "/api/tasks/bulk", {"tasks": [{"type": "plain", "delay_seconds": 3600}] * 3}),
        tenant.ask("POST", f"{task}/cancel"),
    ]  # fmt: skip
    return [answer.status for answer in answers]


def starts_needed(tenant: Tenant, executor: Tenant, count: int, lane: str = "default") -> int:
    """How many tasks start in a lane, or in all, until so many new ones of a tenant have."""
    many = {"tasks": [{"type": "plain", "lane": lane}] * count}
    left = {task["id"] for task in tenant.ask("POST", "/api/tasks/bulk", many).json["tasks"]}
    starts = 0
    while True:
        claimed = executor.ask("POST", "/api/agents/all/claim", {"limit": SLOTS}).json["tasks"]
        reports = [{"id": task["id"], "exec_id": task["exec_id"], "status": "Success"} for task in claimed]
        assert not reports or executor.ask("POST", "/api/agents/all/report", {"reports": reports}).status == 200
        for task in claimed:
            starts += lane in ("default", task["lane"])
            left.discard(task["id"])
            if not left:
                return starts
        assert starts < MOST_STARTS, f"{len(left)} of {count} have not started"


def call_arrives(tenant: Tenant) -> bool:
    """Whether a call of a schedule of theirs reaches their receiver."""
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        receiver.settimeout(PATIENCE)
        call = scheduled_call(tenant, f"http://127.0.0.1:{receiver.getsockname()[1]}/mine")
        assert tenant.ask("POST", call).status == 200
        with receiver.accept()[0] as called:
            return b"/mine" in called.recv(4096)


@pytest.fixture
def tenants(url: str, tmp_path: Path) -> Iterator[tuple[Store, Tenant, Tenant, Tenant]]:
    """Both, and one that executes the tasks of all, at a server."""
    joint = "&" if "?" in url else "?"
    shown = url if url.startswith("sqlite") else f"{url}{joint}application_name={BESIEGED}"
    settings: dict[str, Any] = {
        "url": shown,
        "key_share": SHARE,
        "tenant_share": SHARE,
        "tenant_callback_allow": "127.0.0.0/8",
    }
    with open_store(url) as store:
        store.types.put(TaskType("plain"))
        store.lanes.set_capacity(PRESS, 1)
        hostile, quiet = Tenant(store, HOSTILE, "127.0.0.2"), Tenant(store, QUIET, "127.0.0.3")
        executor = Tenant(store, None, "127.0.0.1")
        with headgate_server(tmp_path, **settings) as server:
            for tenant in (hostile, quiet, executor):
                tenant.address = server.address
            yield store, hostile, quiet, executor


def test_a_tenant_that_does_its_worst_leaves_the_other_its_starts_and_its_answers(url, tenants):
    """Spec: A4, B11, X12"""
    store, hostile, quiet, executor = tenants
    alone = starts_needed(quiet, executor, TASKS), starts_needed(quiet, executor, PRESSED, PRESS)
    assert alone == (TASKS, PRESSED)
    usual = errands(quiet)
    with ExitStack() as stack, ThreadPoolExecutor(1) as beside:
        attack = Attack(hostile)
        stack.callback(attack.close)
        attack.fill_the_queue()
        attack.call_receivers_that_never_answer()
        attack.wait_in_every_way()
        waiting = stack.enter_context(locked(store, url, attack))
        attack.flood()
        until(lambda: attack.counts["bulk", 201] and attack.called.total() >= CALLS_TO_A_HOST * len(HOSTS))
        # Tenant 2 now
        assert call_arrives(quiet)
        assert errands(quiet) == usual
        stream = quiet.send(stack, "GET", "/api/events?kind=submitted")
        assert stream.answer_head()[0] == 200
        assert starts_needed(quiet, executor, TASKS) <= 2 * alone[0] + 1
        awaited = beside.submit(quiet.ask, "POST", "/api/tasks?wait=60", {"type": "plain"})
        assert starts_needed(quiet, executor, PRESSED, PRESS) <= 2 * alone[1] + 1
        answer = awaited.result(PATIENCE)
        assert (answer.status, answer.json["status"]) == (201, "succeeded")
        seen = next(chunk for chunk in stream.chunks() if b'"kind":"submitted"' in chunk)
        assert f'"tenant_id":{HOSTILE}'.encode() not in seen
        until(lambda: waiting() <= MOST_OF_A_CALLER + MOST_HELD)  # a short wait of others may be among them
        until(lambda: attack.counts["bulk", 429])
    assert (attack.counts["poll", 429], attack.counts["stream", 429]) == (1, 1)


def test_more_streams_and_requests_that_wait_than_connections_leave_connections_to_all(postgres, tmp_path):
    """Spec: X12"""
    count = CONNECTIONS + 2
    with open_store(postgres) as store, ExitStack() as stack:
        store.types.put(TaskType("plain"))
        tenant = Tenant(store, QUIET, "127.0.0.3")
        tenant.address = stack.enter_context(headgate_server(tmp_path, url=postgres)).address
        for _ in range(count):
            assert tenant.send(stack, "GET", "/api/events").answer_head()[0] == 200
        for number in range(count):
            tenant.send(stack, "POST", f"/api/agents/agent{number}/claim", b'{"wait_seconds": 60}')
        until(lambda: sum(worker.name.startswith("agent") for worker in store.workers.all()) == count)
        assert tenant.ask("POST", "/api/tasks", {"type": "plain"}).status == 201
        assert tenant.ask("GET", "/api/tasks").status == 200
