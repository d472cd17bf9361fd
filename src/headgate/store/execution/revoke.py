"""Executions taken away from outside: overdue, of a lost worker, given back, never started."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headgate.core.errors import StaleExecution
from headgate.core.machine import (
    Event,
    GivenBack,
    LeaseLost,
    Overdue,
    decide,
)
from headgate.core.states import HELD, State
from headgate.core.task import Task
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.freed import give_up
from headgate.store.db.statement import Db, Row, Statement
from headgate.store.tasks.mutex_queue import lock, settle_queues
from headgate.store.tasks.rows import MUTEXES, hold
from headgate.store.tasks.transitions import Write, apply

ACTOR = "system:reaper"
MOST_UNCOUNTED = 5  # losses beside others
ENDS_OVERDUE = "ends_overdue"  # a worker that says so in its detail ends its executions itself when they are too late
_SAYS_SO = f'%"{ENDS_OVERDUE}":true%'
# Who frees an execution that is too late is decided here and nowhere else. A worker that still beats does so itself,
# once the handler has really ended: until then its room and its mutex are not free. What is left to the reaper is
# whatever an agent holds, or a worker that does not say that it ends what is overdue.
_NOT_LEFT_TO_ITS_WORKER = """NOT EXISTS (
           SELECT 1 FROM headgate_worker w
            WHERE w.id = t.worker_id AND NOT w.lost AND w.agent_id IS NULL AND w.detail LIKE :says_so)"""
_OVERDUE = f"""
      FROM headgate_task t
     WHERE t.status IN ('scheduling', 'running') AND t.status = 'running' AND t.executing_deadline < {{now}}
       AND {_NOT_LEFT_TO_ITS_WORKER}"""
_MUTEX_OVERDUE = f"""
      FROM headgate_task t
     WHERE t.mutex IS NOT NULL AND t.exec_id IS NOT NULL AND t.scheduling_time < {{now - :seconds}}
       AND {_NOT_LEFT_TO_ITS_WORKER}"""
_FAMILY_OVERDUE = """
      FROM headgate_task
     WHERE has_children AND status = 'waiting' AND coalesce(mutex, '') <> ''
       AND scheduling_time < {now - :seconds} AND NOT cancel_requested AND NOT gave_up"""
OVERDUE = Statement(f"SELECT t.id, t.exec_id {_OVERDUE} LIMIT :limit")
MUTEX_OVERDUE = Statement(
    f"SELECT t.id, t.exec_id {_MUTEX_OVERDUE} UNION ALL SELECT id, exec_id {_FAMILY_OVERDUE} LIMIT :limit"
)
ANY_OVERDUE = Statement(
    f"""
    SELECT CASE
        WHEN EXISTS (SELECT 1 {_OVERDUE}) THEN 1
        WHEN EXISTS (SELECT 1 {_MUTEX_OVERDUE}) THEN 1
        WHEN EXISTS (SELECT 1 {_FAMILY_OVERDUE}) THEN 1
        ELSE 0 END
    """
)
HELD_BY = Statement(
    """
    SELECT id, exec_id FROM headgate_task WHERE status IN ('scheduling', 'running') AND worker_id = :worker_id
     LIMIT :limit
    """
)


def take_away(db: Db, catalog: Catalog, seen: Sequence[Row], event: Event, actor: str, **guard: object) -> list[Task]:
    """End executions (id, exec_id) from outside, those that still own their task; the tasks as they were.

    Of an execution that ended since it was seen nothing is left, whoever runs the task by now. `guard` (column: value)
    is what a task must still be besides. Fences the holder first: its exec_id is gone with this commit, whatever it
    reports later changes nothing.
    """
    if not seen:
        return []
    owners = {task_id: None if exec_id is None else str(exec_id) for task_id, exec_id in seen}
    keys = [(tenant, mutex) for tenant, mutex in db.rows(MUTEXES, ids=list(owners))]
    lock(db, keys)
    tasks = [
        task
        for task in hold(db, list(owners))
        if (task.status in HELD or (task.status is State.WAITING and not task.gave_up))
        and task.exec_id == owners[task.id]
        and all(getattr(task, name) == value for name, value in guard.items())
    ]
    writes = [
        Write(task.id, task.status, decide(task, event, catalog.type(task.type)), task.seq, task.exec_id)
        for task in tasks
    ]
    apply(db, writes, actor)
    give_up(db, catalog, [task for task in tasks if task.status in HELD])
    settle_queues(db, keys)
    return tasks


def any_overdue(db: Db, mutex_seconds: float) -> bool:
    """Whether `end_overdue` would find something."""
    return bool(db.rows(ANY_OVERDUE, seconds=mutex_seconds, says_so=_SAYS_SO)[0][0])


def end_overdue(db: Db, catalog: Catalog, limit: int, mutex_seconds: float) -> list[Task]:
    """End what is past its deadline, or has held its mutex too long; the tasks as they were.

    What a beating worker holds is left to it, if it says that it ends what is overdue (see `ENDS_OVERDUE`).
    """
    ended = take_away(db, catalog, db.rows(OVERDUE, limit=limit, says_so=_SAYS_SO), Overdue(), ACTOR)
    hogs = db.rows(MUTEX_OVERDUE, limit=limit, seconds=mutex_seconds, says_so=_SAYS_SO)
    return ended + take_away(db, catalog, hogs, Overdue(f"it held its mutex for more than {mutex_seconds:g} s"), ACTOR)


def rescue(db: Db, catalog: Catalog, worker_id: int, limit: int) -> list[Task]:
    """Give back a page of what a lost worker held; the tasks as they were.

    Nobody knows what became of its process: each may have done it, and is counted only if it was alone. A page leaves
    no single one behind, which would seem to have been alone.
    """
    held = db.rows(HELD_BY, worker_id=worker_id, limit=limit + 2)
    page = held[:limit] if len(held) == limit + 2 else held
    return _lose(db, catalog, page, LeaseLost(alone=len(held) == 1), ACTOR)


LOSSES = Statement(
    "SELECT task_id, count(*) FROM headgate_task_event WHERE task_id {in ids} AND kind = 'lease_lost' GROUP BY task_id"
)


def _lose(db: Db, catalog: Catalog, seen: Sequence[Row], loss: LeaseLost, actor: str) -> list[Task]:
    """End executions whose process died. One that was beside others each time is counted in the end as well: not every
    handler can be run apart, and what kills its worker would go on for ever."""
    often = set()
    if not loss.alone:
        losses = db.rows(LOSSES, ids=[task_id for task_id, _ in seen])
        often = {task_id for task_id, count in losses if count >= MOST_UNCOUNTED}
    ended = take_away(db, catalog, [row for row in seen if row[0] not in often], loss, actor)
    counted = LeaseLost(loss.reason)
    return ended + take_away(db, catalog, [row for row in seen if row[0] in often], counted, actor)


OUTLIVED = "the deadline had passed, and it did not end before its worker was ended"
BURY = Statement("UPDATE headgate_worker SET lost = true, lease_until = {now} WHERE id = :worker_id AND NOT lost")
LEFT_BEHIND = Statement(
    """
    SELECT id, exec_id, CASE WHEN status = 'running' AND executing_deadline < {now} THEN 1 ELSE 0 END
      FROM headgate_task WHERE status IN ('scheduling', 'running') AND worker_id = :worker_id
    """
)


@dataclass(frozen=True, slots=True)
class Death:
    """What is known of a worker process that is dead.

    `stuck` are the exec_ids that did not end though they were told to. `cause` is what it died of by itself, None if it
    was ended; `on_stage` are then the tasks of which some code was just running (None: nobody knows).
    """

    cause: str | None = None
    stuck: Collection[str] = ()
    on_stage: Collection[int] | None = None

    def event(self, task_id: int, alone: bool) -> Event:
        """What it means for an execution that is not late."""
        if self.cause is None or not (alone or self.on_stage is None or task_id in self.on_stage):
            return GivenBack()
        return LeaseLost(self.cause, alone)


def bury(db: Db, catalog: Catalog, worker_id: int, death: Death, actor: str) -> list[Task]:
    """End what a worker held whose process is known to be dead; the tasks as they were.

    What is stuck is overdue if its deadline has passed. What may have killed the process is suspect, or counted if it
    was alone. Everything else is given back.
    """
    db.rows(BURY, worker_id=worker_id)
    left = [(task_id, str(exec_id), late) for task_id, exec_id, late in db.rows(LEFT_BEHIND, worker_id=worker_id)]
    by_event: dict[Event, list[Row]] = {}
    for task_id, exec_id, is_late in left:
        late = is_late and exec_id in death.stuck
        event = Overdue(OUTLIVED) if late else death.event(task_id, alone=len(left) == 1)
        by_event.setdefault(event, []).append((task_id, exec_id))
    ended: list[Task] = []
    for event, seen in by_event.items():
        take = _lose if isinstance(event, LeaseLost) else take_away
        ended += take(db, catalog, seen, event, actor)  # type: ignore[arg-type]
    return ended


LAST_END = Statement(
    """
    SELECT kind FROM headgate_task_event
     WHERE task_id = :task_id AND seq > 0 AND before = 'running' AND after <> 'running'
     ORDER BY seq DESC LIMIT 1
    """
)


def is_suspect(db: Db, task_id: int) -> bool:
    """Whether the process of the task's last execution died, and it may have done it."""
    return [kind for (kind,) in db.rows(LAST_END, task_id=task_id)] == ["lease_lost"]


STRAYS = Statement(
    """
    SELECT id, exec_id FROM headgate_task
     WHERE status IN ('scheduling', 'running') AND worker_id = :worker_id AND type {in types text}
    """
)
# Whoever claims for a worker shares its row until the commit: this waits for a claim that nobody heard of any more.
HOLD_WORKER = Statement(
    sqlite="SELECT id FROM headgate_worker WHERE id = :worker_id",
    postgres="SELECT id FROM headgate_worker WHERE id = :worker_id FOR NO KEY UPDATE",
)


def give_back_strays(
    db: Db, catalog: Catalog, worker_id: int, types: Collection[str], known: Collection[str]
) -> list[Task]:
    """Give back what a worker holds without knowing it: claims whose answer was lost on its way."""
    db.rows(HOLD_WORKER, worker_id=worker_id)
    held = db.rows(STRAYS, worker_id=worker_id, types=sorted(types))
    strays = sorted((task_id, exec_id) for task_id, exec_id in held if str(exec_id) not in known)
    return take_away(db, catalog, strays, GivenBack(), f"worker:{worker_id}")


def give_back(db: Db, catalog: Catalog, task_id: int, exec_id: str, actor: str) -> list[Task]:
    """Let go of a task without having failed it; it, as it was. What was asked of it meanwhile comes first."""
    given = take_away(db, catalog, [(task_id, exec_id)], GivenBack(), actor)
    if not given:
        raise StaleExecution(f"exec_id {exec_id} does not own task {task_id}")
    return given


STUCK = Statement(
    """
    SELECT id, exec_id FROM headgate_task WHERE status IN ('scheduling', 'running') AND status = 'scheduling'
       AND agent_id IS NULL AND scheduling_time < {now - :seconds}
     LIMIT :limit
    """
)


def return_unstarted(db: Db, catalog: Catalog, seconds: float, limit: int, actor: str) -> list[Task]:
    """Put back in line what was handed over more than `seconds` ago, to nobody by name, and never confirmed."""
    stuck = db.rows(STUCK, seconds=seconds, limit=limit)
    return take_away(db, catalog, stuck, GivenBack(), actor, status=State.SCHEDULING)
