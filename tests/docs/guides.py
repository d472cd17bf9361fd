"""A guide that is tried out: its program, its commands, and what it says that they print."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
ADDRESS = re.compile(r"the API and the console are at http://127\.0\.0\.1:(\d+)")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:Z| [+-]\d{4})")
USER = re.compile(r"os:[\w.-]+")


def environment(folder: Path) -> dict[str, str]:
    """A newcomer's: the command is there, and nothing is configured but a free port."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return own | {"PATH": path, "COLUMNS": "160", "HEADGATE_PORT": "0", "CURL_HOME": str(folder)}


def comparable(text: str) -> str:
    """What is printed or shown, without what is different each time."""
    return USER.sub("os:USER", TIME.sub("TIME", text)).strip()


class Guide:
    """One page of the documentation. In what it shows `…` stands for anything, a time for any time, and a user of the
    operating system for any user."""

    def __init__(self, name: str) -> None:
        self.text = (ROOT / "docs" / name).read_text()

    @property
    def program(self) -> str | None:
        """What is to be in tasks.py."""
        blocks = re.findall(r"```python\n(# tasks\.py\n.*?)```", self.text, re.DOTALL)
        return blocks[0] if blocks else None

    @property
    def sessions(self) -> Iterator[tuple[str, str]]:
        """Every command, with what it prints."""
        for block in re.findall(r"```console\n(.*?)```", self.text, re.DOTALL):
            for said in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, shown = said.replace("\\\n", "").partition("\n")
                yield command, shown

    def tried(self, folder: Path, *words: str, before_each: Callable[[], object] = lambda: None) -> int:
        """Follow the guide in an empty folder, with `headgate up` beside; how many commands it has."""
        if self.program is not None:
            (folder / "tasks.py").write_text(self.program)
        ran = 0
        with up(folder, "tasks" if self.program else "", *words):
            for command, shown in self.sessions:
                before_each()
                run = subprocess.run(
                    ["bash", "-c", command], cwd=folder, env=environment(folder), capture_output=True, text=True,
                    timeout=PATIENCE, check=False,
                )  # fmt: skip
                assert is_shown(run.stdout + run.stderr, shown), f"{command}\n{run.stdout}{run.stderr}"
                ran += 1
        return ran


def is_shown(printed: str, shown: str) -> bool:
    """Whether a command printed what a guide shows, where `…` stands for anything and columns may be wider."""
    if "…" not in shown:
        return comparable(printed) == comparable(shown)
    printed, shown = (re.sub(" {2,}", "  ", comparable(text)) for text in (printed, shown))
    expected = ".*".join(re.escape(part) for part in shown.split("…"))
    return re.fullmatch(expected, printed, re.DOTALL) is not None


@contextmanager
def up(folder: Path, *modules: str) -> Iterator[None]:
    """`headgate up` in the folder, to which curl is led by the address in the guides."""
    process = subprocess.Popen(
        ["headgate", "up", *filter(None, modules)], cwd=folder, env=environment(folder), text=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    with process, ExitStack() as ends:
        ends.callback(process.wait, PATIENCE)
        ends.callback(process.terminate)
        assert process.stderr is not None
        for line in process.stderr:
            if found := ADDRESS.search(line):
                (folder / ".curlrc").write_text(f"connect-to = localhost:8000:127.0.0.1:{found[1]}\n")
                break
        else:
            raise AssertionError("headgate up has ended")
        listening = threading.Thread(target=process.stderr.read)  # lest it waits for somebody to listen
        listening.start()
        ends.callback(listening.join, PATIENCE)
        ends.callback(process.terminate)
        yield
