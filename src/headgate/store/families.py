"""Parents and children. No counter says how many are left: whoever ends a child asks, after its commit."""

from collections.abc import Iterable

from headgate.core.family import Children
from headgate.core.machine import CancelRequested, ChildrenEnded, decide
from headgate.core.states import FINAL, State
from headgate.core.task import Task
from headgate.store.catalog import Catalog
from headgate.store.line import lock, settle_lines
from headgate.store.rows import MUTEXES, hold
from headgate.store.sql import Db, Statement
from headgate.store.tasks import _OPEN
from headgate.store.transitions import Write, apply

# A child is found by the root of its family, which is the parent itself in all but nested ones.
OPEN_CHILD = Statement(
    f"""
    SELECT id FROM task WHERE root_id = :root_id AND root_id IS NOT NULL AND status IN {_OPEN} AND parent_id = :id
     LIMIT 1
    """
)
OPEN_CHILDREN = Statement(
    f"""
    SELECT id FROM task WHERE root_id = :root_id AND root_id IS NOT NULL AND status IN {_OPEN} AND parent_id = :id
       AND NOT cancel_requested
     LIMIT :limit
    """
)
CHILDREN = Statement(
    """
    SELECT sum(good), count(*) FROM (
        SELECT CASE WHEN status IN ('succeeded', 'resolved') THEN 1 ELSE 0 END AS good
          FROM task WHERE root_id = :root_id AND root_id IS NOT NULL AND parent_id = :id
        UNION ALL
        SELECT CASE WHEN status IN ('succeeded', 'resolved') THEN 1 ELSE 0 END AS good
          FROM task_his WHERE root_id = :root_id AND root_id IS NOT NULL AND parent_id = :id) children
    """
)
ROOT = Statement("SELECT coalesce(root_id, id) FROM task WHERE id = :id")
WAITING = Statement(
    """
    SELECT id FROM task WHERE has_children AND status = 'waiting' AND id > :after ORDER BY id LIMIT :limit
    """
)


def close_family(db: Db, catalog: Catalog, parent_id: int) -> Task | None:
    """End the parent if it waits and none of its children is open; it, as it was, or None.

    In a transaction of its own, after the children's commit: the parent's row is locked first and the children are
    looked at afterwards, so of two that end last at once, one sees that both have.
    """
    keys = [(tenant, mutex) for tenant, mutex in db.rows(MUTEXES, ids=[parent_id])]
    lock(db, keys)
    held = hold(db, [parent_id])
    parent = held[0] if held else None
    root_id = parent_id if parent is None else parent.root_id or parent.id
    if parent is None or parent.status is not State.WAITING or db.rows(OPEN_CHILD, id=parent_id, root_id=root_id):
        settle_lines(db, keys)  # while a family holds its mutex, members of it come forward
        return None
    [[good, count]] = db.rows(CHILDREN, id=parent_id, root_id=root_id)
    ended = ChildrenEnded(Children(int(good or 0), count - int(good or 0)))
    change = decide(parent, ended, catalog.type(parent.type))
    apply(db, [Write(parent.id, parent.status, change, parent.seq)], "system:families")
    settle_lines(db, keys)
    return parent


def cancel_children(db: Db, catalog: Catalog, parent_id: int, limit: int, actor: str) -> list[Task]:
    """Cancel a page of a parent's open children; they, as they were. A running one is asked to stop."""
    roots = db.rows(ROOT, id=parent_id)
    ids = [row[0] for row in db.rows(OPEN_CHILDREN, id=parent_id, root_id=roots[0][0], limit=limit)] if roots else []
    if not ids:
        return []
    keys = [(tenant, mutex) for tenant, mutex in db.rows(MUTEXES, ids=ids)]
    lock(db, keys)
    tasks = [task for task in hold(db, ids) if task.status not in FINAL and not task.cancel_requested]
    asked = CancelRequested("its parent was cancelled")
    writes = [
        Write(task.id, task.status, decide(task, asked, catalog.type(task.type)), task.seq, task.exec_id)
        for task in tasks
    ]
    apply(db, writes, actor)
    settle_lines(db, keys)
    return tasks


def waiting_parents(db: Db, after: int, limit: int) -> list[int]:
    return [row[0] for row in db.rows(WAITING, after=after, limit=limit)]


def parents_of(tasks: Iterable[Task]) -> set[int]:
    return {task.parent_id for task in tasks if task.parent_id is not None}
