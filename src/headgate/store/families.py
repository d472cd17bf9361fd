"""Parents and children. No counter says how many are left: whoever ends a child asks, after its commit."""

from collections.abc import Iterable

from headgate.core.family import Children
from headgate.core.machine import CancelRequested, ChildrenEnded, decide
from headgate.core.states import FINAL, HELD, State
from headgate.core.task import Task
from headgate.store.catalog import Catalog
from headgate.store.line import lock, settle_lines
from headgate.store.room import give_up
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

# The parents of a page, and of each whether it waits for nothing that will come by itself.
STALLED = Statement(
    f"""
    SELECT p.id, p.cancel_requested OR (
           SELECT c.id FROM task c WHERE c.root_id = coalesce(p.root_id, p.id) AND c.root_id IS NOT NULL
              AND c.status IN {_OPEN} AND c.parent_id = p.id LIMIT 1) IS NULL
      FROM task p WHERE p.has_children AND p.status = 'waiting' AND p.id > :after ORDER BY p.id LIMIT :limit
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
    left = {write.id for write in writes if write.before in HELD and write.change.status not in HELD}
    give_up(db, catalog, [task for task in tasks if task.id in left])
    settle_lines(db, keys)
    return tasks


def waiting_parents(db: Db, after: int, limit: int) -> list[int]:
    return [row[0] for row in db.rows(WAITING, after=after, limit=limit)]


def stalled_parents(db: Db, after: int, limit: int) -> tuple[list[int], int | None]:
    """Of a page of waiting parents, those that somebody should look after; and where to go on, or None at the end."""
    page = db.rows(STALLED, after=after, limit=limit)
    return [row[0] for row in page if row[1]], page[-1][0] if len(page) == limit else None


def parents_of(tasks: Iterable[Task]) -> set[int]:
    return {task.parent_id for task in tasks if task.parent_id is not None}
