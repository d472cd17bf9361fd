"""What handlers really did, kept outside the store: one line for each start, effect and end, in a file."""

import os
import time
from pathlib import Path
from typing import NamedTuple

VARIABLE = "HEADGATE_STORY_LEDGER"


class Entry(NamedTuple):
    """One line: at which time (of the system's steady clock) which execution did what, in which process."""

    at: int
    what: str
    task_id: int
    exec_id: str
    attempt: int
    pid: int


class Ledger:
    """A file that many processes write to, a line at a time and none into another's."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._read_to = 0
        self._entries: list[Entry] = []

    @classmethod
    def of_this_process(cls) -> "Ledger":
        return cls(os.environ[VARIABLE])

    def write(self, what: str, task_id: int, exec_id: str, attempt: int) -> None:
        line = f"{time.monotonic_ns()} {what} {task_id} {exec_id} {attempt} {os.getpid()}\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def entries(self, *whats: str) -> list[Entry]:
        """What has been written so far, of these kinds."""
        if self.path.exists():
            with self.path.open() as file:
                file.seek(self._read_to)
                for line in file.read().splitlines():
                    at, what, task_id, exec_id, attempt, pid = line.split()
                    self._entries.append(Entry(int(at), what, int(task_id), exec_id, int(attempt), int(pid)))
                self._read_to = file.tell()
        return [entry for entry in self._entries if not whats or entry.what in whats]

    def note_death(self, pid: int) -> None:
        """A process is dead: what its handlers had not ended died with it."""
        over = {entry.exec_id for entry in self.entries("end", "stopped", "error", "died")}
        for entry in self.entries("start"):
            if entry.pid == pid and entry.exec_id not in over:
                self.write("died", entry.task_id, entry.exec_id, entry.attempt)

    def finished(self) -> list[Entry]:
        """The ends of handlers that were not interrupted after all."""
        stopped = {entry.exec_id for entry in self.entries("stopped")}
        return [entry for entry in self.entries("end") if entry.exec_id not in stopped]
