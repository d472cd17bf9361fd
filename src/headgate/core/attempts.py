"""Attempts of a task: one record each, built from the audit and the stored failures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headgate.core.end_reasons import EndReason
from headgate.core.events import AuditEvent
from headgate.core.states import HELD
from headgate.core.usage import Usage

MOST_ATTEMPTS = 50
AGENT = "agent:"  # begins the actor of what an agent reports


@dataclass(frozen=True, slots=True)
class Failure:
    """What is kept of an attempt that failed."""

    reason: EndReason
    error: str
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution. `outcome` is the kind of the event that ended it, or its state while it runs.

    `delay`: seconds after which the task was to run again; `log`: the first and last id of its log lines.
    """

    number: int
    exec_id: str
    executor: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    reason: EndReason | None = None
    error: str | None = None
    delay: float | None = None
    usage: Usage | None = None
    log: tuple[int, int] | None = None


def attempts_of(
    last: int,
    events: Sequence[AuditEvent],
    failures: Mapping[int, Failure],
    usages: Mapping[int, Usage],
    logs: Mapping[int, tuple[int, int]],
    executors: Mapping[str, str],
) -> list[Attempt]:
    """The attempts that the audit's `events` tell of, oldest first; the latest is number `last`.

    `executors` has the names that the audit's actors go by.
    """
    by_execution: dict[str, list[AuditEvent]] = {}
    for event in events:
        if event.exec_id is not None and (event.before in HELD or event.after in HELD):
            by_execution.setdefault(event.exec_id, []).append(event)
    begun = [rows for rows in by_execution.values() if rows[0].before not in HELD][-MOST_ATTEMPTS:]
    found = []
    for number, rows in enumerate(begun, last - len(begun) + 1):
        claimed, latest = rows[0], rows[-1]
        started = next((row for row in rows if row.kind == "started"), claimed)
        end = latest if latest.after not in HELD else None
        failure = failures.get(number)
        detail = {} if end is None else _detail(end)
        reason = detail.get("reason") if failure is None else failure.reason
        reporter = end.actor if end is not None and end.actor.startswith(AGENT) else started.actor
        if reporter.startswith(AGENT):
            reporter = reporter.rpartition(" key:")[0] or reporter  # which key it came with, the audit says
        found.append(
            Attempt(
                number,
                claimed.exec_id or "",
                executors.get(reporter, reporter),
                started.at,
                None if end is None else end.at,
                (latest.after or "") if end is None else end.kind,
                None if reason is None else EndReason(reason),
                None if failure is None else failure.error,
                detail.get("delay"),
                usages.get(number) if failure is None else failure.usage,
                logs.get(number),
            )
        )
    return found


def _detail(event: AuditEvent) -> dict[str, Any]:
    try:
        detail = json.loads(event.detail or "{}")
    except ValueError:  # of an earlier version's
        return {}
    return detail if isinstance(detail, dict) else {}
