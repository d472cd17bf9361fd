"""The command as a person has it: in a folder of their own, with a module of tasks beside them."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate.cli.main import app
from headgate.store.store import Store, open_store
from tests.factories import TYPES

PATIENCE = 60.0
HEADGATE = str(Path(sys.executable).with_name("headgate"))
SHOP = """
import asyncio
import os
import headgate

app = headgate.Headgate()

@app.task
async def greet(name: str = "you") -> str:
    return f"Hello, {name}!"

@app.task(mutex="shelf:{shelf}", priority=3)
async def tidy(shelf: int) -> int:
    return shelf

@app.task
async def nap(seconds: float = 3600) -> None:
    await asyncio.sleep(seconds)

@app.task(need_manual=True)
async def fail() -> None:
    raise ValueError("this cannot work")

@app.task
async def whereabouts() -> int:
    return os.getpid()
"""


class Answer:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder a person is in: a module of tasks, and nothing that configures anything."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("HEADGATE_") and name != "HEADGATE_TEST_POSTGRES":
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("HEADGATE_PORT", "0")  # a free one: several may be up at once
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    return tmp_path


@pytest.fixture
def run() -> Callable[..., Answer]:
    """The command, in this process."""

    def invoke(*words: object) -> Answer:
        try:
            result = CliRunner().invoke(app, [str(word) for word in words])
        finally:
            logging.disable(logging.NOTSET)  # `simulate` silences its process
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def here(folder: Path) -> Iterator[Store]:
    """The store in the folder, `headgate.db`, which every command finds by itself."""
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        store.migrate()
        for kind in TYPES:
            store.types.put(kind)
        yield store


@pytest.fixture
def anywhere(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store on each database in turn, which every command finds by HEADGATE_URL."""
    monkeypatch.setenv("HEADGATE_URL", url)
    with open_store(url) as store:
        for kind in TYPES:
            store.types.put(kind)
        yield store


class Spawned:
    """A command that goes on running, and what it says on stderr."""

    def __init__(self, words: tuple[str, ...], folder: Path, program: str) -> None:
        self.process = subprocess.Popen(
            [program, *words], cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.definition: list[str] = []
        self._more = threading.Condition()
        self._ear = threading.Thread(target=self._listen)
        self._ear.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.definition.append(line.rstrip())
                self._more.notify_all()

    def hear(self, words: str, times: int = 1) -> str:
        """The line with these words, once it has been said so many times."""
        with self._more:
            assert self._more.wait_for(lambda: len(self._with(words)) >= times, PATIENCE), self.definition
            return self._with(words)[times - 1]

    def _with(self, words: str) -> list[str]:
        return [line for line in self.definition if words in line]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit code, when it has ended and said its last."""
        code = self.process.wait(PATIENCE)
        self._ear.join(PATIENCE)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.ended()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def spawn(folder: Path) -> Iterator[Callable[..., Spawned]]:
    """Start the real command in a process of its own; killed at the end if it still runs."""
    spawned: list[Spawned] = []

    def start(*words: str, program: str = HEADGATE) -> Spawned:
        spawned.append(Spawned(words, folder, program))
        return spawned[-1]

    yield start
    for process in spawned:
        process.close()
