"""Bugs to be planted where schedules fire: each as a tired colleague might have written it."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import headgate.store.schedules.rows as rows
import headgate.store.schedules.schedules as store
import headgate.store.schedules.tick_runs as runs
import headgate.store.schedules.ticks as ticks
from headgate.core.schedule import GOOD_ENDS, NewSchedule
from headgate.simulation.plan import CALL, CLIENTS, DUTIES, WORKERS, Move
from headgate.store.db.database import writes
from headgate.store.db.statement import Db, Row, Statement
from headgate.store.schedules.ticks import Fired, Firing
from tests.simulation.bugs import Patch, bug, faults

SCHEDULERS = (DUTIES, WORKERS[0])


def schedules(*types: str, cron: str = "*/2 * * * * *", **other: Any) -> list[Move]:
    parameters = {"missed": "skip", "overlap": "allow", "log": "trans_log", "seconds": 0.05, "ends": ["ok"], **other}
    return [
        Move(0.1, "add_schedule", {"client": CLIENTS[number % 2], "key": f"one more schedule {number}", "type": type,
                                   "cron": cron, **parameters})
        for number, type in enumerate(types)
    ]  # fmt: skip


@bug("I9", more=schedules("plain", "plain", log="none"))
def a_tick_is_fired_by_whoever_has_seen_it(patch: Patch) -> None:
    """The row is locked, so nobody else can be firing it; that somebody else has is not asked."""

    def stands(firing: Firing, row: Row | None) -> bool:
        return row is not None and row[2] == "online"

    patch.setattr(ticks, "_stands", stands)


@bug(
    "I9",
    more=[*schedules("plain", log="none"), *faults("crash_after", SCHEDULERS, 1.0, 3.0, 6.0, within="Schedules.fire")],
)
def a_schedule_is_moved_on_before_its_task_is_made(patch: Patch) -> None:
    """First the pointer, so that nobody else fires the tick; then the task, in a transaction of its own."""
    patch.setattr(store.Schedules, "fire", Schedules.fire)


@bug("I9", more=[
    *schedules("plain", log="none"), *(Move(at, "step_clock", {"seconds": -5.0}) for at in (6.0, 12.0)),
    *(Move(at, f"schedule_{what}", {"client": CLIENTS[0], "pick": 0.0})
      for at, what in ((6.5, "offline"), (7.5, "online"), (12.5, "offline"), (13.5, "online"))),
])  # fmt: skip
def whoever_goes_online_begins_from_now(patch: Patch) -> None:
    """What was fired before is past, whatever the clock says."""

    def first_tick(definition: NewSchedule, now: datetime, done_until: datetime | None) -> datetime | None:
        return definition.cron.following(now)

    patch.setattr(rows, "first_tick", first_tick)


@bug("I9", more=schedules("plain", ends=["fail"]))
def only_a_success_ends_the_log(patch: Patch) -> None:
    """What did not go well is still going on, as far as the log is concerned."""
    patch.setattr(runs, "ENDED", GOOD_ENDS)


@bug("I9", more=[
    *schedules(CALL, CALL), *(Move(at, "kill", {"process": who}) for at in (3.0, 5.0, 7.0, 9.0) for who in SCHEDULERS)
])  # fmt: skip
def a_call_of_a_lost_caller_is_made_again(patch: Patch) -> None:
    """It has not ended, so somebody else has to make it."""
    put_back = Statement("UPDATE headgate_periodic_run SET caller = NULL WHERE id {in ids}")

    @writes
    def give_up_calls(self: store.Schedules, db: Db, calls: Collection[tuple[int, str]]) -> int:
        db.send(put_back, ids=[run_id for run_id, _ in calls])
        return len(calls)

    patch.setattr(store.Schedules, "give_up_calls", give_up_calls)


@bug("I9", more=schedules("plain", seconds=3.0, overlap="skip"))
def a_tick_that_is_skipped_is_forgotten(patch: Patch) -> None:
    """Nothing happened, so nothing is to be written down."""
    begin = ticks.begin

    def without_the_skipped(db: Db, catalog: Any, found: Sequence[ticks.Tick], actor: str) -> list[ticks.Begun]:
        return begin(db, catalog, [tick for tick in found if tick.refused is None], actor)

    patch.setattr(ticks, "begin", without_the_skipped)


class Schedules(store.Schedules):
    """Two transactions where there was one. It has the name of the original, so that faults find them."""

    def fire(self, firings: Sequence[Firing]) -> Fired:
        begin = ticks.begin
        self._catalog.make_streams(
            self._catalog.with_type_defaults(firing.schedule.definition.task for firing in firings)
        )
        left: list[tuple[Any, Sequence[ticks.Tick], str]] = []

        def move(db: Db) -> Fired:
            setattr(ticks, "begin", lambda db, *made: left.append(made))  # noqa: B010 it is not what it was
            try:
                return ticks.fire(db, self._catalog.fresh(db), firings)
            finally:
                setattr(ticks, "begin", begin)  # noqa: B010

        def make(db: Db) -> None:
            for made in left:
                begin(db, *made)

        fired = self._database.write(move)
        self._database.write(make)
        return fired
