"""A task in the caller's own transaction: the statements that make it, for any driver to run.

Nothing here commits, rolls back or locks a key: a task with a mutex is `pending` and due, and the duty that brings due
tasks into line places it once the caller has committed.
"""

from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import Invalid, Refused
from headgate.core.task import NewTask, TaskType, check_new_task
from headgate.core.type_defaults import with_type_defaults
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import STREAM, add_streams, digest_of, stream_key
from headgate.store.catalog.type_rows import put_type
from headgate.store.db.columns import SUBMITTED
from headgate.store.db.database import Database
from headgate.store.db.statement import Db, KnownRows, PendingRows, Row, Statement, in_schema, microseconds
from headgate.store.events.audit import PERSON, SYSTEM
from headgate.store.tasks.submit import Submitted, born
from headgate.store.tasks.unique import SAME_KEY, Step, Steps, ask_key, asks_first, plain_wish

TRIES = 3
SubmitSteps = Steps[Submitted]

# Which database this is: the file, or the very tables that unqualified names mean.
PLACE = Statement(
    sqlite="SELECT file FROM pragma_database_list WHERE name = 'main'",
    postgres=(
        "SELECT concat_ws(' ', current_database(), to_regclass('headgate_task')::oid,"
        " to_regclass('headgate_task_event')::oid)"
    ),
)
IS_TYPE = Statement("SELECT 1 FROM headgate_task_metadata WHERE code = :code")
_START = "coalesce(CAST(:start_time AS timestamptz), {now + coalesce(CAST(:delay_seconds AS double precision), 0)})"
_GIVEN = (*SUBMITTED, "root_id", "stream_id")
JOIN = Statement(
    f"""
    INSERT INTO headgate_task ({", ".join(_GIVEN)}, start_time, status, create_date, update_date)
    VALUES ({", ".join(f":{name}" for name in _GIVEN)}, {_START},
            {born(_START, "CAST(:mutex AS text)", behind_mutex="pending")}, {{now}}, {{now}})
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
    set_fields: Collection[str]
    stream_id: int | None
    schema: str = ""

    def steps(self) -> SubmitSteps:
        """Make the task, its audit row, and on SQLite what its type and stream lack; run all in one transaction."""
        steps = self._steps()
        try:
            statement, parameters = next(steps)
            while True:
                step = in_schema(statement, self.schema), parameters | {"now": self.now}
                statement, parameters = steps.send((yield step))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _steps(self) -> SubmitSteps:
        yield from self._look_where_we_are()
        if not self.type_known:
            yield from self._add_type()
        stream_id = self.stream_id
        if stream_id is None:
            stream_id = yield from self._find_stream()
        if not asks_first(self.new):
            return (yield from self._make(self.new, stream_id))
        done = yield from ask_key(self.new, self._make(plain_wish(self.new), stream_id), self.actor)
        return Submitted(done, False) if isinstance(done, int) else done

    def _make(self, new: NewTask, stream_id: int) -> SubmitSteps:
        start_time: Any = new.start_time
        if start_time is not None and isinstance(self.now, int):  # as SQLite keeps a time
            start_time = microseconds(start_time)
        columns = new._asdict() | {"start_time": start_time, "root_id": None, "stream_id": stream_id}
        for _ in range(TRIES):
            made = yield JOIN, columns
            if made:
                [[task_id, status]] = made
                yield NOTE, {"id": task_id, "status": status, "tenant_id": new.tenant_id, "actor": self.actor}
                return Submitted(task_id, True)
            there = yield SAME_KEY, {name: columns[name] for name in ("tenant_id", "type", "unique_key")}
            if there:
                return Submitted(there[0][0], False)
        raise Refused.of("unique-key-busy", unique_key=new.unique_key)

    def _look_where_we_are(self) -> Generator[Step, list[Row], None]:
        [[place]] = yield PLACE, {}
        if place != self.place:
            found = "" if self.schema else ", and on PostgreSQL its search_path must find the same tables"
            raise Invalid("the connection must use the same database as the app's URL" + found)

    def _add_type(self) -> Generator[Step, list[Row], None]:
        if not (yield IS_TYPE, {"code": self.kind.code}):
            yield from self._run(
                lambda db: put_type(db, self.kind, before=None, edited=False, actor=SYSTEM, set_fields=self.set_fields)
            )

    def _find_stream(self) -> Generator[Step, list[Row], int]:
        key = stream_key(self.new)
        digest = digest_of(key)
        found = yield STREAM, {"digest": digest}
        if not found:
            yield from self._run(lambda db: add_streams(db, [key]))
            found = yield STREAM, {"digest": digest}
        return int(found[0][0])

    def _run(self, write: Callable[[Any], None]) -> Generator[Step, list[Row], None]:
        notes = _Notes()
        write(notes)
        for step in notes.steps:  # noqa: UP028 a list cannot be sent the rows
            yield step


class _Notes:
    """A `Db` that takes statements down instead of running them; each is taken to have done something."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def send(self, statement: Statement, **parameters: Any) -> PendingRows:
        self.steps.append((statement, parameters))
        return KnownRows([(True,)])

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        return self.send(statement, **parameters).rows()


def prepare(
    database: Database,
    catalog: Catalog,
    new: NewTask,
    kind: TaskType,
    set_fields: Collection[str] = (),
    *,
    actor: str = PERSON,
) -> Joining:
    """Ready a task for a transaction of the caller's; `Invalid` if it cannot be made there.

    `kind`, and the fields that its program `set_fields`, are for a store that does not know the type yet.

    On PostgreSQL a new stream is made at once, by our own connection: a transaction that makes one delays every other
    that does until its commit. On SQLite nothing is written, for the caller may have the write lock already.
    """
    check_new_task(new)
    if new.parent_id is not None:
        raise Invalid(
            "parent_id is not allowed in your own transaction: the parent would be locked, and could not end, "
            "until you commit"
        )
    new = with_type_defaults(new, catalog.recent().types.get(new.type, kind))
    if not database.one_writer:
        catalog.make_streams([new], most_names=catalog.most_names)
    return database.read(lambda db: _joining(db, catalog, new, kind, set_fields, actor))


def _joining(
    db: Db, catalog: Catalog, new: NewTask, kind: TaskType, set_fields: Collection[str], actor: str
) -> Joining:
    if db.one_writer:
        catalog.fresh(db)
    [[place]] = db.rows(PLACE)
    if not place:
        raise Invalid("a store in memory cannot join your transaction; in a test use sandbox(app, url=…)")
    known = catalog.types.get(new.type)
    stream_id = None if known is None else catalog.ids.get(stream_key(new))
    return Joining(new, known or kind, actor, place, db.now, known is not None, set_fields, stream_id, db.schema)
