"""What a child's start and end read does not grow with its family, wherever the others of it are."""

from collections.abc import Callable

import pytest

from headgate.core.machine import Raised, Returned
from headgate.core.task import Execution, NewTask
from headgate.store.claim.contract import Outcome
from tests.plans.conftest import Cost, Deep
from tests.plans.test_depth import KEY, waits

MANY = 20_000


def parent_of(deep: Deep, **fields: object) -> int:
    """A parent that runs; nothing else is claimable."""
    parent = waits(deep, priority=0, **fields)
    assert [execution.id for execution in deep.claim(1)] == [parent]
    return parent


def that_wait_for_their_time(deep: Deep, parent: int) -> int:
    return waits(deep, parent_id=parent, delay_seconds=10**6)


def that_are_queued(deep: Deep, parent: int) -> int:
    return waits(deep, parent_id=parent, priority=9)


def that_have_ended(deep: Deep, parent: int) -> int:
    waits(deep, parent_id=parent, delay_seconds=10**6)  # for whom the parent waits
    return deep.store.tasks.cancel(waits(deep, parent_id=parent)).id


def that_are_cousins(deep: Deep, parent: int) -> int:
    sibling = waits(deep, parent_id=parent, delay_seconds=10**6)
    return waits(deep, parent_id=sibling, delay_seconds=10**6)


def behind_the_mutex(deep: Deep, parent: int) -> int:
    waits(deep, parent_id=parent, mutex=KEY, priority=8)
    return waits(deep, parent_id=parent, mutex=KEY, priority=9)


OTHERS: list[Callable[[Deep, int], int]] = [
    that_wait_for_their_time, that_are_queued, that_have_ended, that_are_cousins, behind_the_mutex,
]  # fmt: skip


def a_childhood(deep: Deep, parent: int, **fields: object) -> dict[str, Cost]:
    """A child is made, started and ended, well and badly; somebody looks after the family."""
    costs = {}

    def meter(name: str, action: Callable[[], object]) -> None:
        costs[name] = deep.cost(action)

    for name, end in (("well", Returned()), ("badly", Raised("no")), ("for now", Raised("again", 10.0**6))):
        new = NewTask("plain", parent_id=parent, priority=1, **fields)  # type: ignore[arg-type]
        meter(f"submit, {name}", lambda new=new: deep.store.tasks.submit(new))  # type: ignore[misc]
        started: list[Execution] = []
        meter(f"claim, {name}", lambda started=started: started.extend(deep.claim(1)))  # type: ignore[misc]
        meter(f"settle, {name}", lambda one=started[0], end=end: deep.store.executions.settle([Outcome(one, end)]))  # type: ignore[misc]
    meter("look after", lambda: deep.store.families.look_after([parent]))
    meter("look for stalled ones", deep.store.families.stalled)
    return costs


@pytest.mark.parametrize("others", OTHERS, ids=lambda others: others.__name__)
@pytest.mark.parametrize("waits", [True, False], ids=["a parent that waits", "a parent that runs"])
def test_a_child_costs_no_more_in_a_large_family(deep, others, waits):
    """Spec: D7, X4"""
    fields = {"mutex": KEY} if others is behind_the_mutex and waits else {}
    parent = parent_of(deep, on_child_failure="continue", **fields)
    deep.remember(others(deep, parent))
    if waits:
        [row] = deep.store.agents.holdings([parent]).values()
        deep.store.executions.settle([Outcome(row.execution, Returned())])
    deep.load(10)
    a_childhood(deep, parent, **fields)
    few = a_childhood(deep, parent, **fields)
    deep.load(MANY)
    for planned in ("planned for few", "planned for many"):
        many = a_childhood(deep, parent, **fields)
        for name in few:
            assert many[name].scans == 0, f"{name} scans the table, {planned}"
            assert many[name].entries <= few[name].entries + 50, f"{name}, {planned}: {few[name]} became {many[name]}"
            assert many[name].pages <= 2 * few[name].pages + 100, f"{name}, {planned}: {few[name]} became {many[name]}"
        deep.analyze()
        deep.open_again()
        a_childhood(deep, parent, **fields)
