"""Bugs to be planted around deadlines, handlers that do not stop, clocks and losses: as a tired colleague would.

What one transaction at a time cannot show has its test with real ones: a report that is under way while the next
execution begins in `store/test_races_leases.py`, a claim that is open while a pause is written in
`stories/test_pauses.py`.
"""

from collections.abc import Sequence

import headgate.core.limits as limits
import headgate.store.claim.sqlite as claim_sqlite
import headgate.store.execution.revoke as revoke
from headgate.core.limits import Rate
from headgate.core.machine import GivenBack, LeaseLost
from headgate.core.pause import PauseScope
from headgate.core.task import Task
from headgate.simulation.plan import CHAOS_SECONDS, CLIENTS, WORKERS, Move
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.contract import LANES_AND_PAUSES, ActivePauses, held_by
from headgate.store.db.statement import Statement
from headgate.store.execution.executions import Executions
from headgate.worker.executor import Executor
from headgate.worker.pool import Pool
from headgate.worker.reports import LoopReporter
from headgate.worker.run import Run
from tests.simulation.bugs import Patch, bug, errands, faults, reworded, submits

NOTHING_OF_HOLDERS = "SELECT t.id, t.exec_id FROM headgate_task t WHERE t.executing_deadline < {now} LIMIT :limit"
SILENT_ONES = f"AND NOT EXISTS (SELECT 1 FROM headgate_worker w WHERE w.id = t.worker_id AND {revoke._SILENT_SINCE})"
STUBBORN = submits(0.5, 6, "brief", seconds=4.0, stubborn=True)


def overdue(patch: Patch, text: str) -> None:
    patch.setattr(revoke, "OVERDUE", Statement(text))
    patch.setattr(revoke, "ANY_OVERDUE", Statement("SELECT 1"))


@bug("I5", "I10", more=[*submits(1.0, 6, "tooled", seconds=2.5), *faults("kill", WORKERS, 1.6, 4.0)])
def a_deadline_is_held_against_the_dead(patch: Patch) -> None:
    """Past its deadline is past its deadline, whoever was there to miss it."""
    overdue(patch, NOTHING_OF_HOLDERS)


@bug("I5", more=STUBBORN)
def a_deadline_frees_what_still_runs(patch: Patch) -> None:
    """Its worker beats, so it will hear that the task was taken away."""
    overdue(patch, NOTHING_OF_HOLDERS.replace("LIMIT", f"{SILENT_ONES} LIMIT"))


@bug("I1", "I5", "I6", "I8", more=STUBBORN)  # and whoever waits for its end waits for ever
def what_does_not_stop_is_given_back_at_once(patch: Patch) -> None:
    """Its worker is unfit: let another run it."""

    def give_up(self: Pool, run: Run) -> None:
        run.stuck = True
        self.ended(run, GivenBack())

    patch.setattr(Pool, "give_up", give_up)


@bug("I11", more=STUBBORN)
def a_result_counts_however_late_it_comes(patch: Patch) -> None:
    """The work is done, so let it count."""
    patch.setattr(Executor, "_unless_late", lambda self, run, event: event)


# A parent has ended when its children come: they are refused.
@bug("I11", more=submits(0.5, 6, "parent", ends=["children, unawaited"], children=3))
def what_nobody_awaits_is_left_behind(patch: Patch) -> None:
    """A handler that wants its reports made awaits them."""

    async def finish(self: LoopReporter) -> None: ...

    patch.setattr(LoopReporter, "finish", finish)


# Alone, since a clock that stays set back holds up more than buckets: what waits for a time, and schedules.
@bug("I1", alone=True, more=[
    *submits(CHAOS_SECONDS + 1.9, 12, "limited"), Move(CHAOS_SECONDS + 2.0, "step_clock", {"seconds": -3600.0}),
])  # fmt: skip
def a_bucket_is_shut_until_the_clock_is_back(patch: Patch) -> None:
    """The bucket is full at its time, and not before."""

    def unbounded(limit: Rate, tat: float, now: float) -> float:
        return tat

    for module in (limits, claim_sqlite):
        patch.setattr(module, "bounded", unbounded)


@bug("I4", more=[
    *errands(2.0, 9, ["ok"]),
    *(Move(at, "pause_lane", {"client": CLIENTS[0], "lane": None}) for at in (2.5, 4.0, 6.0)),
    *(Move(at, "resume_lane", {"client": CLIENTS[0], "lane": None}) for at in (3.2, 5.0, 7.0)),
])  # fmt: skip
def a_start_is_confirmed_while_everything_is_paused(patch: Patch) -> None:
    """What was handed over before the pause may begin."""
    patch.setattr(Catalog, "pause_of", lambda self, db, stream: None)


PAUSED_TYPE = [
    Move(2.5, "set_pause", {"client": CLIENTS[0], "scope": PauseScope.TYPE, "name": "plain", "seconds": 3.0}),
    *submits(3.0, 6, "plain"),
]


@bug("I4", more=PAUSED_TYPE)
def a_claim_asks_for_pauses_of_lanes_alone(patch: Patch) -> None:
    """Only lanes can be paused."""

    def of_lanes(pauses: ActivePauses, streams: Sequence[Stream]) -> dict[int, float]:
        return held_by({key: left for key, left in pauses.items() if key[0] in ("all", "lane")}, streams)

    patch.setattr(claim_sqlite, "held_by", of_lanes)


@bug("I4", more=PAUSED_TYPE)
def the_end_of_a_pause_is_compared_with_a_clock_that_is_ahead(patch: Patch) -> None:
    """Whoever asks compares it with a clock of its own."""
    ahead = reworded(LANES_AND_PAUSES, "OR until > :now", "OR until > :now + 1500000")
    patch.setattr(claim_sqlite, "LANES_AND_PAUSES", ahead)


@bug("I10", more=[*submits(1.0, 9, "plain", seconds=4.0), *faults("kill", WORKERS, 2.0)])
def a_loss_is_counted_for_all_of_a_worker(patch: Patch) -> None:
    """Whatever was there when the process died may have done it."""

    def rescue(self: Executions, worker_id: int, *, limit: int = 500) -> list[Task]:
        held = self._database.read(lambda db: db.rows(revoke.HELD_BY, worker_id=worker_id, limit=limit))
        return self._lose(held, LeaseLost(), revoke.REAPER)

    patch.setattr(Executions, "rescue", rescue)
