"""A stage for races: rivals hold locks across commits on raw connections while a store works beside them.

Nothing here waits for a time: `Stage.await_waiters` asks the database until it says that they wait.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, ParamSpec, Self, TypeVar

import psycopg

from headgate.core.task import NewTask
from headgate.store.claim.contract import Claimed, ClaimRequest
from headgate.store.store import Store, open_store
from tests.factories import TYPES, Clock

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE = 120.0

KEY = f"key {os.getpid()}"  # of a mutex: lines are locked in the whole database, which other test processes share
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = %s"
# Where a claim can be stopped, since it waits for no row: before it takes, and, with a claim_id, at its commit.
BEFORE_THE_TAKE = "LOCK TABLE headgate_task_event IN SHARE MODE"
AFTER_THE_TAKE = f"SELECT pg_advisory_xact_lock(26727, {os.getpid()})"
_STOP_AT_THE_COMMIT = f"""
DROP FUNCTION IF EXISTS stop_at_the_commit CASCADE;
CREATE FUNCTION stop_at_the_commit() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN PERFORM pg_advisory_xact_lock(26727, {os.getpid()}); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER stop_at_the_commit AFTER INSERT OR UPDATE ON headgate_claim_answer
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stop_at_the_commit();
"""


class Rival:
    """Somebody else's transaction, open until told otherwise."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)

    def close(self) -> None:
        self._connection.close()

    def run(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        answer = self._connection.execute(text, values)
        return answer.fetchall() if answer.description else []

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()


class Stage:
    """Stores that share a database and a clock and nothing else, their callers, and their rivals."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._name = f"race-{os.getpid()}"
        self.url = f"{url}&application_name={self._name}"
        self.clock = clock
        self._threads = ThreadPoolExecutor(8)
        self._rivals: list[Rival] = []
        self._stores = ExitStack()

    def __enter__(self) -> Self:
        with psycopg.connect(self.url) as connection:
            connection.execute(_STOP_AT_THE_COMMIT)
        with open_store(self.url, self.clock) as store:
            for kind in TYPES:
                store.types.put(kind)
        return self

    def __exit__(self, *_: object) -> None:
        for rival in self._rivals:  # first: somebody may still wait for one
            rival.close()
        self._threads.shutdown()
        self._stores.close()
        with psycopg.connect(self.url) as connection:
            connection.execute("DROP FUNCTION stop_at_the_commit CASCADE")

    def store(self) -> Store:
        """What another process would have."""
        return self._stores.enter_context(open_store(self.url, self.clock))

    def rival(self) -> Rival:
        rival = Rival(self.url)
        self._rivals.append(rival)
        return rival

    def beside(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call it in a thread of its own."""
        return self._threads.submit(call, *args, **kwargs)

    def await_waiters(self, *calls: "Future[Any]") -> None:
        """Return once each of `calls`, and there are no others, waits for somebody; fail if one ends instead."""
        self.stand_still(*calls)
        for call in calls:
            assert not call.done(), f"it did not wait, but ended: {call.exception() or call.result()}"

    def stand_still(self, *calls: "Future[Any]") -> None:
        """Return once each of `calls`, and there are no others, has ended or waits for somebody."""
        deadline = time.monotonic() + PATIENCE
        with psycopg.connect(self.url, autocommit=True) as connection:
            while time.monotonic() < deadline:
                still_open = sum(not call.done() for call in calls)
                waiting = connection.execute(WAITING, [self._name]).fetchone()
                if waiting is not None and waiting[0] >= still_open:
                    return
        raise AssertionError("somebody neither ends nor waits")

    def count(self, condition: str, *values: Any) -> int:
        with psycopg.connect(self.url) as connection:
            found = connection.execute(f"SELECT count(*) FROM headgate_task WHERE {condition}", values).fetchone()
        assert found is not None
        return int(found[0])


class Claimer:
    """A process that claims: a store of its own and a worker."""

    def __init__(self, stage: Stage) -> None:
        self.store = stage.store()
        self.worker_id = self.store.workers.register("claimer")

    def claim(self, limit: int = 1, **wanted: Any) -> Claimed:
        return self.store.claims.take(ClaimRequest(self.worker_id, limit, **wanted))

    def ids(self, limit: int = 1, **wanted: Any) -> list[int]:
        return [execution.id for execution in self.claim(limit, **wanted).executions]


def submit_many(store: Store, count: int, type_code: str = "plain", **fields: Any) -> list[int]:
    return [made.id for made in store.tasks.submit_many([NewTask(type_code, **fields)] * count)]


def only(call: "Future[T]") -> T:
    """What a call gave that nothing holds up any more."""
    return call.result(PATIENCE)
