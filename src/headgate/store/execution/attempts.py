"""Attempts of a task: the stored failures, and the list of all attempts that people see."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.attempts import MOST_ATTEMPTS, Attempt, Failure, attempts_of
from headgate.core.end_reasons import EndReason
from headgate.core.usage import Usage
from headgate.store.db.database import Noun, reads
from headgate.store.db.statement import Db, Row, Statement, insert_rows
from headgate.store.events.feed import AUDIT_COLUMNS, event_of
from headgate.store.execution.usage import OF_TASK as USAGE_OF_TASK
from headgate.store.tasks.rows import read

MOST_LOG_LINES = 20_000  # read to tell which are whose
_MOST_EVENTS = 4 * MOST_ATTEMPTS  # an attempt has three at most: handed over, started, ended

_KEPT = {
    "task_id": "bigint", "attempt": "int", "reason": "text", "error": "text",
    "cpu_seconds": "float8", "memory_bytes": "bigint", "read_bytes": "bigint", "written_bytes": "bigint",
}  # fmt: skip
KEEP = insert_rows("headgate_task_attempt", _KEPT, end="ON CONFLICT (task_id, attempt) DO NOTHING")
DROP = Statement("DELETE FROM headgate_task_attempt WHERE task_id = :task_id AND attempt <= :attempt")
# It names no execution, because that one has ended.
_TOLD = {
    "task_id": "bigint", "tenant_id": "bigint", "seq": "int", "kind": "text", "actor": "text", "detail": "text",
}  # fmt: skip
TELL = insert_rows("headgate_task_event", _TOLD, now=("at",))
REASON = Statement("SELECT reason FROM headgate_task_attempt WHERE task_id = :task_id AND attempt = :attempt")
FAILURES = Statement(f"SELECT {', '.join(list(_KEPT)[1:])} FROM headgate_task_attempt WHERE task_id = :task_id")
# The claim and the end of each attempt; most other rows name no execution, or do not change the state.
EXECUTED = Statement(
    f"""
    SELECT {AUDIT_COLUMNS}, NULL FROM headgate_task_event e
     WHERE e.task_id = :task_id AND e.seq > 0 AND e.exec_id IS NOT NULL AND e.before <> e.after
     ORDER BY e.seq DESC LIMIT :limit
    """
)
LOGGED = Statement(
    """
    SELECT attempt, min(id), max(id)
      FROM (SELECT id, attempt FROM headgate_task_log WHERE task_id = :task_id ORDER BY id DESC LIMIT :limit) newest
     GROUP BY attempt
    """
)
AGENTS = Statement("SELECT id, agent_id FROM headgate_worker WHERE id {in ids} AND agent_id IS NOT NULL")


class FailedAttempt(NamedTuple):
    """An attempt that failed, as it is kept. `again` is what an event says of the next try, if the event that ended it
    has another name than `retrying`."""

    task_id: int
    tenant_id: int
    attempt: int
    reason: EndReason
    error: str
    usage: Usage | None
    again: str | None


def keep_failed(db: Db, failed: Sequence[FailedAttempt], actor: str) -> None:
    """Keep what failed, the last 50 attempts of each task; tell of a retry whose event does not say so by its name."""
    db.many(KEEP, tuple(_KEPT), [_kept(each) for each in failed])
    for each in failed:
        if each.attempt > MOST_ATTEMPTS:
            db.send(DROP, task_id=each.task_id, attempt=each.attempt - MOST_ATTEMPTS)
    told = [(f.task_id, f.tenant_id, 0, "retrying", actor, f.again) for f in failed if f.again is not None]
    if told:
        db.many(TELL, tuple(_TOLD), told)


def _kept(failed: FailedAttempt) -> Row:
    used = failed.usage
    figures = (
        (None,) * 4 if used is None else (used.cpu_seconds, used.memory_bytes, used.read_bytes, used.written_bytes)
    )
    return (failed.task_id, failed.attempt, failed.reason.value, failed.error, *figures)


def reason_of(db: Db, task_id: int, attempt: int) -> EndReason | None:
    """Why an attempt failed, if it did."""
    return next((EndReason(reason) for (reason,) in db.rows(REASON, task_id=task_id, attempt=attempt)), None)


class Attempts(Noun):
    """Every attempt of a task, the last 50 of them."""

    @reads
    def of(self, db: Db, task_id: int, tenant_id: int | None = None) -> list[Attempt]:
        """A task's attempts, oldest first; `NotFound`, also for another tenant's."""
        task = read(db, task_id, tenant_id)
        if not task.attempt:
            return []
        events = [event_of(row) for row in reversed(db.rows(EXECUTED, task_id=task_id, limit=_MOST_EVENTS))]
        kept = db.rows(FAILURES, task_id=task_id)
        failures = {number: Failure(EndReason(reason), error, _usage(used)) for number, reason, error, *used in kept}
        usages = {number: Usage(*used) for number, *used in db.rows(USAGE_OF_TASK, task_id=task_id)}
        logged = db.rows(LOGGED, task_id=task_id, limit=MOST_LOG_LINES)
        logs = {number: (first, last) for number, first, last in logged}
        return attempts_of(task.attempt, events, failures, usages, logs, _agents(db, {event.actor for event in events}))


def _usage(figures: Sequence[float | None]) -> Usage | None:
    return None if figures[0] is None else Usage(*figures)  # type: ignore[arg-type]


def _agents(db: Db, actors: set[str]) -> dict[str, str]:
    """Of actors who are workers, those that are an agent's, and who that is."""
    ids = [int(actor.partition(":")[2]) for actor in actors if actor.startswith("worker:")]
    return {f"worker:{worker_id}": f"agent:{agent_id}" for worker_id, agent_id in db.rows(AGENTS, ids=ids)}
