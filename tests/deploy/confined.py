"""The restrictions of a unit that need no systemd to be set.

They are its system calls, its address families, its memory mappings, its privileges, its umask and its open files.
"""

import ctypes
import errno
import os
import resource
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
EQUAL = 4
SET_NO_NEW_PRIVILEGES, DROP_FROM_BOUNDING_SET, SET_WRITE_XOR_EXECUTE = 38, 24, 65
MOST_CAPABILITIES = 64

Unit = dict[str, list[str]]


def read_unit(file: Path) -> Unit:
    """The settings of a unit, each with all its values."""
    found: Unit = {}
    for line in file.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def allowed_calls(unit: Unit) -> set[str]:
    """The system calls that are left; the sets are systemd's own."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    sets: dict[str, list[str]] = {}
    for line in listed.splitlines():
        if line.startswith("@"):
            members = sets.setdefault(line.strip(), [])
        elif line.strip() and not line.strip().startswith("#"):
            members.append(line.strip())

    def calls(word: str) -> Iterator[str]:
        if word in sets:
            for member in sets[word]:
                yield from calls(member)
        else:
            yield word

    allowed = set(calls("@default"))
    for value in unit["SystemCallFilter"]:
        named = {call for word in value.removeprefix("~").split() for call in calls(word)}
        allowed = allowed - named if value.startswith("~") else allowed | named
    return allowed


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`."""

    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


def filter_calls(calls: set[str], families: list[str]) -> None:
    """Let the kernel refuse every other system call, and every other family of sockets."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(REFUSE))
    number_of = seccomp.seccomp_syscall_resolve_name
    for number in {number_of(name.encode()) for name in calls - {"socket"}}:
        if number >= 0:  # known to this machine's architecture
            assert seccomp.seccomp_rule_add_array(context, ALLOW, number, 0, None) == 0
    for family in families:
        same = Comparison(0, EQUAL, getattr(socket, family), 0)
        assert seccomp.seccomp_rule_add_array(context, ALLOW, number_of(b"socket"), 1, ctypes.byref(same)) == 0
    assert seccomp.seccomp_load(context) == 0


def confinement(unit: Unit) -> Callable[[], None]:
    """What a process is to call before it becomes the unit's program."""
    calls, families = allowed_calls(unit), unit["RestrictAddressFamilies"][0].split()
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def confine() -> None:
        os.umask(int(unit["UMask"][0], 8))
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(unit["LimitNOFILE"][0]),) * 2)
        if unit["CapabilityBoundingSet"] == [""]:
            for capability in range(MOST_CAPABILITIES):
                prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
        if unit["NoNewPrivileges"] == ["true"]:
            assert prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
        if unit.get("MemoryDenyWriteExecute") == ["true"]:
            assert prctl(SET_WRITE_XOR_EXECUTE, 1, 0, 0, 0) == 0 or ctypes.get_errno() == errno.EINVAL  # before 6.3
        filter_calls(calls, families)

    return confine
