"""Taking executions away from outside: which, and how."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core.machine import Event, GivenBack, LeaseLost
from headgate.core.states import HELD, State
from headgate.core.task import Task
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Row, Statement
from headgate.store.tasks.transitions import happen, locked

REAPER = "system:reaper"
MOST_UNCOUNTED = 5  # losses beside others
OUTLIVED = "the deadline had passed, and it did not end before its worker was ended"
UNLEASED = '{"beats": false}'  # the detail of an agent that asked for no lease
ENDS_OVERDUE = "ends_overdue"  # a worker that says so in its detail ends its executions itself when they are too late
SAYS_SO = f'%"{ENDS_OVERDUE}":true%'
# Who frees an execution that is too late is decided here and nowhere else. A worker that still beats does so itself,
# once the handler has really ended: until then its room and its mutex are not free.
_ENDS_IT_ITSELF = "NOT w.lost AND w.agent_id IS NULL AND w.detail LIKE :says_so"
# The reaper enforces a missed deadline only if the worker has beaten since. One that has not may have died long before:
# its tasks wait until it is declared lost, which counts no error. An agent that asked for no lease never beats: its
# deadline alone decides, as it does for an unknown holder.
_SILENT_SINCE = f"""
    {{w.lease_until - w.lease_seconds}} <= t.executing_deadline
    AND NOT (w.agent_id IS NOT NULL AND coalesce(w.detail, '') = '{UNLEASED}')
"""
_PAST_DEADLINE = f"""
    t.status IN {HELD_STATES} AND t.status = 'running' AND t.executing_deadline < {{now}}
    AND NOT EXISTS (
        SELECT 1 FROM headgate_worker w WHERE w.id = t.worker_id AND ({_ENDS_IT_ITSELF} OR {_SILENT_SINCE}))
"""
_TOO_LONG = "scheduling_time < {now - :seconds}"
_HOLDS_MUTEX = f"""
    t.mutex IS NOT NULL AND t.exec_id IS NOT NULL AND t.{_TOO_LONG}
    AND NOT EXISTS (SELECT 1 FROM headgate_worker w WHERE w.id = t.worker_id AND {_ENDS_IT_ITSELF})
"""
_FAMILY_HOLDS_MUTEX = f"""
    has_children AND status = 'waiting' AND coalesce(mutex, '') <> '' AND {_TOO_LONG}
    AND NOT cancel_requested AND NOT gave_up
"""
OVERDUE = Statement(f"SELECT t.id, t.exec_id FROM headgate_task t WHERE {_PAST_DEADLINE} LIMIT :limit")
MUTEX_OVERDUE = Statement(
    f"""
    SELECT t.id, t.exec_id FROM headgate_task t WHERE {_HOLDS_MUTEX}
    UNION ALL
    SELECT id, exec_id FROM headgate_task WHERE {_FAMILY_HOLDS_MUTEX}
     LIMIT :limit
    """
)
ANY_OVERDUE = Statement(
    f"""
    SELECT CASE
        WHEN EXISTS (SELECT 1 FROM headgate_task t WHERE {_PAST_DEADLINE}) THEN 1
        WHEN EXISTS (SELECT 1 FROM headgate_task t WHERE {_HOLDS_MUTEX}) THEN 1
        WHEN EXISTS (SELECT 1 FROM headgate_task WHERE {_FAMILY_HOLDS_MUTEX}) THEN 1
        ELSE 0 END
    """
)
HELD_BY = Statement(
    f"""
    SELECT id, exec_id FROM headgate_task WHERE status IN {HELD_STATES} AND worker_id = :worker_id
     LIMIT :limit
    """
)
LOSSES = Statement(
    "SELECT task_id, count(*) FROM headgate_task_event WHERE task_id {in ids} AND kind = 'lease_lost' GROUP BY task_id"
)
BURY = Statement("UPDATE headgate_worker SET lost = true, lease_until = {now} WHERE id = :worker_id AND NOT lost")
LEFT_BEHIND = Statement(
    f"""
    SELECT id, exec_id, CASE WHEN status = 'running' AND executing_deadline < {{now}} THEN 1 ELSE 0 END
      FROM headgate_task WHERE status IN {HELD_STATES} AND worker_id = :worker_id
    """
)
LAST_END = Statement(
    """
    SELECT kind FROM headgate_task_event
     WHERE task_id = :task_id AND seq > 0 AND before = 'running' AND after <> 'running'
     ORDER BY seq DESC LIMIT 1
    """
)
STRAYS = Statement(
    f"""
    SELECT id, exec_id FROM headgate_task
     WHERE status IN {HELD_STATES} AND worker_id = :worker_id AND type {{in types text}}
    """
)
# A claim for a worker shares the worker's row until the commit: this waits for claims whose client is already gone.
HOLD_WORKER = Statement(
    sqlite="SELECT id FROM headgate_worker WHERE id = :worker_id",
    postgres="SELECT id FROM headgate_worker WHERE id = :worker_id FOR NO KEY UPDATE",
)
UNSTARTED = Statement(
    f"""
    SELECT id, exec_id FROM headgate_task
     WHERE status IN {HELD_STATES} AND status = 'scheduling' AND worker_id = :worker_id
    """
)


def take_away(
    db: Db,
    catalog: Catalog,
    seen: Sequence[Row],
    event: Event,
    actor: str,
    status: State | None = None,
    detail: dict[str, Any] | None = None,
) -> list[Task]:
    """End executions (id, exec_id) from outside, if they still own their task; returns the tasks as they were.

    An execution that has ended since it was seen is skipped, even if the task runs again. With `status`, the task must
    still be in that state. Fences the holder first: its exec_id is gone with this commit, so its later reports change
    nothing.
    """
    owners = {task_id: None if exec_id is None else str(exec_id) for task_id, exec_id in seen}
    with locked(db, owners) as found:
        tasks = [
            task
            for task in found
            if (task.status in HELD or (task.status is State.WAITING and not task.gave_up))
            and task.exec_id == owners[task.id]
            and status in (None, task.status)
        ]
        happen(db, catalog, tasks, event, actor, detail)
    return tasks


@dataclass(frozen=True, slots=True)
class Death:
    """What is known of a worker process that is dead.

    `stuck`: exec_ids that did not end although they were told to. `cause`: what the process died of by itself, None if
    it was ended. `on_stage`: the tasks whose code was running at that moment (None: unknown).
    """

    cause: str | None = None
    stuck: Collection[str] = ()
    on_stage: Collection[int] | None = None

    def event(self, task_id: int, alone: bool) -> Event:
        """What it means for an execution that is not late."""
        if self.cause is None or not (alone or self.on_stage is None or task_id in self.on_stage):
            return GivenBack()
        return LeaseLost(self.cause, alone)
