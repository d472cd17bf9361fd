"""What the documents show is what happens."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import headgate
from headgate import registry
from headgate.task_function import TaskFunction
from tests.docs.guides import comparable

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """A newcomer's: the command is there, and nothing is configured but a free port."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    return own | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
        "HEADGATE_PORT": "0",
    }


def test_the_program_in_the_readme_prints_what_the_readme_says(tmp_path):
    """Spec: D3, X3"""
    text = (ROOT / "README.md").read_text()
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "tasks.py").write_text(program)
    [session] = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    given: dict[str, Any] = {"cwd": tmp_path, "env": environment(), "text": True}
    up = subprocess.Popen(["headgate", "up", "tasks"], stderr=subprocess.PIPE, **given)
    try:
        assert up.stderr is not None
        assert any("serves download" in line for line in up.stderr)
        for said in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, _, shown = said.partition("\n")
            run = subprocess.run(command.split(), capture_output=True, timeout=60, check=False, **given)
            assert comparable(run.stdout + run.stderr) == comparable(shown), command
    finally:
        up.terminate()
        up.communicate(timeout=60)
    assert up.returncode == 0


def test_every_option_and_every_word_of_the_context_is_in_the_python_guide():
    """Spec: D3"""
    guide = (ROOT / "docs" / "python.md").read_text()
    declared = {*registry.TYPE_OPTIONS, *registry.HANDLER_OPTIONS}
    options = {*inspect.signature(TaskFunction.using).parameters, *declared} - {"self"}
    context = {name for name in vars(headgate.Context) if not name.startswith("_")}
    assert {name for name in options | context if f"`{name}" not in guide and f"{name}`" not in guide} == set()
