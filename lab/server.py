"""What every throwaway server needs: a port of its own, somebody lesser to run as, and an end with its starter."""

import ctypes
import os
import pwd
import random
import signal
import socket
import sys
from pathlib import Path
from typing import Any


def unprivileged() -> dict[str, Any]:
    """What makes a subprocess run as `nobody`; nothing unless we are root, which a server should not be."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def free_port() -> int:
    """A port nobody listens on, below those the system hands to clients: it stays ours over a restart."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port")


def die_with_parent(ending: signal.Signals) -> Any:
    """What a child runs before it becomes the server, so that it is stopped however we end; Linux only."""
    if sys.platform != "linux":
        return None
    prctl, set_death_signal = ctypes.CDLL(None).prctl, 1
    return lambda: prctl(set_death_signal, ending)


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])
