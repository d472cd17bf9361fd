"""The guide to history shows what happens."""

from tests.docs.guides import Guide


def test_the_guide_to_history_prints_what_it_says(tmp_path):
    """Spec: A7, B4"""
    assert Guide("history.md").tried(tmp_path) > 5
