"""`headgate compensation`: how the search for lost starts stands, and a look by hand."""

from headgate.core.states import State
from headgate.store.claim.contract import ClaimRequest
from tests.factories import submit

NAMES = ("interval_seconds", "multiplier", "queue_size", "skips", "last_poll", "next_poll", "next_poll_in_seconds")


def test_it_shows_how_the_polling_stands(anywhere, run):
    """Spec: E4"""
    submit(anywhere, agent_id="rig")
    shown = run("compensation")
    assert shown.code == 0
    assert [line.split("  ")[0] for line in shown.out.splitlines()] == [
        "interval", "multiplier", "queue size", "skips", "last poll", "next poll",
    ]  # fmt: skip
    assert "no process runs the background duties" in shown.out
    told = run("compensation", "--json").json
    assert tuple(told) == NAMES
    assert (told["interval_seconds"], told["queue_size"], told["last_poll"]) == (10, 1, None)


def test_a_look_by_hand_finds_what_was_lost_and_is_on_record(anywhere, run, monkeypatch):
    """Spec: E4, E5"""
    monkeypatch.setenv("HEADGATE_COMPENSATION_THRESHOLD", "0.001")
    monkeypatch.setenv("HEADGATE_COMPENSATION_BASE", "7")
    task = submit(anywhere, agent_id="rig")
    worker_id = anywhere.workers.register("rig", agent_id="rig")
    anywhere.agents.hand_over(ClaimRequest(worker_id, 1, agent_id="rig"))
    said = run("compensation", "trigger").out.splitlines()
    assert said[0].split() == ["found", "1"]
    assert said[1].split() == ["interval", "7", "s"]
    assert anywhere.tasks.get(task.id).status is State.QUEUED
    told = run("compensation", "trigger", "--json").json
    assert tuple(told) == (*NAMES, "found")
    assert (told["found"], told["multiplier"], told["last_poll"] is None) == (0, 1, False)
    assert anywhere.events.last_act("compensation_triggered") is not None
