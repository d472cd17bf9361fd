"""Dead letters: tasks that gave up and wait for a person, and what the person does about them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from headgate.core.edit import Changes, Edit, changes_as_json, changes_of
from headgate.core.error_groups import ErrorGroup, grouped
from headgate.core.errors import Invalid, Refused
from headgate.core.machine import ACTIONS, Discarded, Event, Resolved, RetryAsked
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, Task, check_name
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import StreamKey, add_streams, stream_key
from headgate.store.db.columns import listed
from headgate.store.db.database import Database
from headgate.store.db.deferred import settled
from headgate.store.db.pages import MOST_PER_PAGE, Page
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, record_task
from headgate.store.reading.lists import sought
from headgate.store.tasks.actions import act, copy_of, refuse_second
from headgate.store.tasks.families import Families
from headgate.store.tasks.mutex_queue import lock
from headgate.store.tasks.rows import hold, read, read_page
from headgate.store.tasks.submit import insert

MOST_READ = 2000  # rows read to check whether they match
MOST_GROUPED = 100_000


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead tasks; None is any. How long a task has been dead, in seconds, counts from its last change."""

    tenant_id: int | None = None
    type: str | None = None
    lane: str | None = None
    category: str | None = None
    creator: int | None = None
    older_than: float | None = None
    younger_than: float | None = None
    error: str | None = None  # part of error_info, whatever its case


@dataclass(frozen=True, slots=True)
class Groups:
    """What dead tasks died of, the most frequent first, and how many there are. `exact`: all of them were counted."""

    total: int
    exact: bool
    items: list[ErrorGroup]


class DeadLetters:
    """Dead tasks, and the actions on them. Tasks that are not dead are `Refused`; failed tasks can be replayed too."""

    def __init__(self, database: Database, catalog: Catalog, families: Families) -> None:
        self._database = database
        self._catalog = catalog
        self._families = families

    def find(self, wanted: DeadLetterFilter | None = None, *, cursor: int | None = None, limit: int = 50) -> Page[Task]:
        """A page of dead tasks, newest first; it reads a bounded number of rows, whatever is asked for."""
        return self._database.read(lambda db: find(db, wanted or DeadLetterFilter(), cursor, limit))

    def groups(self, wanted: DeadLetterFilter | None = None) -> Groups:
        """What dead tasks died of, and how many of each."""
        return self._database.read(lambda db: groups(db, wanted or DeadLetterFilter()))

    def preview(self, task_id: int, edit: Edit | None = None, tenant_id: int | None = None) -> Changes:
        """What `replay` would change of the task besides its state; it raises whatever `replay` would."""
        return self._database.read(
            lambda db: _ready(db, self._catalog.fresh(db), read(db, task_id, tenant_id), edit or Edit())
        )

    def replay(
        self, task_id: int, edit: Edit | None = None, *, actor: str = PERSON, tenant_id: int | None = None
    ) -> Task:
        """Run a dead task again, with the edit; for a failed one, a linked copy runs. The audit has the edit with the
        old values."""
        edit = edit or Edit()
        task, key = self._database.read(lambda db: self._planned(db, task_id, edit, tenant_id))
        if task.status in FINAL:
            return self._replay_copy(task, edit, actor)
        if key not in self._catalog.ids:  # in a transaction of its own: a stream is shared
            self._database.write(lambda db: add_streams(db, [key], self._catalog.most_names))
        return self._database.write(lambda db: replay(db, self._catalog.fresh(db), task, edit, actor))

    def _replay_copy(self, task: Task, edit: Edit, actor: str) -> Task:
        changes = self._database.read(lambda db: _ready(db, self._catalog.fresh(db), task, edit))
        edited = copy_of(task)._replace(**{name: new for name, (_, new) in changes.items()})
        [copy] = self._catalog.with_type_defaults([edited])
        [stream] = self._catalog.make_streams([copy], most_names=self._catalog.most_names)

        def replay(db: Db) -> Task:
            [made] = settled(insert(db, self._catalog, [(copy, stream)], actor))
            if not made.created:
                raise Refused.of("unique-key-held", task_id=made.id)
            if changes:
                detail = json.dumps({"edit": changes_as_json(changes)}, ensure_ascii=False)
                record_task(db, made.id, copy.tenant_id, "edited", actor, detail)
            return read(db, made.id)

        return self._database.write(replay)

    def resolve(self, task_id: int, remark: str, *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """A person dealt with a dead task."""
        return self._end(task_id, Resolved(remark), actor, tenant_id)

    def discard(self, task_id: int, remark: str = "", *, actor: str = PERSON, tenant_id: int | None = None) -> Task:
        """A person gives a dead task up."""
        return self._end(task_id, Discarded(remark), actor, tenant_id)

    def _end(self, task_id: int, event: Resolved | Discarded, actor: str, tenant_id: int | None) -> Task:
        def happening(_: Db, task: Task) -> Event:
            check_dead(task, ACTIONS[type(event)][0])
            return event

        task = self._database.write(lambda db: act(db, self._catalog.fresh(db), task_id, happening, actor, tenant_id))
        self._families.look_after([task.parent_id])
        return task

    def _planned(self, db: Db, task_id: int, edit: Edit, tenant_id: int | None) -> tuple[Task, StreamKey]:
        catalog = self._catalog.fresh(db)
        task = read(db, task_id, tenant_id)
        return task, _stream(task, _ready(db, catalog, task, edit))


# Looking

_CONDITIONS = {
    "tenant_id": "tenant_id = :tenant_id",
    "type": "type = :type",
    "lane": "lane = :lane",
    "category": "category = :category",
    "creator": "creator = :creator",
    "older_than": "update_date <= {now - :older_than}",
    "younger_than": "update_date > {now - :younger_than}",
    "error": "lower(coalesce(error_info, ''){as_bytes}) LIKE :error ESCAPE '!'",
}
# The dead, by the index of stopped tasks. The order asked of PostgreSQL is one that only this index has. SQLite gets
# the index's name, and a hint that few tasks are dead: otherwise it might read both states, and sort all that it finds.
_SQLITE, _POSTGRES = (
    f"""
    SELECT {{what}} FROM headgate_task {index} WHERE status IN ('dead', 'notifying') AND {span} {{and_so}}
     ORDER BY status DESC, id DESC {{end}}
    """
    for index, span in (
        ("INDEXED BY headgate_task_stopped", "likelihood(status = 'dead', 0.0001) AND id < :cursor AND id > :floor"),
        ("", "(status, id) < ('dead', :cursor) AND (status, id) > ('dead', :floor)"),
    )
)


def _among_the_dead(what: str, end: str, conditions: Iterable[str] = (), around: str = "{}") -> Statement:
    and_so = "".join(f"AND {condition} " for condition in conditions)
    sqlite = _SQLITE.format(what=what, and_so=and_so, end=end)
    postgres = _POSTGRES.format(what=what, and_so=and_so, end=end)
    return Statement(
        sqlite=around.format(sqlite.replace("{as_bytes}", "").replace("{tail}", "substr(error_info, -400)")),
        postgres=around.format(
            postgres.replace("{as_bytes}", ' COLLATE "C"').replace("{tail}", "right(error_info, 400)")
        ),
    )


@cache
def _letters(names: tuple[str, ...]) -> Statement:
    return _among_the_dead("id", "LIMIT :limit", [_CONDITIONS[name] for name in names])


# The part of an error that identifies it: its beginning, or the end of a traceback. The database counts equal ones.
_ERROR = """
    CASE WHEN error_info LIKE 'Traceback (most recent call last)%' THEN substr(error_info, 1, 40) || {tail}
         ELSE substr(error_info, 1, 400) END AS error
"""


@cache
def _groups(names: tuple[str, ...]) -> Statement:
    around = "SELECT type, error, count(*) FROM ({}) AS letter GROUP BY type, error"
    return _among_the_dead(f"type, {_ERROR}", "LIMIT :limit", [_CONDITIONS[name] for name in names], around)


# What a page does not look at any more.
FLOOR = _among_the_dead("id", "LIMIT 1 OFFSET :reach")


def find(db: Db, wanted: DeadLetterFilter, cursor: int | None, limit: int) -> Page[Task]:
    """A page of dead tasks, newest first; with a filter it reads at most MOST_READ rows."""
    if not 1 <= limit <= MOST_PER_PAGE:
        raise Invalid(f"a page holds 1 to {MOST_PER_PAGE} tasks")
    values = _values(wanted)
    last = (1 << 63) - 1 if cursor is None else cursor
    floor = _floor(db, last) if values else 0
    ids = [
        task_id for (task_id,) in db.rows(_letters(tuple(values)), cursor=last, floor=floor, limit=limit + 1, **values)
    ]
    items = read_page(db, ids[:limit])
    if len(items) < len(ids):
        return Page(items, items[-1].id)
    return Page(items, floor + 1 if floor else None)


def groups(db: Db, wanted: DeadLetterFilter) -> Groups:
    """What dead tasks died of, over all of them; of more than `MOST_GROUPED`, over the newest."""
    values = _values(wanted)
    last = (1 << 63) - 1
    rows = db.rows(_groups(tuple(values)), cursor=last, floor=0, limit=MOST_GROUPED, **values)
    total = sum(count for _, _, count in rows)
    return Groups(total, total < MOST_GROUPED, grouped((code, error, count) for code, error, count in rows))


def _values(wanted: DeadLetterFilter) -> dict[str, Any]:
    values = {each.name: value for each in fields(wanted) if (value := getattr(wanted, each.name)) is not None}
    for name, value in values.items():
        if isinstance(value, str):
            check_name(name, value, empty=True)
    if "error" in values:
        values["error"] = sought(values["error"])
    return values


def _floor(db: Db, cursor: int) -> int:
    found = db.rows(FLOOR, cursor=cursor, floor=0, reach=MOST_READ)
    return int(found[0][0]) if found else 0


# Back to work

_EDITED = ("ext", "priority", "lane", "mutex", "rate_key", "unique_key", "timeout_seconds", "max_error_count")
EDIT = Statement(
    f"""
    UPDATE headgate_task SET {listed((*_EDITED, "stream_id"), "{name} = :{name}")}
     WHERE id = :id
    """
)


def check_dead(task: Task, action: str, allowed: Sequence[State] = (State.DEAD,)) -> None:
    """Raise `Refused` unless the action is possible on the task, as a dead letter."""
    if task.status not in allowed:
        status, states = str(task.status), ",".join(allowed)
        raise Refused.of("wrong-state", task_id=task.id, status=status, action=action, allowed=states)


def _ready(db: Db, catalog: Catalog, task: Task, edit: Edit) -> Changes:
    """What the edit changes of a task that can be replayed; raises if it cannot."""
    check_dead(task, "replay", (State.DEAD, State.FAILED))
    changes = changes_of(task, edit, catalog.type(task.type))
    key = changes["unique_key"][1] if "unique_key" in changes else task.unique_key
    refuse_second(db, task, key)
    return changes


def _stream(task: Task, changes: Changes) -> StreamKey:
    values = {name: changes[name][1] if name in changes else getattr(task, name) for name in ("lane", "rate_key")}
    wish = NewTask(task.type, tenant_id=task.tenant_id, category=task.category, agent_id=task.agent_id, **values)
    return stream_key(wish)


def replay(db: Db, catalog: Catalog, seen: Task, edit: Edit, actor: str) -> Task:
    """Edit a dead task and send it on its way, in one transaction; `Refused` if it is not as it was `seen`."""
    changes = _ready(db, catalog, seen, edit)
    keys = {(seen.tenant_id, key) for key in changes.get("mutex", (seen.mutex,)) if key is not None}
    lock(db, keys)  # the old line and the new, before the row, as everywhere
    held = hold(db, [seen.id])
    if not held or held[0].seq != seen.seq:
        raise Refused.of("changed-meanwhile", task_id=seen.id)
    detail = None
    if changes:
        columns = {name: changes[name][1] if name in changes else getattr(seen, name) for name in _EDITED}
        db.send(EDIT, id=seen.id, stream_id=catalog.ids[_stream(seen, changes)], **columns)
        detail = {"edit": changes_as_json(changes)}
    return act(db, catalog, seen.id, lambda *_: RetryAsked(), actor, detail=detail)
