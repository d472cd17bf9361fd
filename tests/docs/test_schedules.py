"""The guide to schedules shows what its commands print."""

import time

from tests.docs.guides import PATIENCE, Guide
from tests.factories import sql

EXECUTING = "SELECT 1 FROM headgate_periodic_task_log WHERE result = 'executing'"


def test_the_guide_to_schedules_prints_what_it_says(tmp_path):
    """Spec: B9, B10"""

    def logs_have_ended() -> None:
        end = time.monotonic() + PATIENCE
        while sql(f"sqlite:///{tmp_path}/headgate.db", EXECUTING):
            assert time.monotonic() < end, "a log did not end"
            time.sleep(0.02)

    assert Guide("schedules.md").tried(tmp_path, before_each=logs_have_ended) >= 9
