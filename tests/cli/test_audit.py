"""`headgate audit`: who did what, with the user of the machine for what was done on the command line."""

import os
import pwd
import socket
from datetime import UTC, datetime, timedelta

from tests.factories import submit

USER = f"os:{pwd.getpwuid(os.getuid()).pw_name}"


def test_what_is_done_on_the_command_line_is_the_os_users(run, here):
    """Spec: A12"""
    task = submit(here)
    run("cancel", task.id, "--reason", "no longer wanted")
    run("lanes", "set", "mail", "--capacity", 3)
    acts = {act["kind"]: act for act in run("audit", "--json").lines}
    assert acts["cancelled"]["actor"] == acts["capacity_changed"]["actor"] == USER
    assert acts["cancelled"]["address"] == socket.gethostname()
    assert (acts["cancelled"]["object"], acts["cancelled"]["reason"]) == (f"task:{task.id}", "no longer wanted")
    assert acts["capacity_changed"]["changes"] == {"capacity": {"old": None, "new": 3}}


def test_every_command_that_changes_something_says_who_did_it(run, here):
    """Spec: A12"""
    for number in range(3):
        submit(here, priority=number + 2)
    commands = (
        "pause 1", "resume 1", "prioritize 1", "reschedule 2 --delay 60", "cancel 3", "retry 3",
        "lanes set mail --capacity 3", "pause --lane mail", "resume --lane mail",
        "limits set key:a --rate 5 --burst 10", "limits set key:a --rate none",
        "keys create ops --role admin", "keys revoke 1", "types set plain priority=3", "compensation trigger",
        "purge --older-than 1",
    )  # fmt: skip
    before = {act.id for act in here.acts.find(limit=200).items}
    for command in commands:
        answer = run(*command.split())
        assert answer.code == 0, (command, answer.err)
    acts = [act for act in here.acts.find(limit=200).items if act.id not in before]
    assert len(acts) >= len(commands)
    assert {act.actor for act in acts} == {USER}


def test_the_audit_is_shown_as_a_table_and_filtered(run, here):
    """Spec: A12"""
    here.lanes.set_capacity("mail", 3, actor="os:alice")
    here.lanes.set_capacity("mail", 5, actor="os:alice")
    here.lanes.pause("mail", actor="os:bob")
    lines = run("audit", "--object", "lane:mail", "--kind", "capacity_changed").out.splitlines()
    assert lines[0].split() == ["TIME", "ACTOR", "ACT", "DETAIL"]
    assert lines[1].endswith("os:alice  capacity_changed lane:mail  capacity: 3 → 5")
    assert "os:bob" in run("audit", "--actor", "os:bob").out
    assert run("audit", "--since", "2090-01-01").out == "no acts\n"
    first = run("audit", "--object", "lane", "--limit", 1)
    [cursor] = [line.split()[-1] for line in first.err.splitlines() if "--cursor" in line]
    assert "capacity: 3 → 5" in run("audit", "--object", "lane", "--limit", 1, "--cursor", cursor).out


def test_acts_are_found_by_a_duration_a_time_of_day_and_a_date(here, run):
    """Spec: A12"""
    run("pause", "--all")
    an_hour_ago = f"{datetime.now(UTC) - timedelta(hours=1):%H:%M}"
    for words, found in (
        (["--since", "1h"], 1),
        (["--since", an_hour_ago], 1),
        (["--since", "2001-01-31"], 1),
        (["--since", "2999-01-31 14:30"], 0),
        (["--until", "1h"], 0),
        (["--until", "2999-01-31T14:30+08:00"], 1),
    ):
        acts = run("audit", "--kind", "paused", "--json", *words).lines
        assert len(acts) == found, words
    refused = run("audit", "--since", "yesterday")
    assert (refused.code, refused.err.partition(":")[2][:30]) == (2, " --since 'yesterday' is not a ")
