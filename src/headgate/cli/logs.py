"""Log lines on stderr: for people, or as JSON for programs."""

import logging
import os

import headgate.events.log_lines as log_lines

log = logging.getLogger("headgate")
LEVEL = "HEADGATE_LOG_LEVEL"
LEVELS = ("debug", "info", "warning", "error")


def set_up(as_json: bool) -> None:
    """Write log lines from `info` up (or the level of HEADGATE_LOG_LEVEL) to stderr."""
    level = os.environ.get(LEVEL, "").lower() or "info"
    log_lines.set_up(as_json, level if level in LEVELS else "info")
    if level not in LEVELS:
        log.warning("%s must be one of %s, not %r: using info", LEVEL, ", ".join(LEVELS), level)
