"""Whether the kernel killed a process for want of memory, by the counter of its own cgroup."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headgate.worker.memory_kills as memory_kills
from headgate.worker.memory_kills import MemoryKills
from tests.cgroups import cgroup_of

PID = 4711
MEGABYTES = 64
PATIENCE = 60
DEVOUR = "import sys; sys.stdin.readline(); held = bytearray(1_000_000_000)"


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system's files, all of them still to be written."""
    monkeypatch.setattr(memory_kills, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory_kills, "CGROUPS", tmp_path / "cgroup")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def oom_control(kills: int) -> str:
    return f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"


def events(kills: int) -> str:
    return f"low 0\nhigh 0\nmax 9\noom 9\noom_kill {kills}\noom_group_kill 0\n"


VERSION_1 = "4:memory:/jobs/a\n1:cpu,cpuacct:/\n0::/\n"
VERSION_2 = "0::/jobs/a\n"


@pytest.mark.parametrize(
    ("cgroup", "counter", "text"),
    [
        (VERSION_1, "cgroup/memory/jobs/a/memory.oom_control", oom_control),
        (VERSION_1, "cgroup/memory/memory.oom_control", oom_control),
        (VERSION_2, "cgroup/jobs/a/memory.events", events),
        (VERSION_2, "cgroup/memory.events", events),
        (VERSION_2, "proc/vmstat", events),
        ("", "proc/vmstat", events),
    ],
)
def test_a_kill_is_counted_where_the_process_is(system, cgroup, counter, text):
    """Spec: A11"""
    write(system / f"proc/{PID}/cgroup", cgroup)
    write(system / counter, text(3))
    kills = MemoryKills(PID)
    assert not kills.happened()
    write(system / counter, text(4))
    assert kills.happened()


@pytest.mark.parametrize(
    ("cgroup", "counter", "text"),
    [
        (VERSION_1, "cgroup/memory/jobs/a/memory.oom_control", oom_control),
        (VERSION_2, "cgroup/jobs/a/memory.events", events),
    ],
)
def test_a_kill_elsewhere_on_the_machine_is_none_of_the_processs(system, cgroup, counter, text):
    """Spec: A11"""
    write(system / f"proc/{PID}/cgroup", cgroup)
    write(system / counter, text(0))
    write(system / "proc/vmstat", events(0))
    kills = MemoryKills(PID)
    write(system / "proc/vmstat", events(1))
    assert not kills.happened()


def test_where_nothing_is_counted_there_is_no_kill(system):
    """Spec: A11"""
    assert not MemoryKills(PID).happened()


def test_the_kernel_tells_of_a_process_that_it_kills_for_want_of_memory():
    """Spec: A11"""
    with cgroup_of(MEGABYTES) as members:
        with subprocess.Popen([sys.executable, "-c", DEVOUR], stdin=subprocess.PIPE) as process:
            members.write_text(str(process.pid))
            kills = MemoryKills(process.pid)
            assert not kills.happened()
            process.communicate(b"\n", PATIENCE)
        assert process.returncode == -signal.SIGKILL
        assert kills.happened()
