"""A guide, followed to the letter: its program runs, its commands are typed, and they print what it shows."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")
API = re.compile(r"the API is at http://127\.0\.0\.1:(\d+)")


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """Every command of a guide whose answer is shown, with that answer; … stands for whatever is there."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for said in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = said.partition("\n")
            yield command, shown


def follow(name: str, folder: Path) -> int:
    """Run the guide's program with `headgate up tasks` and type its commands; how many there were."""
    text = (ROOT / "docs" / name).read_text()
    [program, *_] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (folder / "tasks.py").write_text(program)
    ran = 0
    with up(folder) as environment:
        for command, shown in sessions(text):
            run = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE,
                check=False,
            )  # fmt: skip
            said = TIME.sub("TIME", run.stdout + run.stderr).strip()
            pattern = ".*".join(re.escape(part) for part in TIME.sub("TIME", shown).strip().split("…"))
            assert re.fullmatch(pattern, said, re.DOTALL), f"{command}\n{said}"
            ran += 1
    return ran


@contextmanager
def up(folder: Path) -> Iterator[dict[str, str]]:
    """Everything in one process, on a free port, which curl takes for localhost:8000; a newcomer's environment."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    environment = own | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120", "HEADGATE_PORT": "0", "CURL_HOME": str(folder), "NO_COLOR": "1",
    }  # fmt: skip
    process = subprocess.Popen(
        ["headgate", "up", "tasks"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        port, ready = "", False
        while not (port and ready):
            line = process.stderr.readline()
            assert line, "it ended"
            port = found[1] if (found := API.search(line)) else port
            ready = ready or " serves " in line
        (folder / ".curlrc").write_text(f"connect-to = localhost:8000:127.0.0.1:{port}\n")
        yield environment
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
