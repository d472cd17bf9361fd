"""docs/compensation.md shows what its commands answer."""

import re

from headgate.core.compensation import CompensationSettings
from tests.docs.guides import ROOT, Guide

GUIDE = (ROOT / "docs" / "compensation.md").read_text()


def test_the_guide_to_compensation_shows_what_its_commands_answer(tmp_path):
    """Spec: E1, E2, E3, E4"""
    assert Guide("compensation.md").tried(tmp_path) > 10


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
