"""Executions: reported on, settled by whoever runs them, taken away from outside. Each write names its exec_id."""

from collections.abc import Collection, Sequence

import headgate.store.execution.reports as reports
import headgate.store.execution.revoke as revoke
from headgate.core.states import FINAL, State
from headgate.core.task import Execution, Task
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.claims import Claims
from headgate.store.claim.contract import Claimed, ClaimRequest, Control, Outcome
from headgate.store.claim.freed import take_again
from headgate.store.db.database import Database
from headgate.store.db.deferred import Deferred
from headgate.store.db.statement import Db
from headgate.store.events.audit import SYSTEM
from headgate.store.execution.settle import settle
from headgate.store.tasks.families import Families

MUTEX_SECONDS = 2 * 3600.0
Settled = tuple[list[State | None], Claimed]


class Executions:
    """What is running, or handed over and about to run."""

    def __init__(self, database: Database, catalog: Catalog, claims: Claims, families: Families) -> None:
        self._database = database
        self._catalog = catalog
        self._claims = claims
        self._families = families

    def settle(self, outcomes: Sequence[Outcome], *, actor: str = SYSTEM) -> list[State | None]:
        """Record how executions ended; what each task is now, or None where another exec_id owns it.

        Looks after families afterwards, in transactions of their own.
        """
        return self.settle_and_claim(outcomes, None, actor=actor)[0]

    def settle_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, *, actor: str = SYSTEM
    ) -> Settled:
        """`settle` and `Claims.take` in one transaction: what a busy worker does all day."""
        if not outcomes and request is None:
            return [], Claimed([])
        done, claimed = self._database.write(lambda db: self._settle_and_claim(db, outcomes, request, actor))
        self._families.look_after(
            execution.id if after is State.WAITING else execution.parent_id
            for (execution, _, _), after in zip(outcomes, done, strict=True)
            if after is State.WAITING or after in FINAL or after is State.DEAD
        )
        return done, claimed

    def _settle_and_claim(
        self, db: Db, outcomes: Sequence[Outcome], request: ClaimRequest | None, actor: str
    ) -> Settled | Deferred[Settled]:
        done = settle(db, self._catalog.fresh(db), outcomes, actor) if outcomes else []
        claimed = Claimed([]) if request is None else self._claims.take_in(db, request)

        def filled(claimed: Claimed) -> Settled:
            take_again(db, self._catalog, claimed.executions)
            return done, claimed

        if isinstance(claimed, Deferred):
            return Deferred(lambda: filled(claimed.finish()))
        return filled(claimed)

    # reports

    def start(self, task_id: int, exec_id: str, *, actor: str = SYSTEM) -> Execution | None:
        """Confirm the start of a task handed over as `scheduling`; None if it is not this exec_id's to start."""
        return self._database.write(lambda db: reports.start(db, self._catalog.fresh(db), task_id, exec_id, actor))

    def progress(self, task_id: int, exec_id: str, progress: str, *, actor: str = SYSTEM) -> Control:
        """Note how far an execution is (JSON); what is asked of it. `StaleExecution` if it owns the task no more."""
        return self._database.write(lambda db: reports.report_progress(db, task_id, exec_id, progress, actor))

    def add_log(self, task_id: int, exec_id: str, lines: Sequence[tuple[str, str]]) -> Control:
        """Keep log lines (level, message) with the task; like `progress` otherwise."""
        return self._database.write(lambda db: reports.add_log(db, task_id, exec_id, lines))

    def save_checkpoint(self, task_id: int, exec_id: str, name: str, state: str) -> Control:
        """Keep a named state (JSON) that later executions of the task find; like `progress` otherwise."""
        return self._database.write(lambda db: reports.save_checkpoint(db, task_id, exec_id, name, state))

    def log(self, task_id: int, *, after: int = 0, limit: int = 200) -> list[reports.LogLine]:
        """A task's own log lines, oldest first."""
        return self._database.read(lambda db: reports.log_of(db, task_id, after, limit))

    def checkpoints(self, task_id: int) -> dict[str, str]:
        """What a task's executions have saved, by name, as JSON."""
        return self._database.read(lambda db: reports.checkpoints_of(db, [task_id]).get(task_id, {}))

    def checkpoints_of(self, ids: Sequence[int]) -> dict[int, dict[str, str]]:
        """`checkpoints` of many tasks; whoever has saved nothing is left out."""
        return self._database.read(lambda db: reports.checkpoints_of(db, ids))

    # taken away

    def give_back(self, task_id: int, exec_id: str, *, actor: str = SYSTEM) -> None:
        """Let go of a task without having failed it: back to its queue, nothing counted."""
        self._ended(
            self._database.write(lambda db: revoke.give_back(db, self._catalog.fresh(db), task_id, exec_id, actor))
        )

    def give_back_strays(self, worker_id: int, types: Collection[str], known: Collection[str]) -> list[Task]:
        """Give back tasks of `types` that a worker holds besides its `known` exec_ids: claims it never heard about."""
        return self._ended(
            self._database.write(
                lambda db: revoke.give_back_strays(db, self._catalog.fresh(db), worker_id, types, known)
            )
        )

    def rescue(self, worker_id: int, *, limit: int = 500) -> list[Task]:
        """Give back a page of what a lost worker held; those tasks, as they were."""
        return self._ended(
            self._database.write(lambda db: revoke.rescue(db, self._catalog.fresh(db), worker_id, limit))
        )

    def bury(self, worker_id: int, death: revoke.Death, *, actor: str = SYSTEM) -> list[Task]:
        """End what a worker held whose process is dead, which whoever calls this knows; those tasks, as they were."""
        return self._ended(
            self._database.write(lambda db: revoke.bury(db, self._catalog.fresh(db), worker_id, death, actor))
        )

    def is_suspect(self, task_id: int) -> bool:
        """Whether the process of a task's last execution died, and it may have done it: it should run apart."""
        return self._database.read(lambda db: revoke.is_suspect(db, task_id))

    def end_overdue(self, *, limit: int = 500, mutex_seconds: float = MUTEX_SECONDS) -> list[Task]:
        """End what is past its deadline or has held its mutex too long; those tasks, as they were.

        Left alone is what a beating worker holds that ends such executions itself.
        """
        if not self._database.read(lambda db: revoke.any_overdue(db, mutex_seconds)):
            return []
        return self._ended(
            self._database.write(lambda db: revoke.end_overdue(db, self._catalog.fresh(db), limit, mutex_seconds))
        )

    def return_unstarted(self, seconds: float, *, limit: int = 500, actor: str = SYSTEM) -> list[Task]:
        """Put back in its queue what was handed over more than `seconds` ago and never confirmed.

        What is assigned to an agent is left to `compensation`.
        """
        return self._database.write(
            lambda db: revoke.return_unstarted(db, self._catalog.fresh(db), seconds, limit, actor)
        )

    def _ended(self, ended: list[Task]) -> list[Task]:
        self._families.look_after(
            each for task in ended for each in (task.id if task.has_children else None, task.parent_id)
        )
        return ended
