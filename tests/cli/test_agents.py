"""`headgate workers` and `headgate agents`: who is there, and what waits for whom."""

import json
import re

from headgate.store.claim.contract import ClaimRequest
from tests.factories import running, submit

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")


def test_it_shows_who_is_there_and_what_waits_for_whom(anywhere, run):
    """Spec: E3"""
    for agent_id in ("rig", "rig", "rig", "gone"):
        submit(anywhere, agent_id=agent_id)
    rig = anywhere.agents.sign_on("rig", tenant_id=None, types=None, lease_seconds=30, instance="1")
    anywhere.agents.sign_on("rig", tenant_id=None, types=None, lease_seconds=30, instance="2")
    anywhere.agents.sign_on("idle", tenant_id=3, types=None, lease_seconds=30)
    anywhere.workers.register("a worker")
    anywhere.agents.hand_over(ClaimRequest(rig.worker_id, 1, agent_id="rig", start_seconds=600))
    shown = [re.split(r"  +", TIME.sub("TIME", line).strip()) for line in run("agents").out.splitlines()]
    assert shown == [
        ["AGENT", "TENANT", "PROCESSES", "RUNNING", "LEASE UNTIL", "START QUEUE", "NEXT START"],
        ["gone", "0", "0", "0", "1", "at its next claim"],
        ["idle", "3", "1", "0", "TIME", "0"],
        ["rig", "all", "2", "1", "TIME", "2", "TIME"],
    ]
    told = run("agents", "--json").lines
    assert [(each["agent_id"], each["start_queue"], each["next_start"] is None) for each in told] == [
        ("gone", 1, True), ("idle", 0, True), ("rig", 2, False),
    ]  # fmt: skip


def test_an_agent_that_asked_for_no_lease_is_shown_with_none(here, run):
    """Spec: B2, B3"""
    submit(here)
    rig = here.agents.sign_on("rig", tenant_id=None, types=None, lease_seconds=30)
    here.agents.sign_on("leased", tenant_id=None, types=None, lease_seconds=30)
    assert here.agents.hand_over(ClaimRequest(rig.worker_id, 1), beyond_the_deadline=60.0).executions
    here.workers.beat(rig.worker_id)
    [leased, unleased] = run("agents", "--json").lines
    assert (unleased["agent_id"], unleased["running"], unleased["lease_until"]) == ("rig", 1, None)
    assert leased["lease_until"] is not None
    assert "no lease" in run("agents").out


def test_workers_and_their_handlers_that_do_not_stop_are_shown(anywhere, run):
    task = running(anywhere)
    anywhere.workers.register("idle")
    anywhere.agents.sign_on("rig", tenant_id=None, types=None, lease_seconds=30)
    worker_id = anywhere.tasks.get(task.id).worker_id
    anywhere.workers.beat(worker_id, detail=json.dumps({"stuck": [task.id]}))
    shown = [re.split(r"  +", TIME.sub("TIME", line).strip()) for line in run("workers").out.splitlines()]
    assert shown == [
        ["WORKER", "NAME", "RUNNING", "LEASE UNTIL", "STUCK"],
        [str(worker_id), "tester", "1", "TIME", f"task {task.id}"],
        [str(worker_id + 1), "idle", "0", "TIME"],
    ]
    assert [each["stuck"] for each in run("workers", "--json").lines] == [[task.id], []]
    [line] = [line for line in run("doctor").out.splitlines() if " workers " in line]
    assert line.startswith("warn")
    assert f"tester (task {task.id})" in line
