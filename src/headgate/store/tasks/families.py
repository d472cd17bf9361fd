"""Parents and children. No counter tells how many are left: the process that ends a child checks after its commit."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from headgate.core.end_reasons import head_of
from headgate.core.family import CANCEL, FAILED_FOR_GOOD, Census, why_cancelled
from headgate.core.machine import CancelRequested, ChildrenEnded
from headgate.core.states import FINAL, OPEN, State
from headgate.core.task import Task
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.database import Database
from headgate.store.db.pages import EXACT_UP_TO, MOST_PER_PAGE
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import SYSTEM
from headgate.store.execution.attempts import reason_of
from headgate.store.tasks.family_progress import FAMILIES, census, census_of, tell_last
from headgate.store.tasks.transitions import happen, locked

PAGE = 500


class Families:
    """Parents and their children, looked after once what changed them is committed. Each step is a transaction."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._database = database
        self._catalog = catalog
        self.on_end: Callable[[Task, State], None] = lambda parent, state: None  # called when a parent has ended

    def look_after(self, parent_ids: Iterable[int | None]) -> None:
        """Do what these families need now: cancel children that are no longer wanted, end parents with none left open.

        Call it after the commit that ended a child, or that left a parent waiting. If the last two children end at
        once, the later commit sees both; a family whose process died before it looked is found by `stalled`.
        """
        for parent_id in dict.fromkeys(parent_ids):
            if parent_id is not None:
                self._look_after(parent_id)

    def _look_after(self, parent_id: int) -> None:
        catalog = self._catalog.recent()
        reason, waits = self._database.read(lambda db: needs(db, catalog, parent_id))
        if reason is not None:
            self.cancel(parent_id, reason)
        elif waits:
            self.close(parent_id)

    def close(self, parent_id: int) -> bool:
        """End a waiting parent without open children, and look after its own parent; False if it still waits."""

        def close(db: Db) -> tuple[Task, State] | None:
            # The parent's row is locked before its children are read: it cannot get another child meanwhile.
            with locked(db, [parent_id]) as found:
                for parent in found:
                    if parent.status is State.WAITING and open_child(db, parent_id) is None:
                        counted = census(db, parent)
                        tell_last(db, parent, counted)
                        states = {state.value: count for state, count in sorted(counted.states.items())}
                        detail: dict[str, Any] = {"children": states}
                        reason = reason_of(db, parent.id, parent.attempt) if parent.gave_up else None
                        if parent.gave_up and parent.error_info:
                            detail["error"] = head_of(parent.error_info)
                        end = ChildrenEnded(counted.children, reason)
                        [write] = happen(db, self._catalog.fresh(db), [parent], end, FAMILIES, detail)
                        return parent, write.change.status
            return None

        ended = self._database.write(close)
        if ended is None:
            return False
        parent, state = ended
        self.on_end(parent, state)
        self.look_after([parent.parent_id])
        return True

    def cancel(self, parent_id: int, reason: str, *, actor: str = SYSTEM, limit: int = PAGE) -> None:
        """Cancel a parent's children, page by page and down to the last; then end the parent if it can."""

        def cancel(db: Db) -> list[Task]:
            with locked(db, _unasked(db, parent_id, limit)) as found:
                tasks = [task for task in found if task.status not in FINAL and not task.cancel_requested]
                happen(db, self._catalog.fresh(db), tasks, CancelRequested(reason), actor)
            return tasks

        while page := self._database.write(cancel):
            for child in page:
                if child.has_children:
                    self.cancel(child.id, reason, actor=actor, limit=limit)
        self.close(parent_id)

    def waiting(self, *, after: int = 0, limit: int = PAGE) -> list[int]:
        """Parents that wait, in pages."""
        return self._database.read(lambda db: [row[0] for row in db.rows(WAITING, after=after, limit=limit)])

    def stalled(self, *, after: int = 0, limit: int = PAGE) -> tuple[list[int], int | None]:
        """The waiting parents of a page that need `look_after`; where to continue, or None at the end."""
        types = self._catalog.recent().types
        cancelling = [code for code, kind in types.items() if kind.on_child_failure == CANCEL]
        parameters = {"after": after, "limit": limit, "cancelling": cancelling, **_STATES, **_BROKEN_STATES}
        page = self._database.read(lambda db: db.rows(STALLED, **parameters))
        return [row[0] for row in page if row[1]], page[-1][0] if len(page) == limit else None

    def awaited(self, ids: Collection[int]) -> list[int]:
        """The queued tasks that must start before `ids` can end: for a waiting parent, its children."""

        def look(db: Db) -> list[int]:
            found: list[int] = []
            rows = db.rows(STATES_OF, ids=list(ids))
            while rows:
                found += [task_id for task_id, status in rows if status == State.QUEUED]
                parents = [task_id for task_id, status in rows if status == State.WAITING]
                rows = db.rows(UNDONE, ids=parents, limit=PAGE) if parents and len(found) < PAGE else []
            return found

        return self._database.read(look)

    def census(self, parent: Task) -> Census:
        """How many children a task has in each state, those in history too: exact up to 10,000."""
        return self._database.read(lambda db: census(db, parent, EXACT_UP_TO))

    def census_of(self, tasks: Sequence[Task]) -> dict[int, Census]:
        """`census` of the parents in a list, by id, one query for each page of it; too large families are left out."""
        pages = [tasks[start : start + MOST_PER_PAGE] for start in range(0, len(tasks), MOST_PER_PAGE)]
        found: dict[int, Census] = {}
        for page in pages if any(task.has_children for task in tasks) else ():
            found |= self._database.read(lambda db, page=page: census_of(db, page))  # type: ignore[misc]
        return found


# What a family needs

# Each state by itself, the likeliest first and the newest child first: in a family that is being worked off one of the
# first probes finds a child, past few entries of ended children, even while a transaction holds an old snapshot.
_LIKELIEST = (
    State.RUNNING, State.QUEUED, State.BLOCKED, State.PENDING, State.RETRYING, State.SCHEDULING, State.WAITING,
    State.NOTIFYING, State.PAUSED,
)  # fmt: skip
_STATES = {state.value: state.value for state in _LIKELIEST}  # parameters: a word would call for another index


def _child(state: str) -> str:
    # BETWEEN, not =: were the state the same in all rows, PostgreSQL might walk the primary key to have them by id.
    return f"""(SELECT c.id FROM headgate_task c WHERE c.parent_id = p.id AND c.parent_id IS NOT NULL
                   AND c.status BETWEEN :{state} AND :{state} AND c.id > p.children_since
                 ORDER BY c.status DESC, c.id DESC LIMIT 1)"""


_OPEN_CHILD = f"coalesce({', '.join(_child(state) for state in _STATES)})"
_BROKEN_CHILD = f"coalesce({', '.join(_child(state.value) for state in sorted(FAILED_FOR_GOOD))})"
_BROKEN_STATES = {state.value: state.value for state in sorted(FAILED_FOR_GOOD)}

OPEN_CHILD = Statement(
    f"""
    SELECT p.type, p.status, p.cancel_requested, p.gave_up, p.on_child_failure, {_OPEN_CHILD}
      FROM headgate_task p WHERE p.id = :id
    """
)
BROKEN_CHILD = Statement(f"SELECT {_BROKEN_CHILD} FROM headgate_task p WHERE p.id = :id")


def needs(db: Db, catalog: Catalog, parent_id: int) -> tuple[str | None, bool]:
    """Why the parent's children must be cancelled, or None; and whether it waits for no child any more."""
    found = db.rows(OPEN_CHILD, id=parent_id, **_STATES)
    if not found:
        return None, False
    type_code, status, cancelled, gave_up, policy, open_child = found[0]
    if open_child is None:
        return None, status == State.WAITING
    if State(status) not in OPEN:
        return None, False
    broken = (policy or catalog.type(type_code).on_child_failure) == CANCEL and _is_broken(db, parent_id)
    reason = why_cancelled(cancelled=bool(cancelled), gave_up=bool(gave_up), broken=broken)
    return (reason if reason and _unasked(db, parent_id, 1) else None), False


def open_child(db: Db, parent_id: int) -> int | None:
    """A child that has not ended, if there is one."""
    found = db.rows(OPEN_CHILD, id=parent_id, **_STATES)
    return found[0][-1] if found else None


def _is_broken(db: Db, parent_id: int) -> bool:
    return db.rows(BROKEN_CHILD, id=parent_id, **_BROKEN_STATES)[0][0] is not None


STATES_OF = Statement("SELECT id, status FROM headgate_task WHERE id {in ids}")
UNDONE = Statement(
    """
    SELECT id, status FROM headgate_task
     WHERE parent_id {in ids} AND parent_id IS NOT NULL AND status IN ('queued', 'waiting') LIMIT :limit
    """
)
WAITING = Statement(
    """
    SELECT id FROM headgate_task WHERE has_children AND status = 'waiting' AND id > :after ORDER BY id LIMIT :limit
    """
)
# The parents of a page, and for each whether it may wait for something that will never happen.
STALLED = Statement(
    f"""
    SELECT p.id, p.cancel_requested OR p.gave_up OR {_OPEN_CHILD} IS NULL
              OR ((p.on_child_failure = '{CANCEL}' OR (p.on_child_failure IS NULL AND p.type {{in cancelling text}}))
                  AND {_BROKEN_CHILD} IS NOT NULL)
      FROM headgate_task p WHERE p.has_children AND p.status = 'waiting' AND p.id > :after ORDER BY p.id LIMIT :limit
    """
)


# How it is cancelled


def _unasked_in(state: str) -> str:
    return f"""
        SELECT id FROM (SELECT id FROM headgate_task WHERE parent_id = :id AND parent_id IS NOT NULL
                         AND status = :{state}
                           AND NOT cancel_requested LIMIT :limit) {state}"""


UNASKED = Statement(
    f"SELECT id FROM ({' UNION ALL '.join(_unasked_in(state) for state in _STATES)}) children LIMIT :limit"
)


def _unasked(db: Db, parent_id: int, limit: int) -> list[int]:
    """Open children that have not been asked to stop yet."""
    return [row[0] for row in db.rows(UNASKED, id=parent_id, limit=limit, **_STATES)]
