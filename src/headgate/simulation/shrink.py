"""The shortest plan that still goes wrong in the same way, found by leaving out moves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from headgate.simulation.plan import Move, Plan

MOST_TRIES = 400
OTHER_SEEDS = 3  # leaving moves out changes the timing of the rest: it may take another seed to fail again


def shrink(plan: Plan, fails: Callable[[Plan], bool], tries: int = MOST_TRIES) -> Plan:
    """Leave out ever smaller parts of the plan, as long as `fails` holds of what is left."""
    left = iter(range(tries))
    size = max(len(plan.moves) // 2, 1)
    while size:
        begin, before = 0, len(plan.moves)
        while begin < len(plan.moves):
            less = [*plan.moves[:begin], *plan.moves[begin + size :]]
            found = _still_failing(plan, less, fails, left)
            if found is None:
                begin += size
            else:
                plan = found
        if size == 1 and len(plan.moves) == before:
            break
        size = max(size // 2, 1)
    return plan


def _still_failing(
    plan: Plan, moves: Sequence[Move], fails: Callable[[Plan], bool], left: Iterator[int]
) -> Plan | None:
    for number in range(OTHER_SEEDS):
        candidate = replace(plan, seed=plan.seed + number, moves=tuple(moves))
        if next(left, None) is None:
            return None
        if fails(candidate):
            return candidate
    return None
