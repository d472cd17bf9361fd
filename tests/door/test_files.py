"""Another user of this machine can neither read a store nor keep it from being written, whatever the umask was."""

import os
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.packs.media.cookie_file import cookie_file
from lab.headgate_server import HEADGATE, headgate_server
from lab.server import unprivileged

OPEN_EACH = 'for file; do if ( : <"$file" ) 2>/dev/null; then echo "$file"; fi; done'

TASKS = """
import headgate

app = headgate.Headgate(packs=["media"])


@app.task(isolation="process")
def alone():
    return "done"
"""


def open_umask() -> None:
    os.umask(0)


@pytest.fixture(scope="module")
def folder():
    """Everybody may look into it."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(scope="module")
def server(folder):
    with headgate_server(folder, open_umask) as running:
        yield running


@contextmanager
def worker(folder):
    """One that serves TASKS, with a folder for temporary files beside its store."""
    (folder / "tasks.py").write_text(TASKS)
    (folder / "tasks.py").chmod(0o600)
    temporary = folder / "temporary"
    temporary.mkdir(mode=0o700)
    with subprocess.Popen(
        [HEADGATE, "work", "tasks", "--url", f"sqlite:///{folder}/headgate.db"], cwd=folder, preexec_fn=open_umask,
        env=os.environ | {"TMPDIR": str(temporary)}, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            next(line for line in process.stderr if "serves" in line)
            yield
        finally:
            process.terminate()
            process.stderr.read()


def test_another_user_opens_nothing_of_what_servers_and_workers_have_and_so_locks_nothing(client, folder):
    """Spec: X12"""
    with worker(folder):
        assert client.ask("POST", "/api/tasks?wait=60", {"type": "alone"}).json["result"] == "done"
        files = [file for file in folder.rglob("*") if "__pycache__" not in file.parts]
        names = {file.name for file in files}
        assert names >= {"headgate.db", "headgate.db-wal", "headgate.db-shm", "headgate.db.writer", "headgate.db.wake"}
        assert sum(file.is_socket() for file in files) >= 2
        assert [file for file in files if file.stat().st_mode & 0o077] == []
        if other_user := unprivileged():
            command = ["/bin/sh", "-c", OPEN_EACH, "sh", *map(str, files)]
            opened = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True, **other_user)
            assert opened.stdout == ""


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_cookies_lie_where_their_owner_alone_can_read_them(tmp_path, monkeypatch, umask):
    """Spec: C9"""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(umask)
    try:
        with cookie_file("SESSDATA=x") as file:
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)]
    finally:
        os.umask(before)
    assert modes == [0o600, 0o700]
