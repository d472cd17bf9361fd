"""Rolling restarts: workers are told to go at any moment, and others come. No attempt is lost over it."""

import signal
from collections import Counter
from pathlib import Path
from typing import Any

from headgate.simulation.checker import check
from headgate.task_function import TaskFunction
from tests.stories import bodies
from tests.stories.bodies import bound_to
from tests.stories.crew import crew, until
from tests.stories.evidence import collected, made, rows

TASKS = 400
STOPS = 12
WORKERS = 3
SHUTDOWN_SECONDS = 0.3
LEASE_SECONDS = 20.0  # nobody dies here: one that runs out would only tell how busy the machine is
FUNCTIONS: tuple[TaskFunction[..., Any, None], ...] = (
    *[bodies.step] * 6,
    *[bodies.step_in_a_thread] * 3,
    bodies.step_in_a_process,
)


def test_workers_told_to_go_at_any_moment_burn_no_attempt_and_do_nothing_twice(url: str, tmp_path: Path):
    """Spec: D9"""
    app = bound_to(url)
    with crew(url, tmp_path, shutdown=SHUTDOWN_SECONDS, lease=LEASE_SECONDS) as members:
        for _ in range(WORKERS):
            members.start()
        dice, portion, submits = members.dice, TASKS // STOPS, []
        for _ in range(STOPS):
            calls = [dice.choice(FUNCTIONS).call(dice.uniform(0.001, 0.6)) for _ in range(portion)]
            submits.append(made([task.id for task in app.submit_many_sync(calls)]))
            if dice.random() < 0.8:
                members.await_starts(dice.randrange(portion))
                leaving = members.by_chance()
            else:
                leaving = members.alive[-1]  # it may not even have signed on
            leaving.terminate()
            twice = dice.random() < 0.3
            if twice:
                members.await_starts(dice.randrange(3))
                leaving.terminate()
            members.start()
            deaf = twice or leaving not in members.busy()  # before it listens, and after, the system ends it
            assert members.end_of(leaving) in ({0, -signal.SIGTERM} if deaf else {0})
            members.all_alive()
        until(lambda: not rows(url, "SELECT 1 FROM headgate_task WHERE finished_at IS NULL LIMIT 1"), "all tasks end")
    assert rows(url, "SELECT task_id FROM headgate_task_event WHERE kind = 'lease_lost'") == []
    counts = Counter(rows(url, "SELECT status, error_count, lost_count FROM headgate_task"))
    assert counts == {("succeeded", 0, 0): portion * STOPS}
    assert check(collected(url, members.ledger, submits)) == []
    finished = Counter(entry.task_id for entry in members.ledger.finished())
    assert set(finished.values()) == {1}
    assert len(finished) == portion * STOPS
