"""How often the kernel has killed a process for want of memory (Linux), where a given process is."""

from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


class MemoryKills:
    """Counts the kills in a process's own cgroup, so that kills elsewhere on the machine do not count.

    Without a cgroup it counts the whole machine's; where the system counts nothing, there are none.
    """

    def __init__(self, pid: int) -> None:
        self._counter = next((file for file in _counters(pid) if _count(file) is not None), None)
        self._before = self._now()

    def happened(self) -> bool:
        """Whether there was one since this object was made."""
        return self._now() > self._before

    def _now(self) -> int:
        return 0 if self._counter is None else _count(self._counter) or 0


def _counters(pid: int) -> Iterator[Path]:
    """The files that may have the count, the most exact one first."""
    paths = _cgroups(pid)
    for controller, root, name in (
        ("memory", CGROUPS / "memory", "memory.oom_control"),  # version 1, also where both are mounted
        ("", CGROUPS, "memory.events"),
    ):
        if controller in paths:
            yield root / paths[controller].lstrip("/") / name
            yield root / name  # in a container the path may be the host's
    yield PROC / "vmstat"


def _cgroups(pid: int) -> dict[str, str]:
    """The path of the process's cgroup, by controller; by "" that of version 2."""
    try:
        lines = [line.split(":", 2) for line in (PROC / str(pid) / "cgroup").read_text().splitlines()]
    except OSError:
        return {}
    return {controller: path for _, controllers, path in lines for controller in controllers.split(",")}


def _count(file: Path) -> int | None:
    try:
        lines = dict(line.split() for line in file.read_text().splitlines())
        return int(lines["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None
