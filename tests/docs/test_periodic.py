"""The guide to schedules shows what its commands print."""

import re
import shlex
import subprocess
import time
from typing import Any

from tests.docs.test_readme import ROOT, environment

GUIDE = (ROOT / "docs" / "periodic.md").read_text()
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(Z| [+-]\d{4})")
PATIENCE = 60.0


def test_the_guide_to_schedules_prints_what_it_says(tmp_path):
    """Spec: B9, B10"""
    [program] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "tasks.py").write_text(program)
    given: dict[str, Any] = {"cwd": tmp_path, "env": environment(), "text": True}
    up = subprocess.Popen(["headgate", "up", "tasks"], stderr=subprocess.PIPE, **given)
    ran = 0
    try:
        assert up.stderr is not None
        assert any("serves close_the_books, remind" in line for line in up.stderr)
        for block in re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL):
            for said in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, shown = said.partition("\n")
                assert printed(command, shown, given) == TIME.sub("TIME", shown), command
                ran += 1
    finally:
        up.terminate()
        up.communicate(timeout=PATIENCE)
    assert up.returncode == 0
    assert ran >= 9


def printed(command: str, shown: str, given: dict[str, Any]) -> str:
    """What the command prints; of a log, which a duty writes, what it prints in the end."""
    end = time.monotonic() + (PATIENCE if " logs " in command else 0.0)
    while True:
        run = subprocess.run(shlex.split(command), capture_output=True, timeout=PATIENCE, check=False, **given)
        told = TIME.sub("TIME", run.stdout + run.stderr)
        if told == TIME.sub("TIME", shown) or time.monotonic() > end:
            return told
