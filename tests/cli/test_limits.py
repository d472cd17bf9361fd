"""`headgate limits`: rate limits and resources, seen and changed."""

import pytest

from headgate.core.limits import Rate
from tests.factories import running


def test_a_rate_limit_is_set_shown_and_lifted(anywhere, run):
    """Spec: D8"""
    assert run("limits", "set", "key:openai", "--rate", "5", "--burst", "10").out == ("key:openai: 5/s, bursts of 10\n")
    assert {each.name: each.limit for each in anywhere.rate_limits.all()}["key:openai"] == Rate(5, 10)
    assert run("limits", "--json").lines[1] == {
        "name": "key:openai",
        "rate": 5.0,
        "burst": 10,
        "source": "person",
        "pause": None,
    }
    assert [line.split() for line in run("limits").out.splitlines()[1:3]] == [
        ["key:*", "10/s,", "bursts", "of", "20", "default", "for", "each", "other", "key"],
        ["key:openai", "5/s,", "bursts", "of", "10", "person"],
    ]
    assert run("limits", "set", "key:openai", "--rate", "none").out == "key:openai: no limit\n"
    assert run("limits").out.splitlines()[2].split() == ["key:openai", "no", "limit", "person"]
    assert run("limits", "set", "type:none", "--rate", "none").code == 3


def test_a_resource_is_set_and_shown(here, run):
    """Spec: A11"""
    assert run("limits", "set", "disk-writer", "--capacity", "3").out == "disk-writer: 3 at a time\n"
    assert run("limits", "--json").lines[1] == {
        "name": "disk-writer", "capacity": 3, "source": "person", "running": 0, "waiting": 0, "pause": None,
    }  # fmt: skip
    told = run("limits", "set", "press", "--capacity", "2", "--json").json
    assert told == {"name": "press", "capacity": 2, "source": "person"}


def test_a_resource_is_shown_with_how_many_use_it_and_wait_and_a_task_with_what_it_holds(here, run):
    """Spec: C3, X3"""
    holder, waiter = running(here), running(here)
    for each in (holder, waiter):
        here.holds.take(each.id, each.exec_id, "press")
    assert run("limits").out.splitlines()[-1].split() == [
        "press",
        "1",
        "at",
        "a",
        "time",
        "default",
        "1",
        "in",
        "use,",
        "1",
        "waiting",
    ]
    assert [line.split() for line in run("show", holder.id).out.splitlines() if "press" in line] == [["holds", "press"]]
    assert run("show", waiter.id, "--json").json["holds"][0]["held"] is False
    assert f"waits for resource press, held by task {holder.id}" in run("why", waiter.id).out


@pytest.mark.parametrize(
    "words",
    [
        ["key:a"],
        ["key:a", "--rate", "5"],
        ["key:a", "--burst", "5"],
        ["key:a", "--rate", "5", "--burst", "5", "--capacity", "1"],
        ["key:a", "--rate", "0", "--burst", "5"],
        ["key:a", "--rate", "5", "--burst", "0"],
        ["a", "--rate", "5", "--burst", "5"],
        ["a", "--capacity", "-1"],
    ],
)
def test_what_is_no_limit_is_refused_and_changes_nothing(here, run, words):
    """Spec: D8"""
    assert run("limits", "set", *words).code == 2
    assert [each.name for each in here.rate_limits.all()] == ["key:*"]


def test_a_rate_limit_is_not_taken_for_a_resource(here, run):
    """Spec: D8"""
    answer = run("limits", "set", "key:openai", "--capacity", 3)
    assert (answer.code, "is the name of a rate limit" in answer.err) == (2, True)
    assert "key:openai" not in {room.name for room in here.resources.all()}


def test_names_that_every_store_has_are_explained_where_they_are_listed(here, run):
    """Spec: A11"""
    rows = {line.split()[0]: line for line in run("limits").out.splitlines()}
    assert rows["disk-writer"].endswith("for heavy disk writes")
    assert rows["key:*"].endswith("for each other key")
