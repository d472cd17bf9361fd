"""Starts that the broker delivered, many at once: each is checked against the store, which alone decides."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import headgate.store.execution.reports as reports
from headgate.core.states import State
from headgate.core.task import Execution, TaskType
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.version import AWAIT_EDITS
from headgate.store.claim.contract import LIVE_WORKER, execution_of, require_live
from headgate.store.db.deferred import Deferred
from headgate.store.db.statement import Db

Report = tuple[int, str]  # a task and the exec_id that reports on it
EXEC_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


_TIMEOUT = TaskType("any").timeout_seconds  # what most types have


@dataclass(frozen=True, slots=True)
class HandedStarts:
    """What became of tasks that the broker delivered to a worker.

    `stale`: not this exec_id's to start; it was started, ended or handed over again since. `held_back`: paused.
    `busy`: another transaction has it locked, so try again in a moment. `unclear`: `look_and_start` has to tell.
    """

    executions: list[Execution]
    stale: frozenset[Report] = frozenset()
    held_back: frozenset[Report] = frozenset()
    busy: frozenset[Report] = frozenset()
    unclear: frozenset[Report] = frozenset()


def start_in(
    db: Db, catalog: Catalog, worker_id: int, handed: Sequence[Report], actor: str
) -> HandedStarts | Deferred[HandedStarts]:
    """Start what was handed to a live worker, as part of a transaction; what is held back is left as it is.

    Where no pause is known, nothing is asked first, and all statements travel with the commit: they start nothing if
    the worker is lost, or if the catalog has been edited since this process read it.
    """
    version = catalog.version  # before what is said of this version
    if db.one_writer or catalog.pauses or not handed:
        return look_and_start(db, catalog, worker_id, handed, actor)
    wanted = {report for report in handed if EXEC_ID.fullmatch(report[1])}
    timeouts = {code: kind.timeout_seconds for code, kind in catalog.types.items() if kind.timeout_seconds != _TIMEOUT}
    db.send(AWAIT_EDITS)
    db.send(reports.HOLD_LIVE_WORKER, worker_id=worker_id)
    started = db.each(
        reports.START_KNOWN, ("id", "exec_id"), sorted(wanted), worker_id=worker_id, before="scheduling", actor=actor,
        version=version, types=list(timeouts), timeouts=list(timeouts.values()), timeout=_TIMEOUT,
    )  # fmt: skip

    def finish() -> HandedStarts:
        executions = [execution_of(row[:-1], catalog) for row in started.rows()]
        unclear = wanted - {(each.id, each.exec_id) for each in executions}
        return HandedStarts(executions, frozenset(handed) - wanted, unclear=frozenset(unclear))

    return Deferred(finish)


def look_and_start(db: Db, catalog: Catalog, worker_id: int, handed: Collection[Report], actor: str) -> HandedStarts:
    """`start_in`, one step after the other."""
    if not handed:
        return HandedStarts([])
    db.send(AWAIT_EDITS)
    require_live(db.rows(LIVE_WORKER, worker_id=worker_id), worker_id)
    wanted = {report for report in handed if EXEC_ID.fullmatch(report[1])}
    waiting, catalog = _waiting(db, wanted), catalog.fresh(db)
    # One whose stream was removed as it came in gets another at once, and is busy until then.
    owners = {report: found for report, found in waiting.items() if found[1] in catalog.streams}
    pauses = {stream_id: catalog.pause_of(db, catalog.streams[stream_id]) for _, stream_id in owners.values()}
    held_back = frozenset(report for report, (_, stream_id) in owners.items() if pauses[stream_id] is not None)
    rows = [
        (task_id, exec_id, catalog.type(type_code).timeout_seconds)
        for (task_id, exec_id), (type_code, _) in sorted(owners.items())
        if (task_id, exec_id) not in held_back
    ]
    started = db.each(
        reports.START_HANDED, ("id", "exec_id", "timeout"), rows, worker_id=worker_id, before="scheduling", actor=actor
    ).rows()
    executions = [execution_of(row[:-1], catalog) for row in started]
    db.note(
        lambda: [
            (each.id, each.tenant_id, row[-1], "started", "scheduling", State.RUNNING.value, each.exec_id, None)
            for each, row in zip(executions, started, strict=True)
        ],
        actor,
    )
    left = wanted - {(each.id, each.exec_id) for each in executions} - held_back
    busy = frozenset(_waiting(db, left)) if left else frozenset()
    return HandedStarts(executions, frozenset(handed) - (wanted - left) - busy, held_back, busy)


def _waiting(db: Db, wanted: set[Report]) -> dict[Report, tuple[str, int]]:
    """The type and stream of each wanted task that still waits for its start under this exec_id."""
    rows = db.rows(reports.HANDED, ids=sorted({task_id for task_id, _ in wanted}), before="scheduling")
    found = {(task_id, str(exec_id)): (type_code, stream_id) for task_id, exec_id, type_code, stream_id in rows}
    return {report: found[report] for report in wanted if report in found}
