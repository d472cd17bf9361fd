"""The guide to callbacks shows what happens: the receiver it names is told by the server it starts."""

import json
import re

import pytest

from lab.server import free_port
from tests.docs.guides import ROOT, Guide

GUIDE = (ROOT / "docs" / "callbacks.md").read_text()


@pytest.mark.parametrize("program", ["python clients/receiver.py", "node clients/receiver.mjs"])
def test_the_guide_to_callbacks_shows_what_happens(tmp_path, program):
    """Spec: B6"""
    (tmp_path / "clients").symlink_to(ROOT / "clients")
    guide = Guide("callbacks.md", {"9000": str(free_port()), "python clients/receiver.py": program})
    assert guide.tried(tmp_path) > 8
    [shown] = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    told = [json.loads(line) for line in guide.printed if '"path"' in line]
    assert told == [json.loads(shown)]


def test_the_guide_names_what_it_promises():
    """Spec: B6"""
    for named in (
        "HEADGATE_CALLBACK_ALLOW",
        "HEADGATE_CALLBACK_CONCURRENCY",
        "HEADGATE_SECRET",
        "/api/callbacks/redeliver",
    ):
        assert named in GUIDE
