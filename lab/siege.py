"""Attacks on a server of its own, on this machine, and what each costs a neighbour: `python -m lab.siege`.

Bounded in count and time. Every attack meets a fresh `headgate serve` that may open 1,024 files; meanwhile another
tenant submits tasks, from another address. `before` was measured by this command on the version without the defences,
and where settings turn those off it is measured now.
"""

import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from headgate.core.keys import Key, Role
from headgate.core.task import NewTask, TaskType
from headgate.store.store import Store, open_store
from lab.headgate_server import HeadgateServer, headgate_server
from lab.raw_http import RawAnswer, RawClient, raw_client

KIB, MIB = 1024, 1024 * 1024
FILES = 1024
ATTACKER, NEIGHBOUR = "127.0.0.2", "127.0.0.3"
SECRET = "for the time of a siege"  # noqa: S105 of a server that lives for seconds
ATTACK_SECONDS = 12.0
WATCH_SECONDS = 0.05
FEWEST_SUBMITS = 10
FLOODING = 96  # clients with the attacker's key
UNSHARED = {"key_share": "none", "tenant_share": "none"}
RARE = "0 0 0 */28 2 MON#5"  # every 28 years


@dataclass(frozen=True, slots=True)
class Besieged:
    """A server under attack, and the keys of the two tenants."""

    server: HeadgateServer
    attacker: Key
    attackers_key: str
    neighbours_key: str
    end: float  # of the attack, by the monotonic clock

    @contextmanager
    def client(self) -> Iterator[RawClient]:
        with raw_client(self.server.address, ATTACKER) as client:
            client.socket.settimeout(max(0.1, self.end - time.monotonic()))
            yield client

    def ask(self, path: str) -> RawAnswer:
        with self.client() as client:
            return client.ask("GET", path, Authorization=f"Bearer {self.attackers_key}")

    @property
    def over(self) -> bool:
        return time.monotonic() > self.end


class Attack(NamedTuple):
    """What is done, how often, with what in the store, and which settings leave the server without a defence."""

    name: str
    amount: str
    do: Callable[[Besieged], object]
    prepare: Callable[[Store, int], object] = lambda store, tenant: None
    defenceless: Mapping[str, str] | None = None


class Cost(NamedTuple):
    """What an attack costs: memory of the server, and how long a neighbour's submits and the attack itself take."""

    memory: int
    median: float
    slowest: float
    lost: int
    attack: float

    def __str__(self) -> str:
        lost = f" ({self.lost} lost)" if self.lost else ""
        submits = f"{1000 * self.median:.0f} / {1000 * self.slowest:.0f} ms{lost}"
        return f"{self.memory // MIB} MiB, {submits}, {self.attack:.1f} s"


# The attacks


def endless_header(besieged: Besieged) -> None:
    with besieged.client() as client:
        client.send(b"GET /livez HTTP/1.1\r\nX-Long: ")
        for _ in range(128):
            if besieged.over or not client.send(b"x" * MIB):
                return


def tiny_headers(besieged: Besieged) -> None:
    with besieged.client() as client:
        client.send(b"GET /livez HTTP/1.1\r\n" + b"a:b\r\n" * (31 * MIB // 5) + b"\r\n")
        client.answer()


def silence(besieged: Besieged) -> None:
    with ExitStack() as clients:
        for _ in range(1_100):
            clients.enter_context(besieged.client())
        time.sleep(max(0.0, besieged.end - time.monotonic()))


def half_sent_bodies(besieged: Besieged) -> None:
    claimed = f"HEADGATE-HMAC-SHA256 access_key=hg_{besieged.attacker.id}, timestamp={int(time.time())}"
    with ExitStack() as clients:
        for number in range(200):
            client = clients.enter_context(besieged.client())
            signature = f"{claimed}, nonce={number:016d}, signature=00"
            client.send(client.head("POST", "/api/tasks", Content_Length=str(MIB), Authorization=signature))
            client.send(b"x" * (MIB - 1))
        time.sleep(max(0.0, besieged.end - time.monotonic()))


def pipelined(besieged: Besieged) -> None:
    with besieged.client() as client:
        client.send(client.head("GET", "/api/tasks") * 50_000)
        client.ended()


def at_once(path: str, times: int) -> Callable[[Besieged], object]:
    """So many requests of a path at the same time."""

    def ask(besieged: Besieged) -> list[RawAnswer]:
        with ThreadPoolExecutor(times) as clients:
            return list(clients.map(lambda _: besieged.ask(path), range(times)))

    return ask


def flood(besieged: Besieged) -> None:
    """Pages, submits in bulk and submits that wait, from many clients, each as fast as it is answered."""
    bulk = {"tasks": [{"type": "plain"}] * 200}
    requests = (("GET", "/api/tasks?limit=200", None), ("POST", "/api/tasks/bulk", bulk),
                ("POST", "/api/tasks?wait=1", {"type": "plain"}))  # fmt: skip

    def ask_on(number: int) -> None:
        method, path, body = requests[number % len(requests)]
        with besieged.client() as client:
            while not besieged.over:
                client.ask(method, path, body, Authorization=f"Bearer {besieged.attackers_key}")

    with ThreadPoolExecutor(FLOODING) as clients:
        list(clients.map(ask_on, range(FLOODING)))


def large_tasks(store: Store, tenant: int) -> None:
    large = '"' + "x" * 250 * KIB + '"'
    for _ in range(100):
        store.tasks.submit(NewTask("plain", tenant_id=tenant, ext=large))


def many_lanes(store: Store, tenant: int) -> None:
    for start in range(0, 10_000, 500):
        lanes = range(start, start + 500)
        store.tasks.submit_many([NewTask("plain", tenant_id=tenant, lane=f"lane{number}") for number in lanes])


PREVIEW = f"/api/periodic-tasks/preview?count=100&timezone=Europe/Berlin&cron_expressions={quote(RARE)}"
ATTACKS = (
    Attack("a header without end", "128 MiB", endless_header),
    Attack("tiny headers", "31 MiB", tiny_headers),
    Attack("silent connections", "1,100", silence),
    Attack("half-sent bodies under made-up signatures", "200 × 1 MiB", half_sent_bodies),
    Attack("pipelined requests on a connection", "50,000", pipelined),
    Attack("pages of 100 tasks of 250 KiB", "16 at once", at_once("/api/tasks?limit=200", 16), large_tasks),
    Attack("previews of a rare schedule", "16 at once", at_once(PREVIEW, 16)),
    Attack("lists of 10,000 lanes", "2 at once", at_once("/api/lanes", 2), many_lanes),
    Attack("pages, bulk submits and waits with one key", f"{FLOODING} clients", flood, defenceless=UNSHARED),
)
# At commit fc3b5fd, on the same machine.
BEFORE = {
    "a header without end": "85 MiB, 2 / 15477 ms, 12.5 s",
    "tiny headers": "748 MiB, 11 / 13313 ms, 12.2 s",
    "silent connections": "5 MiB, 0 / 84 ms (217 lost), 12.1 s",
    "half-sent bodies under made-up signatures": "218 MiB, 5 / 690 ms, 12.0 s",
    "pipelined requests on a connection": "120 MiB, 61 / 3534 ms, 24.6 s",
    "pages of 100 tasks of 250 KiB": "1182 MiB, 47 / 1436 ms, 12.2 s",
    "previews of a rare schedule": "2 MiB, 2301 / 9466 ms, 12.0 s",
    "lists of 10,000 lanes": "31 MiB, 28 / 553 ms, 7.2 s",
}


# What they cost


class Neighbour(threading.Thread):
    """Another tenant: submits one task after the other, and notes how long each takes."""

    def __init__(self, besieged: Besieged) -> None:
        super().__init__()
        self._besieged = besieged
        self._enough = threading.Event()
        self.seconds: list[float] = []
        self.lost = 0

    def run(self) -> None:
        while not self._enough.wait(WATCH_SECONDS) or len(self.seconds) < FEWEST_SUBMITS:
            began = time.monotonic()
            self.lost += not self._submit()
            self.seconds.append(time.monotonic() - began)

    def _submit(self) -> bool:
        try:
            with raw_client(self._besieged.server.address, NEIGHBOUR) as client:
                client.socket.settimeout(2 * ATTACK_SECONDS)
                key = f"Bearer {self._besieged.neighbours_key}"
                return client.ask("POST", "/api/tasks", {"type": "plain"}, Authorization=key).status == 201
        except OSError:
            return False

    def stop(self) -> None:
        self._enough.set()
        self.join()


def cost_of(attack: Attack, settings: Mapping[str, Any], seconds: float = ATTACK_SECONDS) -> Cost:
    """Besiege a fresh server, and look at it and its other tenant meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        return _cost_of(attack, Path(folder), settings, seconds)


def _cost_of(attack: Attack, folder: Path, settings: Mapping[str, Any], seconds: float) -> Cost:
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        store.migrate()
        store.types.put(TaskType("plain"))
        attacker, attackers_key = store.keys.add("attacker", Role.SUBMIT, tenant_id=1)
        _, neighbours_key = store.keys.add("neighbour", Role.SUBMIT, tenant_id=2)
        attack.prepare(store, 1)
    with headgate_server(folder, few_files, secret=SECRET, **settings) as server:
        end = time.monotonic() + seconds
        besieged = Besieged(server, attacker, attackers_key, neighbours_key, end)
        neighbour, before = Neighbour(besieged), server.memory()
        attacking = threading.Thread(target=_until_over, args=(attack, besieged))
        neighbour.start()
        attacking.start()
        most, began = before, time.monotonic()
        while attacking.is_alive():
            attacking.join(WATCH_SECONDS)
            most = max(most, server.memory())
        took = time.monotonic() - began
        neighbour.stop()
        submits = neighbour.seconds
        return Cost(most - before, statistics.median(submits), max(submits), neighbour.lost, took)


def _until_over(attack: Attack, besieged: Besieged) -> None:
    try:
        attack.do(besieged)
    except OSError:  # the server defends itself, or takes longer than we have
        return


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


def main() -> None:
    print("| attack | count | before | after |")
    print("|---|---|---|---|")
    for attack in ATTACKS:
        before = BEFORE[attack.name] if attack.defenceless is None else cost_of(attack, attack.defenceless)
        print(f"| {attack.name} | {attack.amount} | {before} | {cost_of(attack, {})} |", flush=True)


if __name__ == "__main__":
    main()
