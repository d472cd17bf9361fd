"""`make siege` runs: one attack of it, for a moment."""

import re

from lab.siege import ATTACKS, BEFORE, cost_of


def test_an_attack_of_the_siege_is_measured_and_its_neighbour_is_served():
    """Spec: X12"""
    attack = next(attack for attack in ATTACKS if attack.defenceless)
    cost = cost_of(attack, {}, seconds=0.5)
    assert cost.lost == 0
    assert re.fullmatch(r"\d+ MiB, \d+ / \d+ ms, \d+\.\d s", str(cost))
    assert all(attack.name in BEFORE or attack.defenceless for attack in ATTACKS)
