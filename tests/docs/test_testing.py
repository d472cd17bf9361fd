"""The guide to testing shows what happens."""

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_snippets_of_the_guide_to_testing_print_what_it_says(tmp_path):
    """Spec: X5"""
    shown = re.findall(r"```python\n(.*?)```\n\nIt prints:\n\n```\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(shown) == GUIDE.read_text().count("```python")
    script = "".join(snippet for snippet, _ in shown)
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("".join(printed for _, printed in shown), "")
    assert list(tmp_path.iterdir()) == []
