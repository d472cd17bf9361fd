"""Log lines: one event, one line, for people or as JSON for programs. What looks like a secret is left out."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any

from headgate.events.telemetry import log_fields

FIELDS = "headgate_fields"  # of a record: what its line has besides
IDS = {"task_id": "task", "correlation_id": "correlation", "trace_id": "trace", "user": "user"}
# Control characters, line breaks of any kind, and what makes text run the other way.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_SECRETS = (
    (re.compile(r"(hg_\d+_)[0-9a-f]{8,}", re.IGNORECASE), r"\1…"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@", re.IGNORECASE), r"\1…@"),
    (re.compile(r"(\bauthorization['\"]?\s*[:=]\s*['\"]?[a-z0-9-]+\s+)[^'\"\r\n]+", re.IGNORECASE), r"\1…"),
)
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _OneLine(logging.Formatter):
    def message_and_stack(self, record: logging.LogRecord) -> tuple[str, str]:
        """The message, and the error's stack if there is one; a record that cannot be put into words says so."""
        try:
            message = record.getMessage()
        except Exception as error:
            message = f"{record.msg!r} (its arguments do not fit: {type(error).__name__})"
        stack = "\n".join(
            part
            for part in (
                self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else "",
                self.formatStack(record.stack_info) if record.stack_info else "",
            )
            if part
        )
        return redacted(message), redacted(stack)


class TextFormatter(_OneLine):
    """A time, a level, the message, and the ids that it does not name itself. A stack follows on the same line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        message, stack = self.message_and_stack(record)
        line = f"{at:%H:%M:%S} {record.levelname.lower():8}{message}{_ids(record, message)}"
        return _escaped(f"{line} | {stack}" if stack else line)


def _ids(record: logging.LogRecord, message: str) -> str:
    """The ids of a line's task or request, shortened; the trace is left out if it is the correlation id."""
    fields = log_fields() | getattr(record, FIELDS, {})
    if fields.get("trace_id") == fields.get("correlation_id"):
        fields.pop("trace_id", None)
    known = [f"{short}={fields[name]}" for name, short in IDS.items() if fields.get(name) is not None]
    missing = [each for each in known if f" {each} " not in f" {message} "]
    return redacted(f" [{' '.join(missing)}]") if missing else ""


class JsonFormatter(_OneLine):
    """A JSON object, with the ids of the request that is being answered or of the task that runs."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        message, stack = self.message_and_stack(record)
        fields: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": message,
            **_redacted_fields(log_fields() | getattr(record, FIELDS, {})),
        }
        if stack:
            fields["error"] = stack
        # What JSON itself lets through.
        return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(fields, ensure_ascii=False))


def set_up(as_json: bool, level: str = "info") -> None:
    """Write everything from `level` up to stderr, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def current_setup() -> tuple[bool, str] | None:
    """How this process writes its log, for one that it starts; None if `set_up` was not called here."""
    root = logging.getLogger()
    for handler in root.handlers:
        if isinstance(handler.formatter, _OneLine):
            return isinstance(handler.formatter, JsonFormatter), logging.getLevelName(root.level)
    return None


def redacted(text: str) -> str:
    """Text without API keys, passwords in addresses, and authorization headers."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _redacted_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: redacted(value) if isinstance(value, str) else value for name, value in fields.items()}


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda found: _SHORT_ESCAPES.get(found[0]) or _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
