"""The guide to callbacks shows what happens: the receiver it names is told by the server it starts."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.guides import Guide, environment

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "callbacks.md").read_text()
PATIENCE = 60.0
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")


def same(shown: str, said: str, port: int) -> bool:
    """Whether that is what was said, but for times, widths and what is left out."""
    said = TIME.sub("TIME", said).replace(f"127.0.0.1:{port}", "127.0.0.1:9000")
    parts = [re.escape(" ".join(part.split())) for part in shown.split("…")]
    return re.fullmatch(".*".join(parts), " ".join(said.split())) is not None


@pytest.mark.parametrize("program", [[sys.executable, "clients/receiver.py"], ["node", "clients/receiver.mjs"]])
def test_the_guide_to_callbacks_shows_what_happens(tmp_path, program):
    """Spec: B6"""
    [start] = [line for line in GUIDE.splitlines() if "clients/receiver.py" in line and line.startswith("$ ")]
    keys = dict(word.split("=") for word in start.split() if re.match(r"(AK|SK)=", word))
    receiver = subprocess.Popen([*program, "0"], cwd=ROOT, env=os.environ | keys, stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    port = json.loads(receiver.stdout.readline())["port"]
    given: dict[str, Any] = {"cwd": tmp_path, "text": True, "env": environment(tmp_path)}
    given["env"] |= {"HEADGATE_SECRET": "f" * 64, "HEADGATE_CALLBACK_ALLOW": f"127.0.0.1:{port}"}
    up = subprocess.Popen(["headgate", "up"], stderr=subprocess.PIPE, **given)
    try:
        assert up.stderr is not None
        address = next(line for line in up.stderr if "the API and the console are at" in line).split()[-1]
        here = address.rpartition(":")[2]
        (tmp_path / ".curlrc").write_text(f"connect-to = localhost:8000:127.0.0.1:{here}\n")
        for command, shown in Guide("callbacks.md").sessions:
            words = command.replace(":9000", f":{port}")
            run = subprocess.run(["bash", "-c", words], capture_output=True, timeout=PATIENCE, check=False, **given)
            assert same(shown, run.stdout + run.stderr, port), (command, run.stdout, run.stderr)
        [printed] = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
        assert json.loads(receiver.stdout.readline()) == json.loads(printed)
    finally:
        for process in (up, receiver):
            process.terminate()
        up.communicate(timeout=PATIENCE)
        receiver.communicate(timeout=PATIENCE)
    assert shutil.which("openssl"), "the guide makes a secret with it"


def test_the_guide_names_what_it_promises():
    """Spec: B6"""
    for named in (
        "HEADGATE_CALLBACK_ALLOW",
        "HEADGATE_CALLBACK_CONCURRENCY",
        "HEADGATE_SECRET",
        "/api/callbacks/redeliver",
    ):
        assert named in GUIDE
