"""`headgate agents`: who is there, and what waits for whom."""

import re

from headgate.store.claim.contract import ClaimRequest
from tests.factories import submit

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
        ["AGENT", "TENANT", "PROCESSES", "LEASE UNTIL", "START QUEUE", "NEXT START"],
        ["gone", "0", "0", "1", "at its next claim"],
        ["idle", "3", "1", "TIME", "0"],
        ["rig", "all", "2", "TIME", "2", "TIME"],
    ]
    told = run("agents", "--json").lines
    assert [(each["agent_id"], each["start_queue"], each["next_start"] is None) for each in told] == [
        ("gone", 1, True), ("idle", 0, True), ("rig", 2, False),
    ]  # fmt: skip
