"""Listeners in real processes: killed, stopped and side by side; and what `headgate listeners` shows of them."""

import json
import os
import signal
import sys
import time
from collections import Counter

import psutil
import pytest

from headgate.core.task import NewTask
from headgate.store.events.subscriptions import Lease
from tests.cli.conftest import PATIENCE

NEW = NewTask("plain")

MAILER = """
import json
import os
import signal
from pathlib import Path

import headgate

app = headgate.Headgate()


def write(event, file):
    with open(file, "a") as heard:
        heard.write(json.dumps({"pid": os.getpid(), "event": event.id, "task": event.task_id}) + "\\n")


@app.task
async def greet() -> None:
    pass


@app.on("task.completed", tries=3)
def note(event: headgate.Event) -> None:
    write(event, "heard")
    if Path("poison").exists() and event.task_id == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if Path("kill").exists():
        Path("kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def mailer(folder, monkeypatch):
    (folder / "mailer.py").write_text(MAILER)
    monkeypatch.delitem(sys.modules, "mailer", raising=False)
    monkeypatch.setenv("HEADGATE_LEASE_SECONDS", "1.5")
    monkeypatch.setenv("HEADGATE_BEAT_SECONDS", "0.4")


def heard(folder):
    file = folder / "heard"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def test_an_event_whose_process_is_killed_before_it_was_saved_comes_again(spawn, run, anywhere, folder):
    """Spec: X9, D6"""
    work = spawn("work", "mailer")
    work.hear("listener note: this process calls it from now on")
    (folder / "kill").touch()
    run("submit", "-m", "mailer", "greet", "--wait", PATIENCE)
    until(lambda: len(heard(folder)) >= 2)
    until(lambda: anywhere.subscriptions.all()[0].handled == 1)
    first, second = heard(folder)
    assert first["event"] == second["event"]
    assert first["pid"] != second["pid"]
    work.signal(signal.SIGTERM)
    assert work.ended() == 0
    assert anywhere.subscriptions.all()[0].holder is None


def test_an_event_that_kills_its_process_is_skipped_after_its_tries(spawn, run, here, folder):
    """Spec: X9"""
    (folder / "poison").touch()
    work = spawn("work", "mailer")
    work.hear("listener note: this process calls it from now on")
    for _ in range(4):
        run("submit", "-m", "mailer", "greet")
    until(lambda: {line["task"] for line in heard(folder)} == {1, 2, 3, 4})
    work.hear("skips event")
    until(lambda: here.subscriptions.all()[0].handled == 3)
    assert here.subscriptions.all()[0].skipped == 1
    assert Counter(line["task"] for line in heard(folder))[2] in (3, 4)  # perhaps in a batch, then three times alone


def test_of_two_processes_each_event_is_handled_by_one(spawn, run, anywhere, folder):
    """Spec: X9, D6"""
    workers = [spawn("work", "mailer") for _ in range(2)]
    for work in workers:
        work.hear("serves greet")
    until(lambda: anywhere.subscriptions.all())
    count = 10
    for _ in range(count):
        run("submit", "-m", "mailer", "greet")
    until(lambda: len(heard(folder)) == count)
    [pid] = {line["pid"] for line in heard(folder)}
    [holder] = [each for each in workers if pid in (child.pid for child in psutil.Process(each.process.pid).children())]
    holder.signal(signal.SIGTERM)
    assert holder.ended() == 0
    run("submit", "-m", "mailer", "greet")
    until(lambda: len(heard(folder)) == count + 1)
    assert heard(folder)[-1]["pid"] not in (pid, os.getpid())
    assert max(Counter(line["event"] for line in heard(folder)).values()) == 1


def test_a_program_may_have_listeners_and_no_tasks(spawn, run, here, folder):
    """Spec: X9"""
    (folder / "ears.py").write_text(MAILER.replace("@app.task\n", ""))
    ears = spawn("work", "ears")
    ears.hear("listener note: this process calls it from now on")
    work = spawn("work", "shop")
    work.hear("serves")
    run("submit", "greet", "--wait", PATIENCE)
    until(lambda: len(heard(folder)) == 1)
    ears.signal(signal.SIGTERM)
    assert ears.ended() == 0


def test_listeners_are_listed_with_what_they_handled(run, here):
    """Spec: X9"""
    assert run("listeners").out == "no listeners\n"
    lease = here.subscriptions.lease("mail", "laptop-1", 30.0)
    here.subscriptions.save(
        "mail",
        "laptop-1",
        Lease(lease.place, 0),
        handled=["submitted"] * 3,
        failed=["submitted"] * 2,
        skipped=["cancelled"],
    )
    name, handled, failed, skipped, *state = run("listeners").out.splitlines()[1].split()
    assert (name, handled, failed, skipped, state) == ("mail", "3", "2", "1", ["called", "by", "laptop-1"])
    [found] = run("listeners", "--json").lines
    assert (found["name"], found["handled"], found["waiting_since"], found["in_use"]) == ("mail", 3, None, True)
    here.subscriptions.save("mail", "laptop-1", Lease(lease.place, 2))
    assert "retrying, try 3" in run("listeners", "list").out
    here.subscriptions.release("mail", "laptop-1")
    here.tasks.submit(NEW)
    assert "idle since" in run("listeners", "list").out


def test_a_listener_can_be_removed(run, here):
    """Spec: X9"""
    here.subscriptions.lease("mail", "laptop-1", 30.0)
    assert run("listeners", "remove", "mail").out == "listener mail removed\n"
    assert run("listeners").out == "no listeners\n"
    answer = run("listeners", "remove", "mail")
    assert (answer.code, answer.err) == (3, "error: no listener mail\n")
