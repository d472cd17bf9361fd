"""What an action reads does not grow with what waits, wherever it waits and whatever the planner knows of it."""

import os
from collections.abc import Callable

import pytest

from headgate.core.limits import Rate
from headgate.core.machine import Raised, Returned, Snoozed
from headgate.core.task import NewTask
from headgate.store.claim.contract import Outcome
from tests.plans.conftest import Cost, Deep

MANY = 50_000
KEY = f"key {os.getpid()}"


def waits(deep: Deep, **fields: object) -> int:
    return deep.store.tasks.submit(NewTask(**{"type": "plain", **fields})).id  # type: ignore[arg-type]


def in_line(deep: Deep) -> int:
    return waits(deep)


def in_a_paused_lane(deep: Deep) -> int:
    deep.store.lanes.pause("shut")
    return waits(deep, lane="shut", priority=1)


def in_a_full_lane(deep: Deep) -> int:
    deep.store.lanes.set_capacity("full", 1)
    task_id = waits(deep, lane="full", priority=1)
    waits(deep, lane="full", priority=0)
    deep.claim(1)
    return task_id


def of_another_type(deep: Deep) -> int:
    return waits(deep, type="manual", priority=1)


def of_another_tenant(deep: Deep) -> int:
    return waits(deep, tenant_id=7, priority=1)


def in_the_future(deep: Deep) -> int:
    return waits(deep, delay_seconds=10**6)


def that_are_paused(deep: Deep) -> int:
    return deep.store.tasks.pause(waits(deep)).id


def that_are_finished(deep: Deep) -> int:
    return deep.store.tasks.cancel(waits(deep)).id


def behind_one_mutex(deep: Deep) -> int:
    waits(deep, mutex=KEY, priority=1)
    return waits(deep, mutex=KEY, priority=2)


def behind_a_held_mutex(deep: Deep) -> int:
    waits(deep, mutex=KEY, priority=0)
    deep.claim(1)
    return waits(deep, mutex=KEY, priority=2)


def of_a_rate_key_without_tokens(deep: Deep) -> int:
    deep.store.rate_limits.set("key:slow", Rate(0.001, 1))
    waits(deep, rate_key="slow", priority=0)
    deep.claim(1)
    return waits(deep, rate_key="slow", priority=0)


def that_are_children(deep: Deep) -> int:
    parent = waits(deep, priority=0)
    deep.claim(1)
    return waits(deep, parent_id=parent, delay_seconds=10**6)


PLACES: list[Callable[[Deep], int]] = [
    in_line, in_a_paused_lane, in_a_full_lane, of_another_type, of_another_tenant, in_the_future, that_are_paused,
    that_are_finished, behind_one_mutex, behind_a_held_mutex, of_a_rate_key_without_tokens, that_are_children,
]  # fmt: skip


def a_day(deep: Deep) -> dict[str, Cost]:
    """Each thing a busy process does, and what it read of the task table."""
    store, costs = deep.store, {}

    def meter(name: str, action: Callable[[], object]) -> None:
        costs[name] = deep.cost(action)

    new_tasks = [NewTask("plain", priority=3)] * 6
    meter("submit", lambda: store.tasks.submit_many(new_tasks))
    meter("submit to a line", lambda: store.tasks.submit(NewTask("plain", mutex=KEY, priority=9)))
    held = []
    meter("claim", lambda: held.extend(deep.claim(3, types=frozenset({"plain"}), tenant_id=0)))
    meter("claim more", lambda: held.extend(deep.claim(3, types=frozenset({"plain"}), tenant_id=0)))
    assert len(held) == 6
    meter("settle", lambda: store.executions.settle([Outcome(execution, Returned()) for execution in held[:2]]))
    ends = [
        Outcome(held[2], Raised("again", 0.0)),
        Outcome(held[3], Snoozed(0.0)),
        Outcome(held[4], Raised("no")),
    ]
    meter("settle otherwise", lambda: store.executions.settle(ends))
    meter("due", store.due.bring)
    meter("give back", lambda: store.executions.give_back(held[5].id, held[5].exec_id))
    meter("prioritize", lambda: store.tasks.prioritize(held[5].id))
    meter("cancel", lambda: store.tasks.cancel(held[5].id))
    again = deep.claim(2, types=frozenset({"plain"}), tenant_id=0)
    meter("overdue", store.executions.end_overdue)
    meter("beat", lambda: store.workers.beat(deep.worker_id, [execution.id for execution in again]))
    meter("rescue", lambda: store.executions.rescue(deep.worker_id))
    deep.store.executions.settle([Outcome(execution, Returned()) for execution in again])
    meter("families", lambda: [store.families.close(parent) for parent in store.families.waiting()])
    meter("why", lambda: store.tasks.why(held[0].id))
    return costs


def compare(few: dict[str, Cost], many: dict[str, Cost], planned: str) -> None:
    for name in few:
        assert many[name].scans == 0, f"{name} scans the table, {planned}"
        assert many[name].entries <= few[name].entries + 100, f"{name}, {planned}: {few[name]} became {many[name]}"
        assert many[name].pages <= 2 * few[name].pages + 100, f"{name}, {planned}: {few[name]} became {many[name]}"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_day_reads_no_more_with_many_waiting_than_with_ten(deep, place):
    """Spec: X4. Whenever its statements were planned, and whatever the planner was told by then."""
    deep.know_nothing()
    deep.remember(place(deep))
    deep.load(10)
    a_day(deep)
    few = a_day(deep)
    deep.load(MANY)
    compare(few, a_day(deep), "planned for few, nothing counted")
    deep.analyze()
    compare(few, a_day(deep), "planned for many")
    deep.drain(MANY)
    deep.analyze()
    deep.open_again()
    a_day(deep)
    few = a_day(deep)
    deep.load(MANY)
    compare(few, a_day(deep), "planned for few, which were counted")
