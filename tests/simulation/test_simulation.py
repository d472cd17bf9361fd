"""Histories of the whole system, with crashes between any two statements: no promise is broken in any of them."""

import os
import subprocess
import sys

import pytest

from headgate.simulation.campaign import Campaign, simulate
from headgate.simulation.checker import check
from headgate.simulation.database import FAULTS
from headgate.simulation.plan import BROKER_EVERY, BROKER_TRANSACTIONS, RARE_TRANSACTIONS, Move, Plan, plan
from headgate.simulation.world import run
from headgate.store.db.scratch import scratch

SHARE = 25
HISTORIES = {"sqlite": 160, "postgres": 20}  # `make crash` lives through 20,000
FEWEST_STEPS = 200
WITH_BROKER = "8"  # a history
TRANSACTIONS = (*RARE_TRANSACTIONS, *BROKER_TRANSACTIONS)
RERUN = """
import logging, sys
from headgate.simulation.plan import plan
from headgate.simulation.world import run
from headgate.store.db.scratch import scratch
logging.disable(logging.CRITICAL)
with scratch("sqlite://") as database:
    history = run(plan(int(sys.argv[1])), database)
print(repr((history.trace, history.evidence)))
"""


def describe(campaign: Campaign) -> str:
    return "\n".join(
        [f"seed {failure.seed}: {broken.invariant} {broken.text}" for failure in campaign.failures
         for broken in failure.violations]
        + [str(move) for failure in campaign.failures for move in failure.shortest.plan.moves]
    )  # fmt: skip


@pytest.mark.parametrize("first", range(1, HISTORIES["sqlite"] + 1, SHARE))
def test_no_history_breaks_a_promise(first):
    """Spec: X5, D1, D2, D4, D5, D6, D7, D8"""
    with scratch("sqlite://") as database:
        campaign = simulate(range(first, first + SHARE), database)
    assert not campaign.failures, describe(campaign)
    assert campaign.fewest_steps >= FEWEST_STEPS
    assert campaign.with_broker >= SHARE // BROKER_EVERY


@pytest.mark.parametrize("first", range(1, HISTORIES["postgres"] + 1, SHARE // 5))
def test_no_history_breaks_a_promise_on_postgres(first, postgres_url):
    """Spec: X5, D1, D2, D4, D5, D6, D7, D8"""
    with scratch(postgres_url) as database:
        campaign = simulate(range(first, first + SHARE // 5), database)
    assert not campaign.failures, describe(campaign)
    assert campaign.faults["slow commit"]


def test_a_seed_is_the_same_history_every_time():
    """Spec: X5"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", RERUN, WITH_BROKER], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True, timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 10_000


@pytest.mark.parametrize("kind", FAULTS)
def test_every_kind_of_transaction_may_be_cut_short(kind):
    """Spec: X5"""
    missing = {what for _, what in TRANSACTIONS}
    with scratch("sqlite://") as database:
        for seed in range(1, 60):
            history = run(_cut_short(seed, kind, missing), database)
            assert check(history.evidence) == []
            missing -= {fault.removeprefix(f"{FAULTS[kind]}: ") for fault in history.faults}
            if not missing:
                break
    assert not missing


def _cut_short(seed: int, kind: str, wanted: set[str]) -> Plan:
    drawn = plan(seed, broker=True)
    faults = [
        Move(0.5, kind, {"process": process, "within": what, "statement": seed % 6})
        for process, what in TRANSACTIONS
        if what in wanted
    ]
    return Plan(seed, sorted([*drawn.moves, *faults], key=lambda move: move.at), broker=True)
