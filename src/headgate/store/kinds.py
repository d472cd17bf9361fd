"""Task types as data: listed with who declared or edited them, edited in one transaction, an edit foreseen."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import headgate.store.catalog as catalogs
import headgate.store.ways as ways
from headgate.core.errors import NotFound
from headgate.core.kinds import Foreseen, Waiting, foresee
from headgate.core.states import FINAL, State
from headgate.core.task import TaskType, check_keys
from headgate.store.audit import PERSON
from headgate.store.ground import Ground
from headgate.store.sql import Db, Statement, moment
from headgate.store.tasks import NOW

LOOKED_AT = 100_000  # tasks: what a dry run reads at most
_NOT_ENDED = sorted(set(State) - FINAL)


@dataclass(frozen=True, slots=True)
class Kept:
    """A type as it is kept; `edited` says that a person's word holds, and no program's."""

    kind: TaskType
    edited: bool
    update_date: datetime


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What an edit would mean for the tasks there were at `as_of`; `exact`, unless there were too many to look at."""

    foreseen: Foreseen
    as_of: datetime
    exact: bool


class Kinds:
    """What holds for each type of task, as data."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def all(self) -> list[Kept]:
        """Every type, by its code."""
        return self._ground.read(lambda db: [_kept(*row) for row in db.rows(KEPT)])

    def get(self, code: str) -> Kept:
        """A type; `NotFound` if there is none."""
        return self._ground.read(lambda db: _found(db, code))

    def edit(self, code: str, change: Callable[[TaskType | None], TaskType], *, actor: str = PERSON) -> Kept:
        """Replace a type by what `change` makes of it as it stands (None: there is none), in one transaction.

        No program's registration overwrites it afterwards. Whatever `change` raises has changed nothing.
        """
        kept = self._ground.write(lambda db: edit(db, code, change, actor))
        self._ground.read(self._ground.fresh_catalog)
        return kept

    def rehearse(self, before: TaskType | None, after: TaskType) -> Rehearsal:
        """What it would mean for the tasks there are if `after` held in place of `before`."""
        check_keys(after)
        return self._ground.snapshot(lambda db: rehearse(db, before or TaskType(after.code), after))


KEPT = Statement("SELECT code, name, category, config, edited, update_date FROM headgate_task_metadata ORDER BY code")
ONE = Statement(
    "SELECT code, name, category, config, edited, update_date FROM headgate_task_metadata WHERE code = :code"
)


def _kept(code: str, name: str, category: str, config: str, edited: object, update_date: int | datetime) -> Kept:
    return Kept(catalogs.type_of(code, name, category, config), bool(edited), moment(update_date))


def _found(db: Db, code: str) -> Kept:
    rows = db.rows(ONE, code=code)
    if not rows:
        raise NotFound(f"no task type {code}")
    return _kept(*rows[0])


def edit(db: Db, code: str, change: Callable[[TaskType | None], TaskType], actor: str) -> Kept:
    before = catalogs.hold_type(db, code)
    kind = change(before)
    if before is not None:
        kind = replace(kind, declared_by=before.declared_by)
    catalogs.put_type(db, kind, before=before, edited=True, actor=actor)
    return _found(db, code)


_COLUMNS = "id, status, error_count, max_error_count, timeout_seconds, lane, category"
OF_TYPE = Statement("SELECT id FROM headgate_stream WHERE type = :type")
# Each along the index that has such tasks (`store/ways.py`).
QUEUED = Statement(
    f"SELECT {_COLUMNS} FROM headgate_task WHERE {ways.READY.only} AND stream_id {{in streams}} LIMIT :most"
)  # fmt: skip
STOPPED = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_task
     WHERE {ways.BY_STATUS[ways.LIVE].only} AND status {{in states text}} AND stream_id {{in streams}} LIMIT :most
    """
)
HELD = Statement(f"SELECT {_COLUMNS} FROM headgate_task WHERE {ways.RUNNING.only} AND type = :type LIMIT :most")


def rehearse(db: Db, before: TaskType, after: TaskType) -> Rehearsal:
    """What the edit would mean for the tasks there are, or for as many of them as may be looked at."""
    streams = [stream_id for (stream_id,) in db.rows(OF_TYPE, type=after.code)]
    most = LOOKED_AT + 1
    found = db.rows(HELD, type=after.code, most=most)
    found += db.rows(QUEUED, streams=streams, most=most - len(found))
    found += db.rows(STOPPED, streams=streams, states=_NOT_ENDED, most=most - len(found))
    tasks = [Waiting(row[0], State(row[1]), *row[2:]) for row in found[:LOOKED_AT]]
    return Rehearsal(foresee(before, after, tasks), moment(db.rows(NOW)[0][0]), len(found) <= LOOKED_AT)
