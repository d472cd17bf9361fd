"""A task in the caller's own transaction: the statements that make it, for any driver to run.

Nothing here commits, rolls back or locks a key: a task with a mutex is `pending` and due, and the duty that brings due
tasks into line places it once the caller has committed.
"""

import hashlib
import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import headgate.store.catalog as catalogs
from headgate.core.errors import Invalid, Refused
from headgate.core.task import NewTask, TaskType, check, completed
from headgate.store.audit import PERSON, SYSTEM
from headgate.store.base import Store
from headgate.store.sql import Answer, Db, Known, Row, Statement, in_schema, microseconds
from headgate.store.tasks import SAME_KEY, Submitted
from headgate.store.uniques import Asked, Step, asked, asks_first, plain_wish

T = TypeVar("T")
TRIES = 3
Steps = Asked[Submitted]

# Which database this is: the file, or the very tables that unqualified names mean.
PLACE = Statement(
    sqlite="SELECT file FROM pragma_database_list WHERE name = 'main'",
    postgres=(
        "SELECT concat_ws(' ', current_database(), to_regclass('headgate_task')::oid,"
        " to_regclass('headgate_task_event')::oid)"
    ),
)
IS_TYPE = Statement("SELECT 1 FROM headgate_task_metadata WHERE code = :code")
STREAM = Statement("SELECT id FROM headgate_stream WHERE digest = :digest")
_START = "coalesce(CAST(:start_time AS timestamptz), {now + coalesce(CAST(:delay AS double precision), 0)})"
JOIN = Statement(
    f"""
    INSERT INTO headgate_task (tenant_id, type, creator, start_time, status, category, ext, create_date, update_date,
                               name, lane, priority, mutex, rate_key, agent_id, unique_key, correlation_id,
                               max_error_count, timeout_seconds, on_child_failure, stream_id)
    VALUES (:tenant_id, :type, :creator, {_START},
            CASE WHEN CAST(:mutex AS text) IS NOT NULL OR {_START} > {{now}} THEN 'pending' ELSE 'queued' END,
            :category, :ext, {{now}}, {{now}}, :name, :lane, :priority, :mutex, :rate_key, :agent_id, :unique_key,
            :correlation_id, :max_error_count, :timeout_seconds, :on_child_failure, :stream_id)
    ON CONFLICT DO NOTHING
    RETURNING id, status
    """
)
NOTE = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, after, actor)
    VALUES (:id, :tenant_id, 1, {now}, 'submitted', :status, :actor)
    """
)


@dataclass(frozen=True, slots=True)
class Joining:
    """A task to be made on a connection of the caller's, and what our own connection could find out beforehand."""

    new: NewTask
    kind: TaskType
    actor: str
    place: str
    now: Any
    type_known: bool
    stream_id: int | None
    schema: str = ""

    def steps(self) -> Steps:
        """Make the task, its audit row, and on SQLite what its type and stream lack; run all in one transaction."""
        steps = self._steps()
        if not self.schema:
            return (yield from steps)
        try:
            statement, parameters = next(steps)
            while True:
                statement, parameters = steps.send((yield in_schema(statement, self.schema), parameters))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _steps(self) -> Steps:
        yield from self._look_where_we_are()
        if not self.type_known:
            yield from self._add_type()
        stream_id = self.stream_id
        if stream_id is None:
            stream_id = yield from self._find_stream()
        if not asks_first(self.new):
            return (yield from self._make(self.new, stream_id))
        done = yield from self._now_known(asked(self.new, self._make(plain_wish(self.new), stream_id), self.actor))
        return Submitted(done, False) if isinstance(done, int) else done

    def _make(self, new: NewTask, stream_id: int) -> Steps:
        for _ in range(TRIES):
            made = yield JOIN, self._columns(new, stream_id)
            if made:
                yield NOTE, {"id": made[0][0], "status": made[0][1], **self._given("tenant_id"), **self._by()}
                return Submitted(made[0][0], True)
            there = yield SAME_KEY, self._given("tenant_id", "type", "unique_key")
            if there:
                return Submitted(there[0][0], False)
        raise Refused(f"the unique key {new.unique_key!r} changes hands too fast")

    def _now_known(self, steps: Asked[T]) -> Asked[T]:
        """The steps, with the time for databases that do not know it."""
        try:
            statement, parameters = next(steps)
            while True:
                statement, parameters = steps.send((yield statement, parameters | {"now": self.now}))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _look_where_we_are(self) -> Generator[Step, list[Row], None]:
        [[place]] = yield PLACE, {}
        if place != self.place:
            found = "" if self.schema else ", and on PostgreSQL its search_path must find the same tables"
            raise Invalid(
                "the connection does not lead to this app's tasks: it must be to the same database as the app's URL"
                + found
            )

    def _add_type(self) -> Generator[Step, list[Row], None]:
        if not (yield IS_TYPE, {"code": self.kind.code}):
            yield from self._run(lambda db: catalogs.put_type(db, self.kind, before=None, edited=False, actor=SYSTEM))

    def _find_stream(self) -> Generator[Step, list[Row], int]:
        key = catalogs.stream_key(self.new, self.kind)
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        found = yield STREAM, {"digest": digest}
        if not found:
            yield from self._run(lambda db: catalogs.add_streams(db, [key]))
            found = yield STREAM, {"digest": digest}
        return int(found[0][0])

    def _run(self, write: Callable[[Any], None]) -> Generator[Step, list[Row], None]:
        notes = _Notes()
        write(notes)
        for statement, parameters in notes.steps:
            yield statement, parameters | {"now": self.now}

    def _columns(self, new: NewTask, stream_id: int) -> dict[str, Any]:
        _, lane, _, category, _, _ = catalogs.stream_key(new, self.kind)
        start_time: Any = new.start_time
        if start_time is not None and isinstance(self.now, int):  # as SQLite keeps a time
            start_time = microseconds(start_time)
        return {
            **new._asdict(),
            "start_time": start_time, "delay": new.delay_seconds, "lane": lane, "category": category,
            "priority": self.kind.priority if new.priority is None else new.priority,
            "stream_id": stream_id, "now": self.now,
        }  # fmt: skip

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self.new, name) for name in names}

    def _by(self) -> dict[str, Any]:
        return {"actor": self.actor, "now": self.now}


class _Notes:
    """A `Db` that takes statements down instead of running them; each is taken to have done something."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def send(self, statement: Statement, **parameters: Any) -> Answer:
        self.steps.append((statement, parameters))
        return Known([(True,)])

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        return self.send(statement, **parameters).rows()


def prepare(store: Store, new: NewTask, kind: TaskType, *, actor: str = PERSON) -> Joining:
    """Ready a task for a transaction of the caller's; `Invalid` if it cannot be made there.

    On PostgreSQL a new stream is made at once, by our own connection: whoever makes one holds up every other maker
    until the commit. On SQLite nothing is written, for the caller may have the write lock already.
    """
    check(new)
    new = completed(new, store.recent_catalog().types.get(new.type, kind))
    if new.parent_id is not None:
        raise Invalid(
            "a task in your own transaction has no parent_id: its parent would be held, and could not end, "
            "until you commit"
        )
    if store.dialect == "postgres":
        store.make_streams([new])
    return store.read(lambda db: _joining(store, db, new, kind, actor))


def _joining(store: Store, db: Db, new: NewTask, kind: TaskType, actor: str) -> Joining:
    catalog = store.catalog if db.dialect == "postgres" else store.fresh_catalog(db)
    [[place]] = db.rows(PLACE)
    if not place:
        raise Invalid("a store in memory has no transactions but its own")
    known = catalog.types.get(new.type)
    stream_id = None if known is None else catalog.ids.get(catalogs.stream_key(new, known))
    return Joining(new, known or kind, actor, place, db.now, known is not None, stream_id, db.schema)
