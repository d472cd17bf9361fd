"""A page that is followed: its program, its servers, its commands, and what it says that they print."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
ADDRESS = re.compile(r"the API and the console are at http://[^:]+:(\d+)")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:Z| [+-]\d{4})")
USER = re.compile(r"os:[\w.-]+")
LOG = re.compile(r"^(\d\d:\d\d:\d\d )(\w+ +)(.*)$", re.MULTILINE)
HERE = re.compile(r"\\\(\S+\\\)|127\S+")  # of an escaped line: a worker's name, or the server's address
KEY = re.compile(r"^key +(hg_\S+)", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

# What runs until it is told to end, and the line by which it says that it is ready.
SERVERS = {
    r"headgate (?:up|serve)\b": ADDRESS,
    r"headgate work\b": re.compile(r"\bserves\b"),
    r"headgate duties\b": re.compile(r"running the background duties"),
    r"clients/receiver\.": re.compile(r'"port"'),
    r"clients/subscriber\.py": re.compile(r'"following"'),
}
# What no test runs, and why.
NOT_RUN = {
    "pip install yt-dlp": "downloads; it is installed here",
    "pip install aiormq": "downloads; it is installed here",
    "make test": "this test is a part of it",
    "make check": "runs the linters, before the tests",
    "make setup": "has made the environment of this test",
    "make console": "`make run` makes it",
    "make package": "tests/cli/test_package.py builds and installs the wheel",
    "make clean": "would remove what the tests run from",
    "make lock": "downloads",
    "make crash": "takes hours",
    "make siege": "takes minutes",
    "make bench": "takes an hour",
    "make bench-peers": "takes an hour",
}
SHOP = "import headgate\n\napp = headgate.Headgate()\n\n\n@app.task\ndef pack() -> None: ...\n"


def environment(folder: Path) -> dict[str, str]:
    """A newcomer's: the command is there, and nothing is configured but a free port."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return own | {"PATH": path, "COLUMNS": "160", "HEADGATE_PORT": "0", "CURL_HOME": str(folder)}


def comparable(text: str) -> str:
    """What is printed or shown, without what is different each time."""
    return USER.sub("os:USER", TIME.sub("TIME", text)).strip()


def is_shown(printed: str, shown: str) -> bool:
    """Whether a command printed what a page shows, where `…` stands for anything and columns may be wider."""
    if "…" not in shown:
        return comparable(printed) == comparable(shown)
    printed, shown = (re.sub(" {2,}", "  ", comparable(text)) for text in (printed, shown))
    expected = ".*".join(re.escape(part) for part in shown.split("…"))
    return re.fullmatch(expected, printed, re.DOTALL) is not None


@dataclass(frozen=True)
class Shown:
    """A command on a page: in which block, and what it prints. A block of `console` shows all of it."""

    command: str
    output: str
    block: int
    language: str

    @property
    def ready(self) -> re.Pattern[str] | None:
        """How it says that it is ready, if it is a server."""
        return next((line for words, line in SERVERS.items() if re.search(words, self.command)), None)


class Guide:
    """One page of the documentation. In what it shows `…` stands for anything, a time for any time, and a user of the
    operating system for any user. `real` says what names on the page stand for here: addresses, ports."""

    def __init__(self, name: str, real: Mapping[str, str] | None = None) -> None:
        self.text = (ROOT / "docs" / name).read_text()
        self.printed: list[str] = []  # by the servers
        for shown, here in (real or {}).items():
            assert shown in self.text, shown
            self.text = self.text.replace(shown, here)

    @property
    def program(self) -> str | None:
        """What is to be in tasks.py."""
        blocks = re.findall(r"```python\n(# tasks\.py\n.*?)```", self.text, re.DOTALL)
        return blocks[0] if blocks else None

    @property
    def commands(self) -> list[Shown]:
        """Every command, in order."""
        found = []
        for number, (language, block) in enumerate(BLOCK.findall(self.text)):
            _, *commands = re.split(r"^\$ ", block, flags=re.MULTILINE)
            for each in commands:
                command, _, output = each.replace("\\\n", "").partition("\n")
                found.append(Shown(command, output, number, language))
        assert len(found) == len(re.findall(r"^\$ ", self.text, re.MULTILINE))
        return found

    def tried(self, folder: Path, *, before_each: Callable[[], object] = lambda: None, console: bool = True) -> int:
        """Follow the page in an empty folder, beside `headgate up` if it starts no server; how many commands it has.
        Without `console` the blocks of that name are left to another test."""
        (folder / "shop").mkdir()
        (folder / "shop" / "tasks.py").write_text(SHOP)
        (folder / "tasks.py").write_text(self.program or SHOP)
        commands = [each for each in self.commands if console or each.language != "console"]
        with Terminal(folder) as terminal:
            if not any(each.ready for each in commands):
                module = "tasks" if self.program else ""
                terminal.run(Shown(f"headgate up {module}", "", -1, "text"))
            for each in commands:
                before_each()
                terminal.run(each)
        self.printed = terminal.printed
        return len(commands)


class Terminal:
    """A shell in a folder. Servers run beside it: those of Headgate until a later block starts others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = environment(folder)
        self.printed: list[str] = []
        self._servers: dict[int, list[Server]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for servers in self._servers.values():
            self._end(servers)

    def run(self, shown: Shown) -> None:
        """Run a command to its end, or until it is ready; fail if it prints something else than the page shows."""
        if shown.command in NOT_RUN:
            return
        if shown.command.startswith("export "):
            names = self._bash(f"{shown.command}; env -0")
            self.environment = dict(line.split("=", 1) for line in names.split("\0") if line)
            return
        if shown.ready is not None:
            self._serve(shown, shown.ready)
            return
        all_is_shown = bool(shown.output) or shown.language == "console"
        printed = self._bash(shown.command, check=not all_is_shown)
        assert not all_is_shown or is_shown(printed, shown.output), f"{shown.command}\n{printed}"
        if found := KEY.search(printed):
            self.environment["KEY"] = found[1]  # as a reader would put it there

    def _bash(self, command: str, check: bool = False) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert not (check and done.returncode), f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _serve(self, shown: Shown, ready: re.Pattern[str]) -> None:
        """Start a server, and read the lines of the log that the page shows; or it ends with what the page shows."""
        if "headgate" in shown.command:
            for block in [block for block in self._servers if block != shown.block]:
                for server in [each for each in self._servers[block] if "headgate" in each.command]:
                    self._servers[block].remove(server)
                    self._end([server])
        server = Server(shown.command, self.folder, self.environment)
        if (line := server.until(ready)) is None:
            server.end()
            assert is_shown("\n".join(server.lines), shown.output), f"{shown.command}\n{server.lines}"
            return
        self._servers.setdefault(shown.block, []).append(server)
        if found := ADDRESS.search(line):
            here = "".join(f"connect-to = {host}:8000:127.0.0.1:{found[1]}\n" for host in ("localhost", "server"))
            (self.folder / ".curlrc").write_text(here)
        for _, level, text in LOG.findall(shown.output):
            pattern = HERE.sub(r"\\S+", re.escape(f"{level}{text}"))
            assert server.until(re.compile(f"{pattern}$")), (text, server.lines)

    def _end(self, servers: list["Server"]) -> None:
        for server in servers:
            assert server.process.poll() is None, f"{server.command} has ended\n{server.lines}"
            server.process.terminate()
        for server in servers:
            server.end()
            self.printed += server.lines


class Server:
    """A command that runs until it is told to end, and its lines."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.command = command
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec env {command}"], cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._more = threading.Condition()
        self._has_ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.lines.append(line.rstrip())
                self._more.notify_all()
        with self._more:
            self._has_ended = True
            self._more.notify_all()

    def until(self, ready: re.Pattern[str]) -> str | None:
        """The first line that says so, as soon as it is there; None if the server ends without it."""

        def found() -> Iterator[str]:
            return (line for line in self.lines if ready.search(line))

        with self._more:
            assert self._more.wait_for(lambda: self._has_ended or any(found()), PATIENCE), self.lines
            return next(found(), None)

    def end(self) -> None:
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            raise
        finally:
            self._reader.join(PATIENCE)
            assert self.process.stdout is not None
            self.process.stdout.close()
