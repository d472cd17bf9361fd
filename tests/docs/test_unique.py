"""The guide to unique, debounced and snoozed tasks shows what happens."""

from tests.docs.guides import Guide


def test_the_guide_to_unique_tasks_prints_what_it_says(tmp_path):
    """Spec: X2"""
    assert Guide("unique.md").tried(tmp_path) > 12
