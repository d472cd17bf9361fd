"""The guides show what happens."""

import pytest

from tests.docs.guides import Guide

GUIDES = {"families.md": 9, "dead-letters.md": 12, "types.md": 9, "retries.md": 5, "changing-tasks.md": 6}


@pytest.mark.parametrize("name", GUIDES)
def test_the_commands_of_a_guide_print_what_it_shows(name, tmp_path):
    """Spec: C4, D7, D12"""
    assert Guide(name).tried(tmp_path) >= GUIDES[name]


def test_the_commands_of_the_request_queues_guide_print_what_it_shows(tmp_path):
    """Spec: C4"""
    assert Guide("requests.md").tried(tmp_path) >= 12
