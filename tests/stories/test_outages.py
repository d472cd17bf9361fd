"""PostgreSQL goes away under load and comes back, several times; nobody has to be restarted for it."""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.app import Headgate
from headgate.core.errors import Unavailable
from headgate.simulation.checker import check
from headgate.simulation.evidence import Submission
from headgate.store.store import open_store
from headgate.task_function import TaskFunction
from lab.postgres import Postgres
from tests.stories import bodies
from tests.stories.bodies import bound_to
from tests.stories.crew import Crew, crew, until
from tests.stories.evidence import collected, made, rows

OUTAGES = ("fast", "immediate", "immediate", "fast", "immediate", "fast")
LONGEST_SECONDS = 2.5  # longer than a lease
WORKERS = 3


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A PostgreSQL that keeps what it has said is kept, and can be started again on it."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-outage-"))  # not below `tmp_path`, where only root may look
    database = Postgres(folder, durable=True).start()
    with open_store(database.url) as store:
        store.migrate()
    yield database
    database.stop("immediate")
    shutil.rmtree(folder)


class Client(threading.Thread):
    """Submits one task after the other, and keeps what it was answered."""

    def __init__(self, app: Headgate, members: Crew) -> None:
        super().__init__(name="client of a story")
        self._app = app
        self._dice = members.dice
        self._over = threading.Event()
        self.submitted: list[int] = []
        self.unavailable = 0
        self.surprise: BaseException | None = None

    def run(self) -> None:
        functions: tuple[TaskFunction[..., Any, None], ...] = (*[bodies.step] * 8, bodies.step_in_a_thread)
        try:
            while not self._over.wait(0.005):
                seconds = self._dice.choice([0.0, 0.01, 0.05, 1.0])
                try:
                    self.submitted.append(self._app.submit_sync(self._dice.choice(functions).call(seconds)).id)
                except Unavailable:
                    self.unavailable += 1
                    self._over.wait(0.05)
        except BaseException as error:
            self.surprise = error

    def await_refusal(self) -> None:
        """Until one submit more was refused."""
        before = self.unavailable
        until(lambda: self.unavailable > before or self.surprise, "a submit is refused")

    def stop(self) -> None:
        self._over.set()
        self.join()
        if self.surprise is not None:
            raise self.surprise


def finished_more(members: Crew, client: Client, count: int) -> None:
    """Until so many tasks more are done and answered: all is well again."""
    wanted, submitted = len(members.ledger.entries("end")) + count, len(client.submitted) + count
    until(lambda: len(members.ledger.entries("end")) >= wanted, "tasks are done")
    until(lambda: len(client.submitted) >= submitted or client.surprise, "submits are answered")


def test_workers_go_on_by_themselves_when_postgres_comes_back(server: Postgres, tmp_path: Path):
    """Spec: A11, B3"""
    app = bound_to(server.url)
    with crew(server.url, tmp_path) as members:
        for _ in range(WORKERS):
            members.start()
        until(lambda: len(app.store.workers.all()) == WORKERS, "all have signed on")
        client = Client(app, members)
        client.start()
        try:
            finished_more(members, client, 20)
            for mode in OUTAGES:
                server.stop(mode)
                client.await_refusal()
                time.sleep(members.dice.uniform(0.0, LONGEST_SECONDS))
                server.start()
                finished_more(members, client, 20)
                members.all_alive()
        finally:
            client.stop()
        until(
            lambda: not rows(server.url, "SELECT 1 FROM headgate_task WHERE finished_at IS NULL LIMIT 1"),
            "all tasks end",
        )
        members.all_alive()
    assert client.unavailable >= len(OUTAGES)
    assert len(set(client.submitted)) == len(client.submitted)
    blamed = rows(
        server.url, "SELECT id, status, error_info FROM headgate_task WHERE status <> 'succeeded' OR error_count > 0"
    )
    assert blamed == [], "an outage is nobody's error"
    assert check(collected(server.url, members.ledger, [made(client.submitted), Submission(None, "unknown")])) == []
    app.close()
