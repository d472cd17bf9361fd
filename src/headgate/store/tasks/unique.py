"""Submits that are unique for a while, and debounced ones: what they read before they make a task.

The row of a key is locked first and read by that very statement, so of two at once the second sees what the first made.
Written as steps, since they may run in the caller's own transaction.
"""

from collections.abc import Generator
from typing import Any, Protocol, TypeVar

from headgate.core.task import NewTask, clip, longest_debounce_seconds
from headgate.store.db.statement import Db, Row, Statement


class HasId(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def created(self) -> bool: ...


T = TypeVar("T")
M = TypeVar("M", bound=HasId)
Step = tuple[Statement, dict[str, Any]]
Steps = Generator[Step, list[Row], T]  # gives out statements, and is sent the rows of each

# The states in which a task keeps its unique key: those of the index `headgate_task_unique`.
OPEN = "('pending', 'blocked', 'queued', 'scheduling', 'running', 'waiting', 'paused', 'retrying', 'notifying')"
ON_CONFLICT = f"ON CONFLICT (tenant_id, type, unique_key) WHERE unique_key IS NOT NULL AND status IN {OPEN} DO NOTHING"
SAME_KEY = Statement(
    f"""
    SELECT id, status FROM headgate_task
     WHERE tenant_id = :tenant_id AND type = :type AND unique_key = :unique_key AND unique_key IS NOT NULL
       AND status IN {OPEN}
    """
)
LOCK_KEY = Statement(
    """
    INSERT INTO headgate_submit_key (tenant_id, type, key, task_id, at, until)
    VALUES (:tenant_id, :type, :key, NULL, {now}, {now + :kept})
    ON CONFLICT (tenant_id, type, key) DO UPDATE SET until = excluded.until
    RETURNING task_id, at > {now - :seconds}
    """
)
SET_KEY = Statement(
    """
    UPDATE headgate_submit_key SET task_id = :task_id, at = {now}
     WHERE tenant_id = :tenant_id AND type = :type AND key = :key
    """
)
EXISTS = Statement(
    "SELECT 1 FROM headgate_task WHERE id = :id UNION ALL SELECT 1 FROM headgate_task_his WHERE id = :id"
)
# What `decide` says of `Debounced`: a task that waits for its time waits longer, never less than before and never
# beyond its maximum; a task that is due stays in line. A task that an executor already holds does not match.
PUSH = Statement(
    sqlite="""
    UPDATE headgate_task
       SET start_time = CASE WHEN status IN ('pending', 'paused')
                             THEN max(start_time, min({now + :seconds},
                                                      create_date + CAST(:longest * 1000000 AS integer)))
                             ELSE start_time END,
           ext = CASE WHEN :replace THEN :ext ELSE ext END, update_date = {now}, seq = seq + 1
     WHERE id = :id AND status IN ('pending', 'blocked', 'queued', 'paused', 'retrying')
    RETURNING status, seq
    """,
    postgres="""
    UPDATE headgate_task
       SET start_time = CASE WHEN status IN ('pending', 'paused')
                             THEN greatest(start_time, least({now + :seconds},
                                                             create_date + make_interval(secs => :longest::float8)))
                             ELSE start_time END,
           ext = CASE WHEN :replace::boolean THEN :ext ELSE ext END, update_date = {now}, seq = seq + 1
     WHERE id = :id AND status IN ('pending', 'blocked', 'queued', 'paused', 'retrying')
    RETURNING status, seq
    """,
)
ARGUMENTS = Statement("SELECT ext FROM headgate_task WHERE id = :id")
# The detail holds the previous arguments: the task itself has only the newest.
NOTE_PUSH = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor, detail)
    VALUES (:id, :tenant_id, :seq, {now}, 'debounced', :status, :status, :actor, :detail)
    """
)
OUTDATED_KEYS = Statement(
    """
    DELETE FROM headgate_submit_key
     WHERE until < {now - :seconds} AND (tenant_id, type, key) IN (
           SELECT k.tenant_id, k.type, k.key FROM headgate_submit_key k
            WHERE k.until < {now - :seconds}
              AND (SELECT t.finished_at IS NULL FROM headgate_task t WHERE t.id = k.task_id) IS NOT TRUE
            ORDER BY k.until LIMIT :limit)
    RETURNING 1
    """
)


def asks_first(new: NewTask) -> bool:
    """Whether a wish must first look up the last task of its key."""
    return new.unique_seconds is not None or new.debounce_seconds is not None


def plain_wish(new: NewTask) -> NewTask:
    """What is made after the lookup. A debounced task may run while the next one already waits."""
    if new.debounce_seconds is None:
        return new._replace(unique_seconds=None)
    return new._replace(
        unique_key=None, delay_seconds=new.debounce_seconds, debounce_seconds=None, debounce_longest_seconds=None
    )


def lock_key(db: Db, new: NewTask) -> None:
    """Lock a key until the commit, without waiting for the answer."""
    db.send(LOCK_KEY, **_locked(new))


def _locked(new: NewTask) -> dict[str, Any]:
    seconds = new.unique_seconds or 0.0
    return _key(new) | {"seconds": seconds, "kept": max(seconds, longest_debounce_seconds(new))}


def _key(new: NewTask) -> dict[str, Any]:
    return {"tenant_id": new.tenant_id, "type": new.type, "key": new.unique_key}


def ask_key(new: NewTask, make: Steps[M], actor: str) -> Steps[int | M]:
    """The id of the task that already exists for this wish, or what `make` made."""
    [[task_id, fresh]] = yield LOCK_KEY, _locked(new)
    if task_id is not None:
        if fresh and (yield EXISTS, {"id": task_id}):
            return int(task_id)
        if new.debounce_seconds is not None and (yield from _pushed(new, task_id, actor)):
            return int(task_id)
    made = yield from make
    if made.created:
        yield SET_KEY, _key(new) | {"task_id": made.id}
    return made


def _pushed(new: NewTask, task_id: int, actor: str) -> Steps[bool]:
    # While we hold the key, no other debounced submit replaces them.
    replaces = new.debounce_replace is not False
    replaced = (yield ARGUMENTS, {"id": task_id}) if replaces else []
    rows = yield (
        PUSH,
        {
            "id": task_id,
            "seconds": new.debounce_seconds,
            "longest": longest_debounce_seconds(new),
            "replace": replaces,
            "ext": new.ext,
        },
    )
    for status, seq in rows:
        event = {"id": task_id, "tenant_id": new.tenant_id, "seq": seq, "status": status, "actor": actor}
        yield NOTE_PUSH, event | {"detail": clip(replaced[0][0]) if replaced else None}
    return bool(rows)


def run(db: Db, steps: Steps[T]) -> T:
    """Run the steps in a transaction of ours."""
    try:
        statement, parameters = next(steps)
        while True:
            statement, parameters = steps.send(db.rows(statement, **parameters))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
