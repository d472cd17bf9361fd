"""Task types as data: declared by programs, edited by people, and what an edit would mean."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime

from headgate.core.errors import Invalid, NotFound
from headgate.core.states import FINAL, State
from headgate.core.task import TaskType, check_key_templates
from headgate.core.task_types import EditEffects, UnfinishedTask, effects_of_edit, inherited
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.type_rows import TYPE_COLUMNS, StoredType, hold_type, put_type, remove_type, stored_type
from headgate.store.db.database import Database, Noun, reads
from headgate.store.db.indexes import BY_STATUS, LIVE, READY, RUNNING
from headgate.store.db.statement import Db, Statement, clock
from headgate.store.events.audit import PERSON, SYSTEM

LOOKED_AT = 100_000  # tasks: what a dry run reads at most
_NOT_ENDED = sorted(set(State) - FINAL)


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
        return [stored_type(*row) for row in db.rows(ALL)]

    @reads
    def get(self, db: Db, code: str) -> StoredType:
        """A type; `NotFound` if there is none."""
        return _found(db, code)

    @reads
    def find(self, db: Db, code: str) -> StoredType | None:
        """A type; None if there is none."""
        return _find(db, code)

    @reads
    def by_code(self, db: Db) -> dict[str, TaskType]:
        """Every type, by its code, as it stands."""
        return dict(self._catalog.fresh(db).types)

    def recent(self, code: str) -> TaskType:
        """A type as this process knows it: as of its last claim, or a second ago."""
        return self._catalog.type(code)

    def put(self, kind: TaskType, *, edited: bool = False, actor: str = SYSTEM) -> None:
        """Add or replace a task type, whole. A program's declaration never overwrites what a person `edited`."""

        def put(db: Db) -> None:
            before = hold_type(db, kind.code)
            put_type(db, kind, before=before, edited=edited, actor=actor, base=before.base if before else None)

        self._database.write(put)
        self._catalog.reload()

    def declare(
        self, code: str, over: Callable[[TaskType | None], TaskType], set_fields: Collection[str] | None = None
    ) -> StoredType:
        """Store what a program declares, in one transaction: what `over` makes of the type's base (None: no pack has
        the type), and which fields the program `set_fields`. What a person edited stays. Returns what holds now."""

        def declare(db: Db) -> StoredType:
            before = hold_type(db, code)
            if before is None or not before.edited:
                base = None if before is None else before.base
                put_type(db, over(base), before=before, edited=False, actor=SYSTEM, base=base, set_fields=set_fields)
            return _found(db, code)

        stored = self._database.write(declare)
        self._catalog.reload()
        return stored

    def declare_base(self, base: TaskType) -> None:
        """Store what a pack declares of a type; a program may override it. What a person edited stays, and so
        does what another pack declared first."""
        self._database.write(lambda db: _put_base(db, base))
        self._catalog.reload()

    def remove(self, code: str, *, actor: str = PERSON) -> None:
        """Remove a type: no new tasks of it are accepted; those there are end by the defaults."""
        self._database.write(lambda db: remove_type(db, code, actor))
        self._catalog.reload()

    def edit(
        self,
        code: str,
        change: Callable[[TaskType | None], TaskType],
        *,
        actor: str = PERSON,
        expected_id: int | None = None,
    ) -> StoredType:
        """Replace a type by what `change` makes of it as it stands (None: there is none), in one transaction.

        No program's registration overwrites it afterwards. Whatever `change` raises has changed nothing. `Invalid` if
        the type has another id than is expected.
        """

        def edit(db: Db) -> StoredType:
            before = hold_type(db, code)
            check_type_id(code, before, expected_id)
            kind = change(None if before is None else before.kind)
            base = None
            if before is not None:
                kind, base = replace(kind, declared_by=before.kind.declared_by), before.base
            put_type(db, kind, before=before, edited=True, actor=actor, base=base)
            return _found(db, code)

        stored = self._database.write(edit)
        self._catalog.reload()
        return stored

    def preview(self, before: TaskType | None, after: TaskType) -> EditPreview:
        """What it would mean for the tasks there are if `after` held in place of `before`."""
        check_key_templates(after)
        return self._database.snapshot(lambda db: preview(db, before or TaskType(after.code), after))


def check_type_id(code: str, stored: StoredType | None, expected_id: int | None) -> None:
    """Raise `Invalid` if a type is expected to have another id than it has."""
    if expected_id is not None and (stored is None or stored.id != expected_id):
        found = f"there is no type {code} yet" if stored is None else f"type {code} has the id {stored.id}"
        raise Invalid(f"id: {found}, not {expected_id}; leave id out, or send it as it was read")


ALL = Statement(f"SELECT {TYPE_COLUMNS} FROM headgate_task_metadata ORDER BY code")
ONE = Statement(f"SELECT {TYPE_COLUMNS} FROM headgate_task_metadata WHERE code = :code")


def _find(db: Db, code: str) -> StoredType | None:
    rows = db.rows(ONE, code=code)
    return stored_type(*rows[0]) if rows else None


def _found(db: Db, code: str) -> StoredType:
    if (stored := _find(db, code)) is None:
        raise NotFound.of("no-type", type=code)
    return stored


def _put_base(db: Db, base: TaskType) -> None:
    before = hold_type(db, base.code)
    if before is None:
        put_type(db, base, before=None, edited=False, actor=SYSTEM, base=base, set_fields=())
        return
    if before.edited or (before.base is not None and before.base.declared_by != base.declared_by):
        return
    put_type(
        db, _over(base, before), before=before, edited=False, actor=SYSTEM, base=base, set_fields=before.set_fields
    )


def _over(base: TaskType, before: StoredType) -> TaskType:
    """What a program declared of a type, over another base."""
    if before.set_fields is None:
        return base if before.kind.declared_by == base.declared_by else before.kind
    was = {} if before.base is None else before.base.defaults
    own = {name: value for name, value in before.kind.defaults.items() if name not in was or was[name] != value}
    declared_by = "" if before.is_packs_own else before.kind.declared_by
    return inherited(base, replace(before.kind, defaults=own, declared_by=declared_by), before.set_fields)


_COLUMNS = "id, status, error_count, max_error_count, timeout_seconds, lane, category"
OF_TYPE = Statement("SELECT id FROM headgate_stream WHERE type = :type")
# Each uses the index of such tasks (`db/indexes.py`).
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
