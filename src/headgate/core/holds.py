"""Resources that running handlers take for a part of their run: whose turn it is.

First come, first served. Handlers that wait are ordered by when they asked. Between them and queued tasks whose type
uses the resource, task ids tell which came first: a handler that asks notes the newest task id. A claim leaves room for
handlers that asked before its task was submitted (`came_before`). A handler lets an older task go first
(`Turn.yields`), but only for a moment: that task may be unable to start for other reasons.

A handler that keeps one resource while it waits for another may close a `circle`.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.core.errors import Deadlock

YIELD_SECONDS = 0.25  # a worker with a free slot claims within this, once it is woken

Asked = Mapping[str, Sequence[int]]  # by gate: the newest task as of each that waits, in ascending order


@dataclass(frozen=True, slots=True)
class Hold:
    """A running task that holds a resource for a part of its run, or waits for it."""

    id: int  # in the order of asking
    resource: str
    task_id: int
    tenant_id: int
    held: bool
    newest_task: int
    since: datetime
    keeps: tuple[str, ...] = ()  # resources that are not released before this wait ends

    def is_behind(self, other: "Hold") -> bool:
        """Whether the other asked before this one."""
        return other.id < self.id


@dataclass(frozen=True, slots=True)
class Turn:
    """The answer to an execution that asked for a resource: it holds it, waits, or lets an older task go first.

    `number` is its place in the order of asking; None: its type uses the resource, so it holds it until it ends.
    """

    number: int | None
    held: bool
    yields: bool = False


def has_turn(own: Hold, capacity: int, in_use: int, line: Collection[Hold]) -> bool:
    """Whether there is room for one that waits, and for all ahead of it; `in_use` counts running tasks whose type uses
    the resource."""
    held = sum(other.held for other in line)
    ahead = sum(not other.held and own.is_behind(other) for other in line)
    return ahead < capacity - in_use - held


def circle(own: Hold, holds: Collection[Hold], capacities: Mapping[str, int]) -> list[Hold]:
    """The waits that can only end after this one has, and it only after them; none if there is no such circle.

    A wait may end while a place of its resource is not kept by one that cannot: whoever else has it lets go some time.
    """
    held = {(hold.task_id, hold.resource) for hold in holds if hold.held}
    stuck = [hold for hold in holds if not hold.held]
    while True:
        keepers: dict[str, list[Hold]] = defaultdict(list)
        for wait in stuck:
            for resource in wait.keeps:
                if (wait.task_id, resource) in held:
                    keepers[resource].append(wait)
        still = [wait for wait in stuck if len(keepers[wait.resource]) >= max(capacities[wait.resource], 1)]
        if len(still) == len(stuck):
            return [wait for wait in _awaited(own, keepers) if own in _awaited(wait, keepers)] if own in stuck else []
        stuck = still


def _awaited(wait: Hold, keepers: Mapping[str, Sequence[Hold]]) -> list[Hold]:
    """The waits that have to end before this one does."""
    found: dict[int, Hold] = {}
    further = [wait]
    while further:
        for keeper in keepers[further.pop().resource]:
            if keeper.id not in found:
                found[keeper.id] = keeper
                further.append(keeper)
    return list(found.values())


def deadlock(own: Hold, others: Collection[Hold]) -> Deadlock:
    """What a handler is told whose wait would close a circle with others; of another tenant's tasks only how many."""
    tasks = {hold.task_id: hold.tenant_id for hold in others if hold.task_id != own.task_id}
    named = [f"task {task_id}" for task_id, tenant_id in sorted(tasks.items()) if tenant_id == own.tenant_id]
    if strangers := len(tasks) - len(named):
        named.append(f"{strangers} task{'s' * (strangers > 1)} of other tenants")
    return Deadlock(
        f"task {own.task_id} would wait for resource {own.resource} in a circle with {', '.join(named)}:"
        f" it keeps {', '.join(own.keeps)} meanwhile. Take resources in the same order everywhere"
    )


def came_before(asked: Asked, gate: str, task_id: int) -> int:
    """How many handlers that wait at a gate asked for it before a task was submitted."""
    return bisect_left(asked[gate], task_id) if gate in asked else 0
