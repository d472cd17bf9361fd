"""The pack of docs/packs.md, installed as any distribution is, and real processes that turn it on."""

import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
HEADGATE = str(Path(sys.executable).with_name("headgate"))
ADDRESS = re.compile(r"the API and the console are at (http://\S+)")
FILE = re.compile(r"```\w+\n(?:#|--) (\S+\.\w+)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the pack was installed in, from the wheel that its pyproject.toml makes."""
    folder = tmp_path_factory.mktemp("parcels")
    for name, text in FILE.findall((ROOT / "docs" / "packs.md").read_text()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True, timeout=PATIENCE)
    [wheel] = (folder / "dist").iterdir()
    zipfile.ZipFile(wheel).extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture
def environment(installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Of a person who installed the pack, and configured nothing but a free port."""
    for name in list(os.environ):
        if name.startswith(("HEADGATE_", "PARCELS_", "QUEUE_")) and name != "HEADGATE_TEST_POSTGRES":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.setenv("HEADGATE_PORT", "0")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return monkeypatch


@pytest.fixture(params=["sqlite", "postgres"])
def place(
    request: pytest.FixtureRequest, environment: pytest.MonkeyPatch, tmp_path: Path, postgres_server: str
) -> Iterator[str]:
    """Where a store may be made, on each database in turn, which every command finds by HEADGATE_URL."""
    schema = f"packs_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/store.db"
    else:
        url = f"{postgres_server}?options={quote(f'-csearch_path={schema}')}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            connection.execute(f"CREATE SCHEMA {schema}")
    environment.setenv("HEADGATE_URL", url)
    yield url
    if request.param == "postgres":
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


class Ran:
    """What a command printed, and how it ended."""

    def __init__(self, *words: str) -> None:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def run(environment: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """A command, in a process of its own."""
    return lambda *words: Ran(HEADGATE, *words)


class Server:
    """A server that runs, as a client sees it."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
        """The status and the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as problem:
            return problem.code, json.load(problem)


@contextmanager
def started(*words: str, until: str) -> Iterator[re.Match[str]]:
    """A command that goes on running, from when it has said `until`; it stops in good order."""
    with subprocess.Popen([HEADGATE, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        try:
            for line in process.stderr:
                lines.append(line)
                if found := re.search(until, line):
                    break
            else:
                raise AssertionError("".join(lines))
            reading = threading.Thread(target=process.stderr.read)  # lest it waits for somebody to read
            reading.start()
            yield found
        finally:
            process.terminate()
            process.wait(PATIENCE)
        reading.join(PATIENCE)


@contextmanager
def serving(*words: str) -> Iterator[Server]:
    """A server that was started with this command."""
    with started(*words, until=ADDRESS.pattern) as found:
        yield Server(found[1])
