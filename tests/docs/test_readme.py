"""What the documents show is what happens."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_in_the_readme_prints_what_the_readme_says(tmp_path):
    """Spec: X3"""
    text = (ROOT / "README.md").read_text()
    example, printed = re.findall(r"```python\n(.*?)```.*?It prints:\n\n```\n(.*?)```", text, re.DOTALL)[0]
    run = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == (printed, "")


def test_every_file_that_the_internals_name_exists():
    """Spec: A12"""
    named = re.findall(r"`((?:core|store)/\w+\.py)", (ROOT / "docs" / "internals.md").read_text())
    assert named
    assert [name for name in named if not (ROOT / "src" / "headgate" / name).exists()] == []


def test_the_specification_has_every_item_a_test_names():
    """Spec: A12"""
    items = set(re.findall(r"\*\*([A-EX]\d+)\*\*", (ROOT / "docs" / "spec.md").read_text()))
    lines = [line for file in (ROOT / "tests").rglob("*.py") for line in file.read_text().splitlines()]
    claimed = {
        item for line in lines if "Spec:" in line for item in re.findall(r"\b[A-EX]\d+\b", line.split("Spec:")[1])
    }
    assert claimed <= items
