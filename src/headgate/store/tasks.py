"""Tasks as people know them: submitted, looked up, and acted upon."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from headgate.core.errors import Invalid, KeyReused, NotFound, Refused, StaleExecution
from headgate.core.machine import Adopted, Event, decide
from headgate.core.states import FINAL, HELD, State
from headgate.core.task import Execution, NewTask, Task, check_name, completed
from headgate.store.catalog import Catalog, stream_key
from headgate.store.deferred import Deferred, settled
from headgate.store.line import first_blocked, lock, settle_lines
from headgate.store.room import give_up
from headgate.store.rows import MUTEXES, hold, read, read_many
from headgate.store.sql import Answer, Db, Known, Row, Statement, moment
from headgate.store.transitions import Write, apply
from headgate.store.uniques import Asked, asked, asks_first, lock_key, plain_wish, run


class Landed(NamedTuple):
    """How a new task stands, where its wish leaves that open; times as the database keeps them."""

    status: str
    start_time: Any
    create_date: Any
    lane: str
    category: str
    priority: int
    rate_key: str | None


class Submitted(NamedTuple):
    """What became of a wish: a new task, or (`created` False) the open one that has its unique key.

    `landed` is there where the commit alone says how the task stands: where no line of a mutex was settled.
    """

    id: int
    created: bool
    landed: Landed | None = None


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A caller's key for one call, and a digest of what it asked for."""

    key: str
    body_hash: str

    def __post_init__(self) -> None:
        check_name("idempotency key", self.key)
        check_name("body hash", self.body_hash)


_WISH = {
    "tenant_id": "bigint", "type": "text", "creator": "bigint", "start_time": "timestamptz", "delay": "float8",
    "category": "text", "ext": "text", "name": "text", "lane": "text", "priority": "bigint", "mutex": "text",
    "rate_key": "text", "agent_id": "text", "unique_key": "text", "parent_id": "bigint", "root_id": "bigint",
    "retry_of": "bigint", "correlation_id": "text", "max_error_count": "int", "timeout_seconds": "float8",
    "on_child_failure": "text", "stream_id": "bigint",
}  # fmt: skip
_INSERT_NAMES = tuple(_WISH)
_SQLITE_NAMES = (*_INSERT_NAMES, "status")
_ONE_WISH = "(SELECT " + ", ".join(f":{name}::{kind} AS {name}" for name, kind in _WISH.items()) + ") AS o"
_MANY_WISHES = "unnest(" + ", ".join(f":{n}::{k}[]" for n, k in _WISH.items()) + f") AS o({', '.join(_WISH)})"
_INSERTED = (
    "tenant_id, type, creator, start_time, status, category, ext, create_date, update_date, name, lane, priority, "
    "mutex, rate_key, agent_id, unique_key, parent_id, root_id, retry_of, correlation_id, max_error_count, "
    "timeout_seconds, on_child_failure, stream_id"
)
_OPEN = "('pending', 'blocked', 'queued', 'scheduling', 'running', 'waiting', 'paused', 'retrying', 'notifying')"
_CONFLICT = f"ON CONFLICT (tenant_id, type, unique_key) WHERE unique_key IS NOT NULL AND status IN {_OPEN} DO NOTHING"


def _insert(wishes: str, on_conflict: str = "") -> Statement:
    """A task with a mutex is put at the back of its line; the line is settled afterwards, under its stripe."""
    return Statement(
        sqlite=f"""
        INSERT INTO headgate_task ({_INSERTED})
        VALUES (:tenant_id, :type, :creator, :start_time, :status, :category, :ext, :now, :now, :name, :lane, :priority,
                :mutex, :rate_key, :agent_id, :unique_key, :parent_id, :root_id, :retry_of, :correlation_id,
                :max_error_count, :timeout_seconds, :on_child_failure, :stream_id)
        {on_conflict and f"{on_conflict} RETURNING id"}
        """,
        postgres=f"""
        WITH inserted AS (
            INSERT INTO headgate_task ({_INSERTED})
            SELECT tenant_id, type, creator, coalesce(start_time, {{now + coalesce(delay, 0)}}),
                   CASE WHEN coalesce(start_time, {{now + coalesce(delay, 0)}}) > {{now}} THEN 'pending'
                        WHEN mutex IS NULL THEN 'queued' ELSE 'blocked' END,
                   category, ext, {{now}}, {{now}}, name, lane, priority, mutex, rate_key, agent_id, unique_key,
                   parent_id, root_id, retry_of, correlation_id, max_error_count, timeout_seconds, on_child_failure,
                   stream_id
              FROM {wishes}
            {on_conflict}
            RETURNING id, status, tenant_id, unique_key, type, start_time, create_date
        ), noted AS (
            INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, after, actor)
            SELECT id, tenant_id, 1, {{now}}, 'submitted', status, :actor FROM inserted
        )
        SELECT id, status, tenant_id, unique_key, type, start_time, create_date FROM inserted
        """,
    )


INSERT_ONE = _insert(_ONE_WISH)  # half the time of a list of one
INSERT = _insert(_MANY_WISHES)
INSERT_UNLESS_THERE = _insert(_MANY_WISHES, _CONFLICT)
NOW = Statement("SELECT {now}")
SAME_KEY = Statement(
    f"""
    SELECT id, status FROM headgate_task
     WHERE tenant_id = :tenant_id AND type = :type AND unique_key = :unique_key AND unique_key IS NOT NULL
       AND status IN {_OPEN}
    """
)


def insert(
    db: Db, catalog: Catalog, wishes: Sequence[NewTask], actor: str
) -> list[Submitted] | Deferred[list[Submitted]]:
    """Make the tasks, each with its audit row; their streams must be in the catalog already.

    Either all of them are made, or (`Invalid`, `NotFound`, `Refused`) none is.
    """
    wishes = [completed(new, catalog.types[new.type]) for new in wishes]
    unique = any(new.unique_key is not None for new in wishes)
    if unique and any(asks_first(new) for new in wishes):
        return _insert_asking(db, catalog, wishes, actor)
    keys = {(new.tenant_id, new.mutex) for new in wishes if new.mutex is not None}
    lock(db, keys)
    roots = _adopt(db, catalog, wishes, actor)
    rows = [_columns(db, catalog, new, roots) for new in wishes]
    answer = _insert_rows(db, INSERT_UNLESS_THERE if unique else INSERT, rows, actor)
    db.note(lambda: [(row[0], row[2], 1, "submitted", None, row[1], None, None) for row in answer.rows()], actor)
    if not keys and not unique:
        return Deferred(lambda: _all_made(db, rows, answer))
    made = _made(db, wishes, [(row[-1], row[9]) for row in rows], answer)
    settle_lines(db, keys)
    return [done or _existing(db, catalog, new, actor) for done, new in zip(made, wishes, strict=True)]


def _insert_asking(db: Db, catalog: Catalog, wishes: Sequence[NewTask], actor: str) -> list[Submitted]:
    """`insert`, one by one, where some ask for the last task of their key: those are locked first, in order."""
    lock(db, {(new.tenant_id, new.mutex) for new in wishes if new.mutex is not None})
    for new in sorted(filter(asks_first, wishes), key=lambda new: (new.tenant_id, new.type, new.unique_key)):
        lock_key(db, new)

    def make(new: NewTask) -> Asked[Submitted]:
        return settled(insert(db, catalog, [new], actor))[0]
        yield  # a generator, though it gives out nothing

    made = []
    for new in wishes:
        done = run(db, asked(new, make(plain_wish(new)), actor)) if asks_first(new) else run(db, make(new))
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


def _insert_rows(db: Db, statement: Statement, rows: Sequence[Row], actor: str) -> Answer:
    """(id, status, tenant_id, unique_key, type, start_time, create_date) of the tasks made, in the order of `rows`."""
    if db.dialect == "postgres":
        if statement is INSERT and len(rows) == 1:
            return db.send(INSERT_ONE, **dict(zip(_INSERT_NAMES, rows[0], strict=True)), actor=actor)
        return db.each(statement, _INSERT_NAMES, rows, actor=actor)
    landed = [_landed(row, db.now) for row in rows]
    if statement is INSERT:  # one writer: ids follow each other
        last = db.many(statement, _SQLITE_NAMES, landed)
        ids = range(last - len(rows) + 1, last + 1)
        return Known([_answered(task_id, row, db.now) for task_id, row in zip(ids, landed, strict=True)])
    made = []
    for row in landed:
        made += [_answered(found[0], row, db.now) for found in db.each(statement, _SQLITE_NAMES, [row]).rows()]
    return Known(made)


def _answered(task_id: int, row: Row, now: int) -> Row:
    return task_id, row[-1], row[0], row[13], row[1], row[3], now


def _landed(row: Row, now: int) -> Row:
    """The row with its start_time reckoned, and the state that follows from it, behind."""
    start_time, delay, mutex = row[3], row[4], row[10]
    if start_time is None:
        start_time = now + round((delay or 0) * 1_000_000)
    status = State.PENDING if start_time > now else State.QUEUED if mutex is None else State.BLOCKED
    return (*row[:3], start_time, *row[4:], status.value)


def _all_made(db: Db, wishes: Sequence[Row], answer: Answer) -> list[Submitted]:
    """What became of wishes none of which had anything in its way: ids rise in their order."""
    made = []
    for (task_id, status, _, _, _, start_time, now), wish in zip(sorted(answer.rows()), wishes, strict=True):
        if status == "queued":
            db.news.wake(wish[-1], wish[9], task_id)
        landed = Landed(status, start_time, now, wish[8], wish[5], wish[9], wish[11])
        made.append(Submitted(task_id, True, landed))
    return made


def _made(
    db: Db, wishes: Sequence[NewTask], places: Sequence[tuple[int, int]], answer: Answer
) -> list[Submitted | None]:
    """Which wish became which task: ids rise in the order of the wishes; None where a unique key stood in the way.

    `places` are each one's stream and priority.
    """
    left = deque(sorted(answer.rows()))
    made: list[Submitted | None] = []
    for new, place in zip(wishes, places, strict=True):
        if left and left[0][2:5] == (new.tenant_id, new.unique_key, new.type):
            task_id, status, *_ = left.popleft()
            if status == "queued":
                db.news.wake(*place, task_id)
            made.append(Submitted(task_id, True))
        else:
            made.append(None)
    return made


def _columns(db: Db, catalog: Catalog, new: NewTask, roots: dict[int, int]) -> Row:
    kind = catalog.types[new.type]
    key = stream_key(new, kind)
    _, lane, _, category, _, _ = key
    return (
        new.tenant_id, new.type, new.creator,
        new.start_time and db.time(new.start_time), new.delay_seconds, category, new.ext, new.name, lane,
        kind.priority if new.priority is None else new.priority,
        new.mutex, new.rate_key, new.agent_id, new.unique_key, new.parent_id,
        None if new.parent_id is None else roots[new.parent_id], new.retry_of, new.correlation_id,
        new.max_error_count, new.timeout_seconds, new.on_child_failure, catalog.ids[key],
    )  # fmt: skip


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


# Idempotency

REMEMBER = Statement(
    """
    INSERT INTO headgate_idempotency (tenant_id, key, body_hash, task_ids, at)
    VALUES (:tenant_id, :key, :body_hash, :task_ids, {now})
    ON CONFLICT (tenant_id, key) DO NOTHING
    RETURNING key
    """
)
ANSWER = Statement("UPDATE headgate_idempotency SET task_ids = :task_ids WHERE tenant_id = :tenant_id AND key = :key")
REMEMBERED = Statement(
    "SELECT body_hash, task_ids FROM headgate_idempotency WHERE tenant_id = :tenant_id AND key = :key"
)


def insert_once(db: Db, catalog: Catalog, wishes: Sequence[NewTask], actor: str, once: Idempotency) -> list[Submitted]:
    """`insert`, unless this key was used before: then the answer it got; `KeyReused` if it asked for other things."""
    tenant_id = wishes[0].tenant_id
    if db.rows(REMEMBER, tenant_id=tenant_id, key=once.key, body_hash=once.body_hash, task_ids="[]"):
        made = settled(insert(db, catalog, wishes, actor))
        db.send(ANSWER, tenant_id=tenant_id, key=once.key, task_ids=json.dumps([task.id for task in made]))
        return made
    [[body_hash, task_ids]] = db.rows(REMEMBERED, tenant_id=tenant_id, key=once.key)
    if body_hash != once.body_hash:
        raise KeyReused(f"the idempotency key {once.key!r} was used for another request")
    return [Submitted(task_id, False) for task_id in json.loads(task_ids)]


# Acts


def act(
    db: Db,
    catalog: Catalog,
    task_id: int,
    event: Callable[[Task], Event],
    actor: str,
    tenant_id: int | None = None,
    detail: str | None = None,
) -> Task:
    """Let `event` happen to a task, as the state machine says; the task as it is afterwards."""
    keys = [(tenant, mutex) for tenant, mutex in db.rows(MUTEXES, ids=[task_id])]
    lock(db, keys)
    held = hold(db, [task_id])
    if not held or tenant_id not in (None, held[0].tenant_id):
        task = read(db, task_id, tenant_id)  # raises, or it has gone to history: final
        raise Refused(f"task {task.id} is {task.status}, which is final")
    task = held[0]
    change = decide(task, event(task), catalog.type(task.type))
    if task.status is State.DEAD and change.status not in FINAL and change.status is not State.DEAD:
        refuse_second(db, task, task.unique_key)
    apply(db, [Write(task.id, task.status, change, task.seq, task.exec_id, detail)], actor)
    if task.has_children and change.has_children is False:
        db.send(NEW_LIFE, id=task.id)
    if task.status in HELD and change.status not in HELD:
        give_up(db, catalog, [task])
    settle_lines(db, keys)
    return read(db, task_id)


# Whoever is a child of the task by now belongs to the life it has behind it.
NEW_LIFE = Statement(
    """
    UPDATE headgate_task SET children_since = coalesce(
           (SELECT max(id) FROM (
                SELECT c.id FROM headgate_task c WHERE c.parent_id = :id AND c.parent_id IS NOT NULL
                UNION ALL
                SELECT h.id FROM headgate_task_his h WHERE h.parent_id = :id AND h.parent_id IS NOT NULL) children),
           children_since)
     WHERE id = :id
    """
)


def refuse_second(db: Db, task: Task, unique_key: str | None) -> None:
    """A task that comes back from `dead` may find its unique key taken by a newer one."""
    if unique_key is None:
        return
    if found := db.rows(SAME_KEY, tenant_id=task.tenant_id, type=task.type, unique_key=unique_key):
        raise Refused(f"task {found[0][0]} has its unique key by now")


def is_due(db: Db, task: Task) -> bool:
    [[now]] = db.rows(NOW)
    return task.start_time <= moment(now)


def is_over(db: Db, start_time: datetime | None, delay: float | None) -> bool:
    """Whether a start that a person asks for is no longer ahead."""
    if start_time is None:
        return not delay
    [[now]] = db.rows(NOW)
    return start_time <= moment(now)


FIRST_IN_LANE = Statement(
    sqlite="""
    SELECT min(t.priority) FROM headgate_stream s CROSS JOIN headgate_task t ON t.id = (
           SELECT f.id FROM headgate_task f WHERE f.stream_id = s.id AND f.status = 'queued'
            ORDER BY f.priority, f.id LIMIT 1)
     WHERE s.lane = :lane
    """,
    postgres="""
    SELECT min(t.priority) FROM headgate_stream s CROSS JOIN LATERAL (
           SELECT f.priority FROM headgate_task f WHERE f.stream_id = s.id AND f.status = 'queued'
            ORDER BY f.priority, f.id LIMIT 1) t
     WHERE s.lane = :lane
    """,
)


def head_of_lane(db: Db, task: Task) -> int:
    """A priority that goes before everything that could be claimed in the task's lane, and before its own line."""
    first = [row[0] for row in db.rows(FIRST_IN_LANE, lane=task.lane) if row[0] is not None]
    if task.mutex is not None:
        first += first_blocked(db, (task.tenant_id, task.mutex))
    if not first:
        return task.priority
    if min(first) <= -(1 << 63):
        raise Invalid("no priority goes before the head of this lane")
    return int(min(task.priority, min(first) - 1))


def copy_of(task: Task) -> NewTask:
    """The wish that made `task`, once more."""
    return NewTask(
        task.type, task.ext, task.tenant_id, task.creator, task.name, task.lane, task.category, task.priority,
        task.mutex, task.rate_key, task.agent_id, task.unique_key, max_error_count=task.max_error_count,
        timeout_seconds=task.timeout_seconds, retry_of=task.id, correlation_id=task.correlation_id,
        on_child_failure=task.on_child_failure,
    )  # fmt: skip
