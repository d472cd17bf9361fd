"""The guide to limits shows what happens."""

from tests.docs.guides import Guide


def test_the_guide_to_limits_prints_what_it_says(tmp_path):
    """Spec: D8, A9, A11"""
    assert Guide("limits.md").tried(tmp_path) > 8
