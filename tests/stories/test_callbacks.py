"""Senders are killed while a receiver has their requests in hand; everybody is told, each time under the same id."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headgate.core.machine import Raised, Returned
from headgate.core.task import NewTask, TaskType
from headgate.simulation.checker import check
from headgate.simulation.evidence import DeliveryRow, Receipt
from headgate.store.callbacks.report import DeliveryFilter
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from tests.stories.crew import PATIENCE, until
from tests.stories.evidence import collected, rows

ROUNDS = 5
PER_ROUND = 24
SENDERS = 3
LEASE_SECONDS = 1.0
BEFORE_ANYTHING = 0


class Receiver:
    """A server that keeps what it gets in hand while it is told to, and fails now and then."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []
        self.in_hand = 0
        self._failed: set[str] = set()
        self._going_on = threading.Event()
        self._going_on.set()
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                status = receiver.take(self.headers["webhook-id"], body)
                with suppress(ConnectionError):  # who sent it has died
                    self.send_response(status)
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/told"

    def take(self, webhook_id: str, body: str) -> int:
        with self._lock:
            self.in_hand += 1
            unlucky = len(self.receipts) % 10 == 9 and webhook_id not in self._failed  # who fails twice waits long
            self._failed |= {webhook_id} if unlucky else set()
            status = 500 if unlucky else 204
            self.receipts.append(Receipt(BEFORE_ANYTHING, webhook_id, body, status))
        self._going_on.wait(PATIENCE)
        with self._lock:
            self.in_hand -= 1
        return status

    def hold(self) -> None:
        self._going_on.clear()

    def let_go(self) -> None:
        self._going_on.set()


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.let_go()
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()


@contextmanager
def sending(url: str, folder: Path) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Where senders are kept: all of them are gone afterwards."""
    senders: list[subprocess.Popen[bytes]] = []
    try:
        yield senders
    except BaseException as error:
        error.add_note((folder / "senders.log").read_text()[-4000:])
        raise
    finally:
        for sender in senders:
            sender.kill()
            sender.wait()


def start(url: str, folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "senders.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.stories.sender", url, str(LEASE_SECONDS)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=Path(__file__).parents[2],
        )  # fmt: skip


def end_some(store: Store, worker_id: int) -> None:
    """Tasks that end, one in four of them badly."""
    store.tasks.submit_many([NewTask("told", ext=f'{{"number": {number}}}') for number in range(PER_ROUND)])
    ended = store.claims.take(ClaimRequest(worker_id, PER_ROUND)).executions
    store.executions.settle(
        [Outcome(each, Returned() if each.id % 4 else Raised(f"error of {each.id}")) for each in ended]
    )


def test_everybody_is_told_though_senders_are_killed_in_mid_delivery(url: str, tmp_path: Path):
    """Spec: B6, RELIABILITY T02"""
    with open_store(url) as store, receiving() as receiver, sending(url, tmp_path) as senders:
        target = {"url": receiver.url, "method": "POST"}
        store.types.put(TaskType("told", callback={"success": target, "error": target}))
        worker_id = store.workers.register("story", lease_seconds=3600)
        senders += [start(url, tmp_path) for _ in range(SENDERS)]
        for number in range(ROUNDS):
            receiver.hold()
            end_some(store, worker_id)
            until(lambda: receiver.in_hand >= 2, "requests are in the receiver's hand")
            victim = senders.pop(number % len(senders))
            victim.kill()
            victim.wait()
            receiver.let_go()
            senders.append(start(url, tmp_path))
        until(lambda: store.deliveries.deliverables().pending == 0, "everybody is told")
        sent = store.deliveries.find(DeliveryFilter(), limit=200).items
    assert Counter(each.status for each in sent) == {"delivered": ROUNDS * PER_ROUND}
    assert not rows(url, "SELECT 1 FROM headgate_task WHERE status = 'notifying'")
    deliveries = [DeliveryRow(e.id, e.webhook_id, e.task_id, e.kind, e.seq, e.status, e.attempts) for e in sent]
    found = replace(
        collected(url), deliveries=deliveries, received=receiver.receipts, callbacks={"told": ("success", "error")}
    )
    assert check(found) == []
    assert len(receiver.receipts) > len(sent)  # those who died had sent some: they were sent again
