"""A large family whose children end in several processes at once, some of which are killed: the parent ends once."""

import json
import os
from collections import Counter
from pathlib import Path

from headgate.simulation.checker import check
from tests.stories import bodies
from tests.stories.bodies import bound_to
from tests.stories.crew import crew, until
from tests.stories.evidence import collected, made, rows

CHILDREN = int(os.environ.get("HEADGATE_STORY_CHILDREN", "1000"))  # `make crash` asks for ten thousand
WORKERS = 3
KILLS = 4
ONE_IN = 50  # fails for good
PATIENCE = 60.0 + CHILDREN / 20
ENDS = ("completed", "completed_with_errors", "failed", "cancelled")


def test_a_large_family_ends_once_and_rightly_while_workers_are_killed(url: str, tmp_path: Path):
    """Spec: D7, X4"""
    bound_to(url)
    with crew(url, tmp_path, slots=30) as members:
        members.start()
        parent = bodies.brood.submit_sync(CHILDREN, ONE_IN)
        until(
            lambda: parent.record_sync().status == "waiting" or parent.record_sync().finished_at, "its own code is done"
        )
        for _ in range(WORKERS - 1):
            members.start()
        for _ in range(KILLS):
            members.await_starts(CHILDREN // (2 * KILLS))
            members.kill(members.by_chance())
            members.start()
        until(lambda: parent.record_sync().finished_at is not None, "the family ends", PATIENCE)
        members.all_alive()
    children = rows(url, f"SELECT status, lost_count FROM headgate_task WHERE parent_id = {parent.id}")
    assert len(children) == CHILDREN
    poisoned = sum(lost >= 3 for _, lost in children)
    states = Counter(status for status, _ in children)
    assert states == {"succeeded": CHILDREN - CHILDREN // ONE_IN - poisoned, "failed": CHILDREN // ONE_IN + poisoned}
    events = rows(url, f"SELECT kind, detail FROM headgate_task_event WHERE task_id = {parent.id}")
    assert [kind for kind, _ in events if kind in ENDS] == ["completed_with_errors"]
    assert json.loads(events[-1][1]) == {"children": states}
    assert parent.record_sync().status == "partial"
    assert check(collected(url, members.ledger, [made([parent.id])])) == []
