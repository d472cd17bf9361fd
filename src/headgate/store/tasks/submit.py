"""Making tasks: each with its audit row, in the state in which it is born."""

from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from headgate.core.errors import NotFound, Refused, StaleExecution
from headgate.core.machine import Adopted, birth, decide
from headgate.core.states import FINAL
from headgate.core.task import Execution, NewTask, with_type_defaults
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import stream_key
from headgate.store.db.columns import SUBMITTED, row_of, rows_of
from headgate.store.db.deferred import Deferred, settled
from headgate.store.db.statement import Db, KnownRows, PendingRows, Row, Statement
from headgate.store.tasks.idempotency import Idempotency, recall, remember
from headgate.store.tasks.mutex_queue import lock, settle_queues
from headgate.store.tasks.rows import hold, read_many
from headgate.store.tasks.transitions import Write, apply
from headgate.store.tasks.unique import ON_CONFLICT, SAME_KEY, Steps, ask_key, asks_first, lock_key, plain_wish, run


class Initial(NamedTuple):
    """How a task stands right after its INSERT; times as the database keeps them."""

    status: str
    start_time: Any
    create_date: Any
    task: NewTask  # resolved


class Submitted(NamedTuple):
    """What became of a new task: it was made, or (`created` False) there is an open one that has its unique key.

    `initial` is there where the INSERT alone says how the task stands: where no mutex queue was settled after it.
    """

    id: int
    created: bool
    initial: Initial | None = None


class _Made(NamedTuple):
    """What the INSERT answers of each task."""

    id: int
    status: str
    tenant_id: int
    unique_key: str | None
    type: str
    priority: int
    stream_id: int
    start_time: Any
    create_date: Any


_GIVEN = (*SUBMITTED, "root_id", "stream_id")
_INSERTED = (*_GIVEN, "start_time", "status")
_submitted = attrgetter(*SUBMITTED)
_ANSWER = ", ".join(_Made._fields)


def born(start: str, mutex: str, behind_mutex: str = "blocked") -> str:
    """`machine.birth`, in SQL. Behind a mutex a task is `blocked`, and its queue is settled under the stripe's
    lock; whoever cannot take that lock leaves it `pending` and due, for the duty that brings due tasks into line."""
    return (
        f"""CASE WHEN {start} > {{now}} THEN 'pending' WHEN {mutex} IS NULL THEN 'queued' ELSE '{behind_mutex}' END"""
    )


def _insert(wishes: str, on_conflict: str = "") -> Statement:
    columns = ", ".join((*_INSERTED, "create_date", "update_date"))
    start = "coalesce(start_time, {now + coalesce(delay_seconds, 0)})"
    return Statement(
        sqlite=f"""
        INSERT INTO headgate_task ({columns}) VALUES ({", ".join(f":{name}" for name in _INSERTED)}, :now, :now)
        {on_conflict and f"{on_conflict} RETURNING id"}
        """,
        postgres=f"""
        WITH inserted AS (
            INSERT INTO headgate_task ({columns})
            SELECT {", ".join(_GIVEN)}, {start}, {born(start, "mutex")}, {{now}}, {{now}}
              FROM {wishes}
            {on_conflict}
            RETURNING {_ANSWER}
        ), noted AS (
            INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, after, actor)
            SELECT id, tenant_id, 1, {{now}}, 'submitted', status, :actor FROM inserted
        )
        SELECT {_ANSWER} FROM inserted
        """,
    )


_WISH = (*_GIVEN, "start_time", "delay_seconds")
INSERT_ONE = _insert(row_of(_WISH, "wish"))
INSERT = _insert(rows_of(_WISH, "wish"))
INSERT_UNLESS_THERE = _insert(rows_of(_WISH, "wish"), ON_CONFLICT)


def insert(
    db: Db, catalog: Catalog, wishes: Sequence[NewTask], actor: str
) -> list[Submitted] | Deferred[list[Submitted]]:
    """Make the tasks, each with its audit row; their streams must be in the catalog already.

    Either all of them are made, or (`Invalid`, `NotFound`, `Refused`) none is.
    """
    wishes = [with_type_defaults(new, catalog.types[new.type]) for new in wishes]
    unique = any(new.unique_key is not None for new in wishes)
    if unique and any(asks_first(new) for new in wishes):
        return _insert_asking(db, catalog, wishes, actor)
    keys = {(new.tenant_id, new.mutex) for new in wishes if new.mutex is not None}
    lock(db, keys)
    roots = _adopt(db, catalog, wishes, actor)
    answer = _insert_rows(db, INSERT_UNLESS_THERE if unique else INSERT, catalog, wishes, roots, actor)
    db.note(lambda: [(row[0], row[2], 1, "submitted", None, row[1], None, None) for row in answer.rows()], actor)
    if not keys and not unique:
        return Deferred(lambda: _all_made(db, wishes, answer))
    made = _made(db, wishes, answer)
    settle_queues(db, keys)
    return [done or _existing(db, catalog, new, actor) for done, new in zip(made, wishes, strict=True)]


def _insert_asking(db: Db, catalog: Catalog, wishes: Sequence[NewTask], actor: str) -> list[Submitted]:
    """`insert`, one by one, where some ask for the last task of their key: those are locked first, in order."""
    lock(db, {(new.tenant_id, new.mutex) for new in wishes if new.mutex is not None})
    for new in sorted(filter(asks_first, wishes), key=lambda new: (new.tenant_id, new.type, new.unique_key)):
        lock_key(db, new)

    def make(new: NewTask) -> Steps[Submitted]:
        return settled(insert(db, catalog, [new], actor))[0]
        yield  # a generator, though it gives out nothing

    made = []
    for new in wishes:
        done = run(db, ask_key(new, make(plain_wish(new)), actor)) if asks_first(new) else run(db, make(new))
        made.append(Submitted(done, False) if isinstance(done, int) else done)
    return made


def insert_under(
    db: Db, catalog: Catalog, wishes: Sequence[NewTask], actor: str, execution: Execution
) -> list[Submitted]:
    """`insert`, for an execution that must still own its task: whoever was replaced makes no children."""
    keys = [(new.tenant_id, new.mutex) for new in wishes if new.mutex is not None]
    lock(db, keys)  # before the row, as everywhere
    held = hold(db, [execution.id])
    if not held or held[0].exec_id != execution.exec_id:
        raise StaleExecution(f"exec_id {execution.exec_id} does not own task {execution.id}")
    return settled(insert(db, catalog, wishes, actor))


def _insert_rows(
    db: Db, statement: Statement, catalog: Catalog, wishes: Sequence[NewTask], roots: dict[int, int], actor: str
) -> PendingRows:
    """The tasks made, as rows for `_Made`."""
    rows: list[Row] = [
        (*_submitted(new), None if new.parent_id is None else roots[new.parent_id], _stream_of(catalog, new))
        for new in wishes
    ]
    if not db.one_writer:
        rows = [(*row, new.start_time, new.delay_seconds) for row, new in zip(rows, wishes, strict=True)]
        if statement is INSERT and len(rows) == 1:
            return db.send(INSERT_ONE, **dict(zip(_WISH, rows[0], strict=True)), actor=actor)
        return db.each(statement, _WISH, rows, actor=actor)
    made = [_born(db, new, row[-1]) for new, row in zip(wishes, rows, strict=True)]
    rows = [(*row, task.start_time, task.status) for row, task in zip(rows, made, strict=True)]
    if statement is INSERT:  # one writer: ids follow each other
        last = db.many(statement, _INSERTED, rows)
        return KnownRows([_Made(task_id, *task[1:]) for task_id, task in enumerate(made, last - len(rows) + 1)])
    found: list[Row] = []
    for row, task in zip(rows, made, strict=True):
        found += [task._replace(id=task_id) for (task_id,) in db.each(statement, _INSERTED, [row]).rows()]
    return KnownRows(found)


def _stream_of(catalog: Catalog, new: NewTask) -> int:
    """The stream of a task; `Refused` if its type was edited since the stream was made."""
    stream_id = catalog.ids.get(stream_key(new))
    if stream_id is None:
        raise Refused(f"the task type {new.type} was edited just now: try again")
    return stream_id


def _born(db: Db, new: NewTask, stream_id: int) -> _Made:
    """The task as SQLite is about to make it, but for its id."""
    if new.start_time is None:
        start_time = db.now + round((new.delay_seconds or 0) * 1_000_000)
    else:
        start_time = db.time(new.start_time)
    status = birth(new.mutex, due=start_time <= db.now).value
    return _Made(
        0, status, new.tenant_id, new.unique_key, new.type, new.priority or 0, stream_id, start_time, db.now
    )  # fmt: skip


def _answered(db: Db, answer: PendingRows) -> list[_Made]:
    """The tasks made, in the order of their ids; whoever waits for such tasks is woken."""
    made = sorted(map(_Made._make, answer.rows()))
    for task in made:
        if task.status == "queued":
            db.news.wake(task.stream_id, task.priority, task.id)
    return made


def _all_made(db: Db, wishes: Sequence[NewTask], answer: PendingRows) -> list[Submitted]:
    """What became of tasks none of which had anything in its way: ids rise in their order."""
    return [
        Submitted(task.id, True, Initial(task.status, task.start_time, task.create_date, new))
        for task, new in zip(_answered(db, answer), wishes, strict=True)
    ]


def _made(db: Db, wishes: Sequence[NewTask], answer: PendingRows) -> list[Submitted | None]:
    """Which wish became which task: ids rise in the order of the wishes; None where a unique key stood in the way."""
    left = deque(_answered(db, answer))
    made: list[Submitted | None] = []
    for new in wishes:
        if left and (left[0].tenant_id, left[0].unique_key, left[0].type) == (new.tenant_id, new.unique_key, new.type):
            made.append(Submitted(left.popleft().id, True))
        else:
            made.append(None)
    return made


def _existing(db: Db, catalog: Catalog, new: NewTask, actor: str) -> Submitted:
    """The open task that has the wish's unique key; if it ended meanwhile, the wish is made after all."""
    found = db.rows(SAME_KEY, tenant_id=new.tenant_id, type=new.type, unique_key=new.unique_key)
    if found:
        return Submitted(found[0][0], False)
    return settled(insert(db, catalog, [new], actor))[0]


def _adopt(db: Db, catalog: Catalog, wishes: Sequence[NewTask], actor: str) -> dict[int, int]:
    """Lock the parents, so that none ends before its new child is seen; the root of each one's family."""
    wanted = {(new.parent_id, new.tenant_id) for new in wishes if new.parent_id is not None}
    if not wanted:
        return {}
    parents = {task.id: task for task in hold(db, [parent_id for parent_id, _ in wanted])}
    open_to = {(task.id, task.tenant_id) for task in parents.values() if task.status not in FINAL}
    if unfit := sorted(wanted - open_to):
        raise _why_unfit(db, unfit)
    changes = {task.id: decide(task, Adopted(), catalog.type(task.type)) for task in parents.values()}
    writes = [
        Write(task.id, task.status, changes[task.id], seq=task.seq, exec_id=task.exec_id)
        for task in parents.values()
        if not task.has_children
    ]
    apply(db, writes, actor)
    return {task.id: task.root_id or task.id for task in parents.values()}


def _why_unfit(db: Db, unfit: Sequence[tuple[int, int]]) -> NotFound | Refused:
    """Why these, each wanted by a tenant, take no children: there is no such task, or it has ended."""
    found = read_many(db, [parent_id for parent_id, _ in unfit])
    for parent_id, tenant_id in unfit:  # before anything is said about any of them
        if parent_id not in found or found[parent_id].tenant_id != tenant_id:
            return NotFound(f"no task {parent_id} to be a parent")
    return Refused(f"task {unfit[0][0]} has ended and takes no children")


def insert_once(db: Db, catalog: Catalog, wishes: Sequence[NewTask], actor: str, once: Idempotency) -> list[Submitted]:
    """`insert`, unless this key was used before: then the answer it got; `KeyReused` if it asked for other things."""
    tenant_id = wishes[0].tenant_id
    if (before := recall(db, tenant_id, once)) is not None:
        return [Submitted(task_id, False) for task_id in before]
    made = settled(insert(db, catalog, wishes, actor))
    remember(db, tenant_id, once, [task.id for task in made])
    return made
