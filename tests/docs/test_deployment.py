"""The guide to deployment names every setting."""

import re
from dataclasses import fields
from pathlib import Path

from headgate.settings import Settings

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "deployment.md").read_text()


def test_the_guide_to_deployment_names_every_setting_with_its_default():
    """Spec: X6"""
    told = dict(re.findall(r"^\| `HEADGATE_(\w+)` \| (?:`([^`]*)` )?\|", GUIDE, re.MULTILINE))
    usual = {setting.name.upper(): getattr(Settings(), setting.name) for setting in fields(Settings)}
    own = {name: value for name, value in usual.items() if not name.startswith("COMPENSATION_")}
    assert told == {name: str(value).removesuffix(".0") for name, value in own.items()}
