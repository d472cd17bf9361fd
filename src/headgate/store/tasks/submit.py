"""Making tasks: each with its audit row, in the state in which it is born."""

from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from headgate.core.errors import NotFound, Refused, StaleExecution
from headgate.core.machine import Adopted, birth, decide
from headgate.core.states import FINAL
from headgate.core.task import Execution, NewTask
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.columns import SUBMITTED, row_of, rows_of
from headgate.store.db.deferred import Deferred, settled
from headgate.store.db.statement import Db, KnownRows, PendingRows, Row, Statement
from headgate.store.tasks.idempotency import Idempotency, recall, remember
from headgate.store.tasks.mutex_queue import lock, settle_queues
from headgate.store.tasks.rows import hold, read_many
from headgate.store.tasks.transitions import happen
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


Wish = tuple[NewTask, int]  # a new task that has what it leaves to its type, and the id of its stream
_GIVEN = (*SUBMITTED, "root_id", "stream_id")
_INSERTED = (*_GIVEN, "start_time", "status")
_submitted = attrgetter(*SUBMITTED)
_ANSWER = "id, status, start_time, create_date, tenant_id, type, unique_key"  # what the INSERT answers of each task


def born(start: str, mutex: str, behind_mutex: str = "blocked") -> str:
    """`machine.birth`, in SQL. Behind a mutex a task is `blocked`, and its queue is settled under the stripe's lock;
    without that lock it is left `pending` and due, for the duty that brings due tasks into line."""
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


def insert(db: Db, catalog: Catalog, wishes: Sequence[Wish], actor: str) -> list[Submitted] | Deferred[list[Submitted]]:
    """Make the tasks, each with its audit row. Either all are made, or (`Invalid`, `NotFound`, `Refused`) none is."""
    unique = any(new.unique_key is not None for new, _ in wishes)
    if unique and any(asks_first(new) for new, _ in wishes):
        return _insert_asking(db, catalog, wishes, actor)
    keys = _lock_mutexes(db, wishes)
    roots = _adopt(db, catalog, wishes, actor)
    answer = _insert_rows(db, INSERT_UNLESS_THERE if unique else INSERT, wishes, roots, actor)
    db.note(lambda: [(row[0], row[4], 1, "submitted", None, row[1], None, None) for row in answer.rows()], actor)
    if not keys and not unique:
        return Deferred(lambda: _all_made(db, wishes, answer))
    made = _made(db, wishes, answer)
    settle_queues(db, keys)
    return [done or _existing(db, catalog, wish, actor) for done, wish in zip(made, wishes, strict=True)]


def _lock_mutexes(db: Db, wishes: Sequence[Wish]) -> set[tuple[int, str]]:
    keys = {(new.tenant_id, new.mutex) for new, _ in wishes if new.mutex is not None}
    lock(db, keys)
    return keys


def _insert_asking(db: Db, catalog: Catalog, wishes: Sequence[Wish], actor: str) -> list[Submitted]:
    """`insert`, one by one, where some ask for the last task of their key: those are locked first, in order."""
    _lock_mutexes(db, wishes)
    asking = [new for new, _ in wishes if asks_first(new)]
    for new in sorted(asking, key=lambda new: (new.tenant_id, new.type, new.unique_key)):
        lock_key(db, new)

    def make(new: NewTask, stream_id: int) -> Steps[Submitted]:
        return settled(insert(db, catalog, [(new, stream_id)], actor))[0]
        yield  # a generator, though it gives out nothing

    made = []
    for new, stream_id in wishes:
        if asks_first(new):
            done = run(db, ask_key(new, make(plain_wish(new), stream_id), actor))
        else:
            done = run(db, make(new, stream_id))
        made.append(Submitted(done, False) if isinstance(done, int) else done)
    return made


def insert_under(db: Db, catalog: Catalog, wishes: Sequence[Wish], actor: str, execution: Execution) -> list[Submitted]:
    """`insert`, for an execution that must still own its task: a replaced execution makes no children."""
    _lock_mutexes(db, wishes)  # before the row, as everywhere
    held = hold(db, [execution.id])
    if not held or held[0].exec_id != execution.exec_id:
        raise StaleExecution.of("stale-execution", exec_id=execution.exec_id, task_id=execution.id, status=None)
    return settled(insert(db, catalog, wishes, actor))


def _insert_rows(
    db: Db, statement: Statement, wishes: Sequence[Wish], roots: dict[int | None, int], actor: str
) -> PendingRows:
    """The tasks made, as rows of `_ANSWER`."""
    if not db.one_writer:
        rows: list[Row] = [
            (*_submitted(new), roots.get(new.parent_id), stream_id, new.start_time, new.delay_seconds)
            for new, stream_id in wishes
        ]
        if statement is INSERT and len(rows) == 1:
            return db.send(INSERT_ONE, **dict(zip(_WISH, rows[0], strict=True)), actor=actor)
        return db.each(statement, _WISH, rows, actor=actor)
    births = [_birth(db, new) for new, _ in wishes]
    rows = [
        (*_submitted(new), roots.get(new.parent_id), stream_id, start_time, status)
        for (new, stream_id), (start_time, status) in zip(wishes, births, strict=True)
    ]
    if statement is INSERT:  # one writer: ids follow each other
        last = db.many(statement, _INSERTED, rows)
        ids = [[task_id] for task_id in range(last - len(rows) + 1, last + 1)]
    else:
        ids = [[task_id for (task_id,) in db.each(statement, _INSERTED, [row]).rows()] for row in rows]
    return KnownRows(
        [
            (task_id, status, start_time, db.now, new.tenant_id, new.type, new.unique_key)
            for made, (start_time, status), (new, _) in zip(ids, births, wishes, strict=True)
            for task_id in made
        ]
    )


def _birth(db: Db, new: NewTask) -> tuple[int, str]:
    """When SQLite's task starts, and in which state it is made."""
    if new.start_time is None:
        start_time = db.now + round((new.delay_seconds or 0) * 1_000_000)
    else:
        start_time = db.time(new.start_time)
    return start_time, birth(new.mutex, due=start_time <= db.now).value


def _all_made(db: Db, wishes: Sequence[Wish], answer: PendingRows) -> list[Submitted]:
    """What became of tasks none of which had anything in its way: ids rise in their order."""
    made = []
    for (task_id, status, start_time, create_date, *_), (new, stream_id) in zip(
        sorted(answer.rows()), wishes, strict=True
    ):
        if status == "queued":
            db.news.wake(stream_id, new.priority or 0, task_id)
        made.append(Submitted(task_id, True, Initial(status, start_time, create_date, new)))
    return made


def _made(db: Db, wishes: Sequence[Wish], answer: PendingRows) -> list[Submitted | None]:
    """Which wish became which task: ids rise in the order of the wishes; None where a unique key stood in the way."""
    left = deque(sorted(answer.rows()))
    made: list[Submitted | None] = []
    for new, stream_id in wishes:
        if left and left[0][4:] == (new.tenant_id, new.type, new.unique_key):
            task_id, status, *_ = left.popleft()
            if status == "queued":
                db.news.wake(stream_id, new.priority or 0, task_id)
            made.append(Submitted(task_id, True))
        else:
            made.append(None)
    return made


def _existing(db: Db, catalog: Catalog, wish: Wish, actor: str) -> Submitted:
    """The open task that has the wish's unique key; if it ended meanwhile, the wish is made after all."""
    new = wish[0]
    found = db.rows(SAME_KEY, tenant_id=new.tenant_id, type=new.type, unique_key=new.unique_key)
    if found:
        return Submitted(found[0][0], False)
    return settled(insert(db, catalog, [wish], actor))[0]


def _adopt(db: Db, catalog: Catalog, wishes: Sequence[Wish], actor: str) -> dict[int | None, int]:
    """Lock the parents, so that none ends before its new child is seen; the root of each one's family."""
    wanted = {(new.parent_id, new.tenant_id) for new, _ in wishes if new.parent_id is not None}
    if not wanted:
        return {}
    parents = {task.id: task for task in hold(db, [parent_id for parent_id, _ in wanted])}
    open_to = {(task.id, task.tenant_id) for task in parents.values() if task.status not in FINAL}
    if unfit := sorted(wanted - open_to):
        raise _why_unfit(db, unfit)
    for task in parents.values():
        decide(task, Adopted(), catalog.type(task.type))  # raises where it takes no more
    happen(db, catalog, [task for task in parents.values() if not task.has_children], Adopted(), actor)
    return {task.id: task.root_id or task.id for task in parents.values()}


def _why_unfit(db: Db, unfit: Sequence[tuple[int, int]]) -> NotFound | Refused:
    """Why these, each wanted by a tenant, take no children: there is no such task, or it has ended."""
    found = read_many(db, [parent_id for parent_id, _ in unfit])
    for parent_id, tenant_id in unfit:  # before anything is said about any of them
        if parent_id not in found or found[parent_id].tenant_id != tenant_id:
            return NotFound.of("no-parent", task_id=parent_id)
    return Refused.of("parent-ended", task_id=unfit[0][0])


def insert_once(db: Db, catalog: Catalog, wishes: Sequence[Wish], actor: str, once: Idempotency) -> list[Submitted]:
    """`insert`, unless this key was used before: then the answer it got; `KeyReused` if it asked for other things."""
    tenant_id = wishes[0][0].tenant_id
    if (before := recall(db, tenant_id, once)) is not None:
        return [Submitted(task_id, False) for task_id in before]
    made = settled(insert(db, catalog, wishes, actor))
    remember(db, tenant_id, once, [task.id for task in made])
    return made
