"""What an event says besides its kind: a stable code with its values, and its English text."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from headgate.core.end_reasons import EndReason
from headgate.core.events import AuditEvent, detail_of
from headgate.core.reasons import duration_text

# What users wrote, whole: it has no values of ours.
_OF_USERS = {"progress": "progress", "debounced": "replaced"}
# What stands elsewhere: where an actor acts from is for the audit.
_NOT_SAID = frozenset({"address"})

REASON_TEXTS: Mapping[EndReason, str] = {
    EndReason.ERROR: "it failed",
    EndReason.EXHAUSTED: "it failed, and no retries are left",
    EndReason.FATAL: "it failed with an error that is never retried",
    EndReason.UNKNOWN: "it failed with an error that its type does not retry",
    EndReason.ARGUMENTS: "its arguments do not match the handler",
    EndReason.OVERDUE: "it ran too long",
    EndReason.MEMORY: "it used too much memory",
    EndReason.LOST: "its executor was lost",
    EndReason.POISON: "its executor was lost too often",
    EndReason.CHILDREN: "none of its children succeeded",
    EndReason.CANCELLED: "it was cancelled",
    EndReason.DISCARDED: "it was discarded by a person",
}


def event_params(event: AuditEvent) -> dict[str, Any]:
    """The values of an event, as its detail has them."""
    if event.detail is not None and (name := _OF_USERS.get(event.kind)):
        return {name: detail_of(event.detail)}
    return detail_of(event.detail)


def event_code(event: AuditEvent) -> str:
    """Why it happened: the reason that its attempt has too, or the code of a refusal; else its kind."""
    params = event_params(event)
    reason = params.get("reason")
    if event.task_id is not None and reason in list(EndReason):
        return str(reason)
    return str(params.get("refusal", event.kind))


def event_text(event: AuditEvent) -> str | None:
    """What an event says in English, besides its kind and states; None if that is all."""
    params = event_params(event)
    texts = [text for name, text_of in _TEXTS.items() if name in params and (text := text_of(params[name]))]
    rest = [name for name in params if name not in _TEXTS and name not in _NOT_SAID]
    texts = [f"{name.replace('_', ' ')} {_plain(params[name])}" for name in rest] + texts
    return "; ".join(texts) or None


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _changes(changes: Any) -> str:
    """Each value as it was and as it is; a side that is not there was not set."""
    sides = changes.items() if isinstance(changes, dict) else ()
    return ", ".join(f"{name} {_side(side, 'old')} → {_side(side, 'new')}" for name, side in sides)


def _side(sides: Mapping[str, Any], name: str) -> str:
    return "(none)" if sides.get(name) is None else _plain(sides[name])


def _reason(reason: Any) -> str:
    return REASON_TEXTS[EndReason(reason)] if reason in list(EndReason) else _plain(reason)


def _children(states: Any) -> str:
    counts = states.items() if isinstance(states, dict) else ()
    return "children: " + ", ".join(f"{count} {state}" for state, count in counts) if counts else ""


def _progress(progress: Any) -> str:
    if not isinstance(progress, dict):
        return _plain(progress)
    values = progress.get("text", progress)
    if not isinstance(values, dict) or not {"done", "total"} <= values.keys():
        return _plain(values)
    failed = f", {values['failed']} failed" if values.get("failed") else ""
    return "{done} of {total}".format_map(values) + failed + (f": {values['note']}" if values.get("note") else "")


def _time(text: Any) -> str:
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError):
        return _plain(text)


_REFUSALS = {"stale-execution": "its exec_id does not own the task"}
_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "changes": _changes,
    "edit": _changes,
    "remark": _plain,
    "reason": _reason,
    "error": _plain,
    "delay": lambda seconds: f"runs again in {duration_text(float(seconds))}" if seconds else "runs again at once",
    "until": lambda until: f"until {_time(until)}",
    "children": _children,
    "progress": _progress,
    "replaced": lambda before: f"replaces {_plain(before)}",
    "refusal": lambda code: _REFUSALS.get(code, code),
    "text": _plain,
}
