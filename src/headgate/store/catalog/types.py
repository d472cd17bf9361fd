"""Task types as data: declared by programs, edited by people, and what an edit would mean."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from headgate.core.errors import NotFound
from headgate.core.states import FINAL, State
from headgate.core.task import TaskType, check_key_templates
from headgate.core.task_types import EditEffects, UnfinishedTask, effects_of_edit
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.type_rows import hold_type, put_type, remove_type, type_of
from headgate.store.db.database import Database, Noun, reads
from headgate.store.db.indexes import BY_STATUS, LIVE, READY, RUNNING
from headgate.store.db.statement import Db, Statement, clock, moment
from headgate.store.events.audit import PERSON, SYSTEM

LOOKED_AT = 100_000  # tasks: what a dry run reads at most
_NOT_ENDED = sorted(set(State) - FINAL)


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type as it is stored; `edited` by a person: no program's declaration changes it."""

    kind: TaskType
    edited: bool
    update_date: datetime


@dataclass(frozen=True, slots=True)
class EditPreview:
    """What an edit would mean for the tasks there were at `as_of`; `exact`, unless there were too many to look at."""

    foreseen: EditEffects
    as_of: datetime
    exact: bool


class TaskTypes(Noun):
    """What holds for each type of task."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        super().__init__(database)
        self._catalog = catalog

    @reads
    def all(self, db: Db) -> list[StoredType]:
        """Every type, by its code."""
        return [_stored(*row) for row in db.rows(ALL)]

    @reads
    def get(self, db: Db, code: str) -> StoredType:
        """A type; `NotFound` if there is none."""
        return _found(db, code)

    @reads
    def by_code(self, db: Db) -> dict[str, TaskType]:
        """Every type, by its code, as it stands."""
        return dict(self._catalog.fresh(db).types)

    def recent(self, code: str) -> TaskType:
        """A type as this process knows it: as of its last claim, or a second ago."""
        return self._catalog.type(code)

    def put(self, kind: TaskType, *, edited: bool = False, actor: str = SYSTEM) -> None:
        """Add or replace a task type. A program's declaration never overwrites what a person `edited`."""
        self._database.write(lambda db: put_type(db, kind, before=hold_type(db, kind.code), edited=edited, actor=actor))
        self._catalog.reload()

    def remove(self, code: str, *, actor: str = PERSON) -> None:
        """Remove a type: no new tasks of it are accepted; those there are end by the defaults."""
        self._database.write(lambda db: remove_type(db, code, actor))
        self._catalog.reload()

    def edit(self, code: str, change: Callable[[TaskType | None], TaskType], *, actor: str = PERSON) -> StoredType:
        """Replace a type by what `change` makes of it as it stands (None: there is none), in one transaction.

        No program's registration overwrites it afterwards. Whatever `change` raises has changed nothing.
        """

        def edit(db: Db) -> StoredType:
            before = hold_type(db, code)
            kind = change(before)
            if before is not None:
                kind = replace(kind, declared_by=before.declared_by)
            put_type(db, kind, before=before, edited=True, actor=actor)
            return _found(db, code)

        stored = self._database.write(edit)
        self._catalog.reload()
        return stored

    def preview(self, before: TaskType | None, after: TaskType) -> EditPreview:
        """What it would mean for the tasks there are if `after` held in place of `before`."""
        check_key_templates(after)
        return self._database.snapshot(lambda db: preview(db, before or TaskType(after.code), after))


ALL = Statement("SELECT code, name, category, config, edited, update_date FROM headgate_task_metadata ORDER BY code")
ONE = Statement(
    "SELECT code, name, category, config, edited, update_date FROM headgate_task_metadata WHERE code = :code"
)


def _stored(
    code: str, name: str, category: str, config: str, edited: object, update_date: int | datetime
) -> StoredType:
    return StoredType(type_of(code, name, category, config), bool(edited), moment(update_date))


def _found(db: Db, code: str) -> StoredType:
    rows = db.rows(ONE, code=code)
    if not rows:
        raise NotFound.of("no-type", type=code)
    return _stored(*rows[0])


_COLUMNS = "id, status, error_count, max_error_count, timeout_seconds, lane, category"
OF_TYPE = Statement("SELECT id FROM headgate_stream WHERE type = :type")
# Each along the index that has such tasks (`db/indexes.py`).
QUEUED = Statement(
    f"SELECT {_COLUMNS} FROM headgate_task WHERE {READY.only} AND stream_id {{in streams}} LIMIT :most"
)  # fmt: skip
STOPPED = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_task
     WHERE {BY_STATUS[LIVE].only} AND status {{in states text}} AND stream_id {{in streams}}
     LIMIT :most
    """
)
HELD = Statement(f"SELECT {_COLUMNS} FROM headgate_task WHERE {RUNNING.only} AND type = :type LIMIT :most")


def preview(db: Db, before: TaskType, after: TaskType) -> EditPreview:
    """What the edit would mean for the tasks there are, or for as many of them as may be looked at."""
    streams = [stream_id for (stream_id,) in db.rows(OF_TYPE, type=after.code)]
    most = LOOKED_AT + 1
    found = db.rows(HELD, type=after.code, most=most)
    found += db.rows(QUEUED, streams=streams, most=most - len(found))
    found += db.rows(STOPPED, streams=streams, states=_NOT_ENDED, most=most - len(found))
    tasks = [UnfinishedTask(row[0], State(row[1]), *row[2:]) for row in found[:LOOKED_AT]]
    return EditPreview(effects_of_edit(before, after, tasks), clock(db), len(found) <= LOOKED_AT)
