"""How far families are: children counted by state, and the progress of waiting parents, written as events."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.core.family import Census, progress_of
from headgate.core.states import State
from headgate.core.task import Task
from headgate.store.db.database import Database
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.db.statement import Db, Row, Statement
from headgate.store.tasks.rows import hold

FAMILIES = "system:families"
EVENT_SECONDS = 1.0  # between two progress events of one parent
MOST_IN_A_LIST, LEAST_IN_A_LIST = 100_000, 1_000  # children counted for a page of parents; for one of them
EVERYBODY = (1 << 63) - 1

_CENSUS = """
SELECT p.id, (
       SELECT {object}(status, number) FROM (
           SELECT status, count(*) AS number FROM (
               SELECT status FROM (SELECT c.status FROM headgate_task c
                                    WHERE c.parent_id = p.id AND c.parent_id IS NOT NULL AND c.id > p.since
                                    LIMIT :most) live
               UNION ALL
               SELECT status FROM (SELECT c.status FROM headgate_task_his c
                                    WHERE c.parent_id = p.id AND c.parent_id IS NOT NULL AND c.id > p.since
                                    LIMIT :most) past) children
            GROUP BY status) counted)
  FROM {parents}
"""
CENSUS = Statement(
    sqlite=_CENSUS.replace("{object}", "json_group_object").replace(
        "{parents}", "(SELECT value ->> 0 AS id, value ->> 1 AS since FROM json_each(:pairs)) AS p"
    ),
    postgres=_CENSUS.replace("{object}", "json_object_agg").replace(
        "{parents}", "unnest(:ids::bigint[], :sinces::bigint[]) AS p(id, since)"
    ),
)
_TOLD = "e.task_id = p.id AND e.seq = 0 AND e.kind = 'progress' AND e.actor = :actor"
WAITING = Statement(
    f"""
    SELECT p.id, p.children_since, p.progress, (SELECT max(e.detail) FROM headgate_task_event e WHERE {_TOLD}),
           EXISTS (SELECT 1 FROM headgate_task_event e WHERE {_TOLD} AND e.at > {{now - :seconds}})
      FROM headgate_task p WHERE p.has_children AND p.status = 'waiting' AND p.id > :after ORDER BY p.id LIMIT :limit
    """
)
DROP = Statement(
    """
    DELETE FROM headgate_task_event
     WHERE task_id = :id AND seq = 0 AND kind = 'progress' AND actor = :actor AND at <= {now - :seconds}
    """
)
NOTE = Statement(
    f"""
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, detail)
    SELECT p.id, p.tenant_id, 0, {{now}}, 'progress', :actor, :progress FROM headgate_task p
     WHERE p.id = :id AND NOT EXISTS (SELECT 1 FROM headgate_task_event e WHERE {_TOLD})
    """
)


class Untold(NamedTuple):
    """A waiting parent whose progress has changed since its last progress event."""

    parent_id: int
    progress: str


class Waiting(NamedTuple):
    """A page of waiting parents: how many, those with news, and where the next page begins (None at the end)."""

    seen: int
    untold: list[Untold]
    next_after: int | None


class FamilyProgress:
    """The progress of waiting parents. Ending a child writes nothing of it: a duty counts, at most once a second."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self, *, after: int = 0, limit: int = 20) -> Waiting:
        """A page of waiting parents. A parent with a progress event less than a second old has no news, and one with
        more than 10,000 children gets an event only at its end."""

        def look(db: Db) -> Waiting:
            page = db.rows(WAITING, after=after, limit=limit, actor=FAMILIES, seconds=EVENT_SECONDS)
            due = [row for row in page if not row[-1]]
            counts = _count(db, [row[:2] for row in due], EXACT_UP_TO) if due else {}
            untold = []
            for parent_id, _, own, reported, _ in due:
                progress = _progress_text(own, counts[parent_id])
                if counts[parent_id].exact and counts[parent_id].children.ended and progress != reported:
                    untold.append(Untold(parent_id, progress))
            return Waiting(len(page), untold, page[-1][0] if len(page) == limit else None)

        return self._database.read(look)

    def tell(self, untold: Untold) -> None:
        """Write a parent's progress event, unless the last one is less than a second old or it no longer waits."""

        def tell(db: Db) -> None:
            # Its row is locked, so that the event does not come after the event of its end.
            if any(parent.status is State.WAITING for parent in hold(db, [untold.parent_id])):
                _note(db, untold.parent_id, untold.progress, EVENT_SECONDS)

        self._database.write(tell)


def tell_last(db: Db, parent: Task, counted: Census) -> None:
    """Write the last progress event of a parent, locked, whose children have all ended."""
    if counted.children.total:
        _note(db, parent.id, _progress_text(parent.progress, counted), 0.0)


def _note(db: Db, parent_id: int, progress: str, seconds: float) -> None:
    db.send(DROP, id=parent_id, actor=FAMILIES, seconds=seconds)
    db.send(NOTE, id=parent_id, actor=FAMILIES, progress=progress)


def _progress_text(own: str | None, counted: Census) -> str:
    return json.dumps(progress_of(None if own is None else json.loads(own), State.WAITING, counted.children))


def census(db: Db, parent: Task, most: int = EVERYBODY) -> Census:
    """How many children are in each state; no more than `most` are counted."""
    return _count(db, [(parent.id, parent.children_since)], most)[parent.id]


def census_of(db: Db, tasks: Sequence[Task]) -> dict[int, Census]:
    """`census` of the parents among some tasks, in one bounded query; too large families are left out."""
    parents = [(task.id, task.children_since) for task in tasks if task.has_children]
    if not parents:
        return {}
    most = min(EXACT_UP_TO, max(MOST_IN_A_LIST // len(parents), LEAST_IN_A_LIST))
    return {task_id: found for task_id, found in _count(db, parents, most).items() if found.exact}


def _count(db: Db, parents: Sequence[Row], most: int) -> dict[int, Census]:
    """Children by state of some parents (id, children_since)."""
    rows = db.rows(
        CENSUS,
        pairs=[list(parent) for parent in parents],
        ids=[parent[0] for parent in parents],
        sinces=[parent[1] for parent in parents],
        most=min(most + 1, EVERYBODY),
    )
    return {task_id: _census(_decoded(states), most) for task_id, states in rows}


def _decoded(states: str | Mapping[str, int] | None) -> Mapping[str, int]:
    return json.loads(states) if isinstance(states, str) else states or {}


def _census(states: Mapping[str, int], most: int) -> Census:
    return Census({State(state): count for state, count in states.items()}, sum(states.values()) <= most)
