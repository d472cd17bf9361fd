"""SQLite's write-ahead log: it starts over when no reader needs it, and grows as long as one does."""

import os

LIMIT_BYTES = 64 * 1024 * 1024  # what is kept of it when it starts over
LONG_BYTES = 2 * LIMIT_BYTES  # it gets this long only while a transaction stays open for minutes
ADVICE = "end the program that has a transaction open: reads become slower, and the disk fills up"


def wal_bytes(file: str) -> int:
    """How long the log of a store's file is."""
    try:
        return os.stat(f"{file}-wal").st_size
    except FileNotFoundError:
        return 0
