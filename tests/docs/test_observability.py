"""The guide to observability names every metric."""

import re
from pathlib import Path

from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.settings import Settings
from headgate.store.store import open_store

GUIDE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()


def test_the_guide_names_every_metric_and_no_other(tmp_path):
    """Spec: D11"""
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        store.migrate()
        with TestClient(create_app(store, Settings(url=url)), base_url="http://127.0.0.1:8000") as client:
            client.post("/api/compensation/trigger")
            there = set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.MULTILINE))
    table = GUIDE.partition("## Metrics")[2].partition("\n## ")[0]
    named = {name for row in re.findall(r"^\|([^|]+)\|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == there


def test_no_guide_names_a_metric_that_is_not_in_the_table():
    """Spec: D11"""
    table = set(re.findall(r"`(\w+)`", GUIDE.partition("## Metrics")[2].partition("\n## ")[0]))
    for guide in (Path(__file__).parents[2] / "docs").glob("*.md"):
        told = set(re.findall(r"`(headgate_(?:broker|listener)_\w+)", guide.read_text()))
        assert told <= table, guide.name
