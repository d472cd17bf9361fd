"""A throwaway PgBouncer in transaction mode before a PostgreSQL: installed, or Debian's package unpacked beside it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import psycopg

import lab.debian as debian
from lab.server import die_with_parent, free_port, tail, unprivileged

PATIENCE = 30.0


class PgBouncer:
    """A pooler with few connections to the server at `url`, so that its clients really share them.

    Its clients see the tables of `schema`: a pooler passes on no search_path.
    """

    def __init__(self, url: str, schema: str = "public", connections: int = 4) -> None:
        server = urlsplit(url)
        self._port = free_port()
        self.url = f"postgresql://{server.username}@127.0.0.1:{self._port}/pooled"
        self._settings = f"""
[databases]
pooled = host={server.hostname} port={server.port} dbname={server.path[1:]} connect_query='SET search_path TO {schema}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self._port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
"""
        self._user = server.username
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        user = unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="headgate-pgbouncer-"))
        settings, log = self._folder / "pgbouncer.ini", self._folder / "pgbouncer.log"
        # `auth_type = any` takes whoever comes for the one user that the server knows.
        settings.write_text(self._settings.replace("dbname=", f"user={self._user} dbname="))
        if user:
            os.chown(self._folder, user["user"], user["group"])
        program, environment = _program()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [program, settings],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                process_group=0,
                preexec_fn=die_with_parent(signal.SIGKILL),
                **user,
            )
        self._await_ready(self._process, log)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._folder is not None
        self._process.kill()
        self._process.wait(PATIENCE)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await_ready(self, process: subprocess.Popen[bytes], log: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError(f"PgBouncer did not start:\n{tail(log)}")


def _program() -> tuple[str, dict[str, str]]:
    if found := shutil.which("pgbouncer"):
        return found, dict(os.environ)
    root = debian.unpacked("pgbouncer", "pgbouncer")
    return str(root / "usr/sbin/pgbouncer"), os.environ | {"LD_LIBRARY_PATH": debian.libraries(root)}
