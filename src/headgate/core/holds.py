"""Resources that running handlers take for a part of their run: whose turn it is.

First come, first served. Handlers that wait are ordered by when they asked. Between them and queued tasks whose type
uses the resource, task ids tell which came first: a handler that asks notes the newest task id. A claim leaves room for
handlers that asked before its task was submitted (`came_before`). A handler lets an older task go first
(`Turn.yields`), but only for a moment: that task may be unable to start for other reasons.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

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


def came_before(asked: Asked, gate: str, task_id: int) -> int:
    """How many handlers that wait at a gate asked for it before a task was submitted."""
    return bisect_left(asked[gate], task_id) if gate in asked else 0
