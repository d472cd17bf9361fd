"""SQLite: every hot statement goes by the index meant for it, and a claim takes as many steps with many waiting."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from headgate.core.limits import Rate
from headgate.core.machine import Raised, Returned
from headgate.core.task import NewTask
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.claim.visits import MOST_STREAMS
from headgate.store.store import Store, open_store
from tests.factories import TYPES, Clock
from tests.plans.statements import hot_statements

HOT = hot_statements("sqlite")
# As many entries as tasks run, or families wait: these may be read whole.
ONLY_WHAT_RUNS = {"headgate_task_held", "headgate_task_using", "headgate_task_mutex", "headgate_task_waiting"}
# Each of these must be in the plan of the statement.
MEANT = {
    "claim.sqlite.HEADS": "headgate_task_ready",
    "claim.sqlite.HEADS_OF_CREATOR": "headgate_task_ready_creator",
    "claim.contract.READY_STREAMS": "headgate_task_ready",
    "claim.contract.SOME_READY_STREAMS": "headgate_task_ready",
    "claim.sqlite.HELD_IN_LANE": "headgate_task_held",
    "claim.visits.FULL_LANES": "headgate_task_held",
    "claim.holds.USING": "headgate_task_using",
    "tasks.dead_letters.FLOOR": "headgate_task_stopped",
    "dead_letters.letters": "headgate_task_stopped",
    "dead_letters.letters, filtered": "headgate_task_stopped",
    "dead_letters.groups": "headgate_task_stopped",
    "tasks.due.DUE": "headgate_task_timed",
    "tasks.families.OPEN_CHILD": "headgate_task_child",
    "tasks.families.UNASKED": "headgate_task_child",
    "tasks.family_progress.CENSUS": "headgate_task_child",
    "reading.forecasts.AHEAD": "headgate_task_ready",
    "reading.forecasts.IN_LINE": "headgate_task_line",
    "reading.forecasts.LAST_QUEUED": "headgate_task_ready",
    "tasks.mutex_queue.FAMILY_BLOCKED": "headgate_task_family",
    "tasks.mutex_queue.HOLDERS": "headgate_task_mutex",
    "tasks.mutex_queue.HEADS": "headgate_task_line",
    "tasks.mutex_queue.FIRST_BLOCKED": "headgate_task_line",
    "tasks.unique.SAME_KEY": "headgate_task_unique",
}
COUNT = 100_000
_COPIED = (
    "tenant_id, type, creator, category, ext, create_date, update_date, lane, priority, mutex, rate_key, stream_id, "
    "status, start_time, finished_at"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def store(path):
    with open_store(f"sqlite:///{path}", Clock()) as opened:
        opened.migrate()
        for task_type in TYPES:
            opened.types.put(task_type)
        yield opened


def plan_of(connection: sqlite3.Connection, text: str) -> list[str]:
    names = set(re.findall(r"(?<![:\w]):([a-z_]\w*)", text))
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", dict.fromkeys(names))]


def whole_tables(text: str, plan: list[str]) -> list[str]:
    """What of a plan reads all of the task table, or all of an index that holds more than what runs."""
    aliases = "|".join({"headgate_task", *re.findall(r"\bheadgate_task ([a-z])\b", text)})
    return [
        line for line in plan
        if (found := re.match(rf"SCAN (?:{aliases})\b(?:.*INDEX (\w+))?", line)) and found[1] not in ONLY_WHAT_RUNS
    ]  # fmt: skip


@pytest.mark.parametrize("analyzed", [False, True], ids=["not counted", "counted"])
@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_goes_by_an_index(store, path, name, analyzed):
    """Spec: X4"""
    with closing(sqlite3.connect(path)) as connection:
        if analyzed:
            store.tasks.submit_many([NewTask("plain", mutex=str(number % 7)) for number in range(500)])
            connection.execute("ANALYZE")
        plan = plan_of(connection, HOT[name].sqlite)
    assert whole_tables(HOT[name].sqlite, plan) == []
    assert MEANT.get(name, "") in "\n".join(plan)


def test_every_statement_with_an_index_of_its_own_is_looked_at():
    """Spec: X4"""
    assert HOT.keys() >= MEANT.keys()


# Steps

PLACES: dict[str, Callable[[Store], int]] = {
    "in line": lambda store: store.tasks.submit(NewTask("plain", priority=9)).id,
    "of another type": lambda store: store.tasks.submit(NewTask("manual", priority=1)).id,
    "of another tenant": lambda store: store.tasks.submit(NewTask("plain", tenant_id=7, priority=1)).id,
    "in a paused lane": lambda store: (
        store.tasks.submit(NewTask("plain", lane="shut", priority=1)).id,
        store.lanes.pause("shut"),
    )[0],
    "in the future": lambda store: store.tasks.submit(NewTask("plain", delay_seconds=10**6)).id,
    "that are finished": lambda store: store.tasks.cancel(store.tasks.submit(NewTask("plain")).id).id,
    "behind one mutex": lambda store: [store.tasks.submit(NewTask("plain", mutex="key")).id for _ in range(2)][1],
    "of a rate key without tokens": lambda store: _exhausted(store),
}


def _exhausted(store: Store) -> int:
    store.rate_limits.set("key:slow", Rate(0.001, 1))
    store.tasks.submit_many([NewTask("plain", rate_key="slow", priority=0)] * 2)
    [[execution]] = [store.claims.take(ClaimRequest(store.workers.register("other"), 1)).executions]
    store.executions.settle([Outcome(execution, Returned())])
    return execution.id + 1


def steps_of(store: Store, action: Callable[[], object]) -> int:
    """How many steps SQLite's machine takes for it, to the next hundred."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 100

    store.database._writer.set_progress_handler(tick, 100)  # type: ignore[attr-defined]
    try:
        action()
    finally:
        store.database._writer.set_progress_handler(None, 100)  # type: ignore[attr-defined]
    return count


def a_day(store: Store, worker_id: int) -> dict[str, int]:
    steps, held = {}, []
    request = ClaimRequest(worker_id, 3, types=frozenset({"plain"}), tenant_id=0)
    steps["submit"] = steps_of(store, lambda: store.tasks.submit_many([NewTask("plain", priority=3)] * 3))
    steps["submit to a line"] = steps_of(store, lambda: store.tasks.submit(NewTask("plain", mutex="key", priority=9)))
    steps["claim"] = steps_of(store, lambda: held.extend(store.claims.take(request).executions))
    outcomes = [
        Outcome(execution, Raised("again", 0.0) if number else Returned()) for number, execution in enumerate(held)
    ]
    steps["settle"] = steps_of(store, lambda: store.executions.settle(outcomes))
    steps["due"] = steps_of(store, store.due.bring)
    steps["overdue"] = steps_of(store, store.executions.end_overdue)
    steps["prioritize"] = steps_of(store, lambda: store.tasks.prioritize(held[-1].id))
    return steps


@pytest.mark.parametrize("place", PLACES)
def test_a_day_takes_no_more_steps_with_a_hundred_thousand_waiting_than_with_ten(store, path, place):
    """Spec: X4"""
    like, worker_id = PLACES[place](store), store.workers.register("claimer")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"CREATE TEMP TABLE pattern AS SELECT {_COPIED} FROM headgate_task WHERE id = ?", [like])

        def load(count: int) -> None:
            connection.execute(
                f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                f" INSERT INTO headgate_task ({_COPIED}) SELECT {_COPIED} FROM pattern, n",
                [count],
            )

        load(10)
        a_day(store, worker_id)
        few = a_day(store, worker_id)
        load(COUNT)
        many = a_day(store, worker_id)
        connection.execute("ANALYZE")
        counted = a_day(store, worker_id)
    for name in few:
        assert many[name] <= 2 * few[name] + 1_000, f"{name}: {few[name]} steps became {many[name]}"
        assert counted[name] <= 2 * few[name] + 1_000, f"{name}, counted: {few[name]} steps became {counted[name]}"


def test_a_claim_takes_no_more_steps_with_thousands_of_lanes_and_rate_keys_than_with_hundreds(store):
    """Spec: X4, X12 (once a second it takes a few more)"""
    worker_id, steps = store.workers.register("claimer"), []

    def claim() -> None:
        assert len(store.claims.take(ClaimRequest(worker_id, 1)).executions) == 1

    for count in (2 * MOST_STREAMS, 10 * MOST_STREAMS):
        for first in range(0, count, 100):
            store.tasks.submit_many(
                [NewTask("plain", lane=f"{count} {n}", rate_key=f"{count} {n}") for n in range(first, first + 100)]
            )
        claim()
        steps.append(steps_of(store, claim))
    assert steps[1] <= steps[0] + 1_000


def test_a_claim_takes_no_more_steps_with_thousands_of_idle_lanes_than_with_none(store, path):
    """Spec: X4, X12"""
    worker_id, steps = store.workers.register("claimer"), []

    def claim() -> None:
        assert len(store.claims.take(ClaimRequest(worker_id, 1)).executions) == 1

    store.tasks.submit_many([NewTask("plain")] * 10)
    for count in (0, 3_000):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            names = [(f"idle {number}",) for number in range(count)]
            connection.executemany("INSERT INTO headgate_lane (name) VALUES (?)", names)
        claim()
        steps.append(steps_of(store, claim))
    assert steps[1] <= steps[0] + 100
