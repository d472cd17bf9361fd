"""docs/compensation.md shows what its commands answer."""

import os
import re
import subprocess
import sys
from pathlib import Path

from headgate.core.compensation import CompensationSettings
from headgate.store.store import open_store
from tests.api.serving import PATIENCE, ROOT, serving
from tests.docs.guides import Guide

GUIDE = (ROOT / "docs" / "compensation.md").read_text()


def test_the_guide_to_compensation_shows_what_its_commands_answer(tmp_path):
    """Spec: E1, E2, E3, E4"""
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        store.migrate()
    with serving(url, compensation_threshold=0.01) as server:
        port = server.address.rpartition(":")[2]
        (tmp_path / ".curlrc").write_text(f"connect-to = localhost:8000:127.0.0.1:{port}\n")
        environment = os.environ | {
            "CURL_HOME": str(tmp_path), "HEADGATE_URL": url, "HEADGATE_COMPENSATION_THRESHOLD": "0.01",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200",
        }  # fmt: skip
        ran = 0
        for command, shown in Guide("compensation.md").sessions:
            run = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True,
                timeout=PATIENCE, check=False,
            )  # fmt: skip
            pattern = "[^\n]*".join(re.escape(part) for part in shown.strip().split("…"))
            assert re.fullmatch(pattern, (run.stdout + run.stderr).strip()), (command, run.stdout, run.stderr)
            ran += 1
    assert ran > 10


def test_the_guide_to_compensation_names_every_setting_with_its_default():
    """Spec: E5"""
    told = dict(re.findall(r"^\| `HEADGATE_COMPENSATION_(\w+)` \| ([\d.]+) \|", GUIDE, re.MULTILINE))
    assert {name.lower(): float(value) for name, value in told.items()} == {
        name: float(getattr(CompensationSettings(), name)) for name in CompensationSettings.__slots__
    }


def test_the_log_lines_in_the_guide_are_those_of_the_specification():
    """Spec: E4"""
    spec = (ROOT / "docs" / "spec.md").read_text().partition("### Log lines of E4")[2]
    wanted = [line for line in spec.splitlines() if line and not line.startswith(("```", "The figures"))]
    assert len(wanted) == 7
    for line in wanted:
        pattern = r"[\d]+".join(re.escape(part) for part in re.split(r"\d+|X", line))
        assert re.search(rf"^{pattern}$", GUIDE, re.MULTILINE), line
