"""Log lines on stderr: for people, or as JSON for programs."""

import json
import logging
import sys
from datetime import UTC, datetime


class _ForPeople(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = f"{at:%H:%M:%S} {record.levelname.lower():8}{record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _ForPrograms(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        told = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def set_up(as_json: bool) -> None:
    """Write everything from `info` up to stderr, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_ForPrograms() if as_json else _ForPeople())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
