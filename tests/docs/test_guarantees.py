"""A promise that is shown by nothing is none."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_whatever_the_guarantees_are_shown_by_exists():
    """Spec: X5"""
    text = (ROOT / "docs" / "guarantees.md").read_text()
    named = set(re.findall(r"`(?:tests/)?((?:\w+/)?test_\w+\.py)`", text))
    known = {str(file.relative_to(ROOT / "tests")) for file in (ROOT / "tests").rglob("test_*.py")}
    assert len(named) >= 10
    assert {name for name in named if not any(found.endswith(name) for found in known)} == set()
