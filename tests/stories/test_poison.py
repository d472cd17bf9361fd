"""Tasks that kill their process end when they have done so three times alone; those beside them are not charged."""

from pathlib import Path

from headgate.core.states import State
from headgate.simulation.checker import check
from tests.stories import bodies
from tests.stories.bodies import bound_to
from tests.stories.crew import PATIENCE, crew, until
from tests.stories.evidence import collected, made, rows

GOOD = 200
POISON = 2
SLOTS = 10  # who runs beside poison when it kills is lost as well, and may be so again
WORKERS = 2


def test_poison_ends_after_three_lost_leases_and_every_good_task_succeeds(url: str, tmp_path: Path):
    """Spec: A11"""
    app = bound_to(url)
    with crew(url, tmp_path, slots=SLOTS) as members:
        dice = members.dice
        kinds = [*[bodies.poison.call()] * POISON, *[bodies.step.call(dice.uniform(0.0, 0.05)) for _ in range(GOOD)]]
        dice.shuffle(kinds)
        tasks = app.submit_many_sync(kinds)
        bad = {task.id for task, call in zip(tasks, kinds, strict=True) if call._handler is bodies.poison._handler}

        def all_over() -> bool:
            """Meanwhile, another worker for each that died."""
            members.bury()
            while len(members.alive) < WORKERS:
                members.start()
            return not rows(url, "SELECT 1 FROM headgate_task WHERE finished_at IS NULL LIMIT 1")

        until(all_over, "all tasks end", 2 * PATIENCE)
    for task in tasks:
        record = task.record_sync()
        if task.id in bad:
            assert (record.status, record.lost_count, record.error_count) == (State.FAILED, 3, 0)
            assert "so it is not run again" in (record.error_info or "")
            [[losses]] = rows(
                url, f"SELECT count(*) FROM headgate_task_event WHERE task_id = {task.id} AND kind = 'lease_lost'"
            )
            assert len(members.lines_of(task.id, "start")) <= losses + 1, "the last one, alone, ends it"
        else:
            assert record.status is State.SUCCEEDED, record.error_info
    # I10: nobody is charged who did not run alone, or was not lost often, when its worker died or its lease ran out.
    assert check(collected(url, members.ledger, [made([task.id for task in tasks])])) == []
