"""A process that has Headgate loaded, and is forked for each task that runs in a process of its own:

    python -m headgate.worker.fork_server DESCRIPTOR WORKER IDLE_SECONDS

No code of the program runs here. What a module opens or starts when it is imported (a connection, a thread, a generator
of random numbers) belongs to one task, as if its process had been started anew; only Headgate, and the packs that come
with it, are shared.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import socket
import sys
from pathlib import Path

import msgspec

from headgate.worker import child
from headgate.worker.child import MARK

NO_MARK = "0" * 36  # as long as an exec_id
PACKAGE = "headgate"
OWN_MODULES = f"{PACKAGE}."
LONGEST_REQUEST = 64 * 1024
LONGEST_PID = 20


class ForkRequest(msgspec.Struct):
    """What to fork for; the socket to the new process comes with it."""

    exec_id: str
    module: str  # of the handler


def serve(control: socket.socket) -> tuple[socket.socket, ForkRequest]:
    """Fork for each request, and answer with the new process's id. Returns in a new process only."""
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 1)
        except TimeoutError:
            sys.exit(0)
        if not message:  # the worker wants no more
            sys.exit(0)
        request = msgspec.json.decode(message, type=ForkRequest)
        load(request.module)
        try:
            pid = fork_apart()
        except OSError as error:
            control.sendall(f"{error}\n".encode())
            sys.exit(1)
        if pid == 0:
            control.close()
            return socket.socket(fileno=descriptors[0]), request
        os.close(descriptors[0])
        control.sendall(f"{pid}\n".encode())


def load(module: str) -> None:
    """Load a module of Headgate's own ahead of the fork. One that cannot be loaded is the new process's trouble."""
    if module.startswith(OWN_MODULES) and module not in sys.modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
        gc.freeze()  # the collector would write to what all forks share


def fork_apart() -> int:
    """Fork a process whose parent is the worker, which adopts the children of processes that end. Returns 0 in it."""
    if len(list(Path("/proc/self/task").iterdir())) > 1:  # started by a `sitecustomize`, say
        raise OSError("a process with several threads is not forked: locks that another thread holds would stay locked")
    ours, theirs = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid != 0:
            os.write(theirs, str(pid).encode())
            os._exit(0)
    os.close(theirs)
    if between == 0:
        os.close(ours)
        return 0
    with open(ours, "rb") as pipe:
        digits = pipe.read(LONGEST_PID)
    os.waitpid(between, 0)  # from now on the worker is the parent of the new process
    if not digits:
        raise OSError("the system allows no more processes")
    return int(digits)


def become_process_of(exec_id: str) -> None:
    """Be recognizable as an execution's process, as one that was started with its mark is."""
    os.setsid()
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_void_p
    place = library.getenv(MARK.encode())
    if place and len(exec_id) == len(NO_MARK):
        ctypes.memmove(place, exec_id.encode(), len(exec_id))  # /proc/PID/environ shows this memory
    os.environ[MARK] = exec_id


def main(descriptor: int, worker: int, idle_seconds: float) -> None:
    child.die_with_worker(worker)
    child.be_killed_first()
    control = socket.socket(fileno=descriptor)
    control.settimeout(idle_seconds)
    offered = importlib.import_module(PACKAGE)
    for name in offered.__all__:  # each is loaded when it is asked for: here, once for all forks
        getattr(offered, name)
    gc.freeze()
    connection, request = serve(control)
    # The worker's order is there once it is the parent. If nothing comes it has ended, or has given this process up.
    if connection.recv(1, socket.MSG_PEEK):
        become_process_of(request.exec_id)
        child.main(connection, worker)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
