"""Parent and children: how far a family is, when its remaining children are cancelled, and how it ends."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import Invalid
from headgate.core.states import OPEN, State

CONTINUE, CANCEL = "continue", "cancel"  # what becomes of the other children when one has failed for good
ENDED_WELL = frozenset({State.SUCCEEDED, State.RESOLVED})
# A child that failed for good. A cancelled child does not count: the canceller knew of the others.
FAILED_FOR_GOOD = frozenset({State.FAILED, State.DEAD, State.PARTIAL})


def check_policy(policy: str | None) -> None:
    if policy not in (None, CONTINUE, CANCEL):
        raise Invalid(f"on_child_failure must be {CONTINUE!r} or {CANCEL!r}")


@dataclass(frozen=True, slots=True)
class Children:
    """How many ended well, how many did not, and how many are open; a cancelled or dead child counts as failed."""

    succeeded: int = 0
    failed: int = 0
    open: int = 0

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed

    @property
    def total(self) -> int:
        return self.ended + self.open


@dataclass(frozen=True, slots=True)
class Census:
    """How many children are in each state; not `exact` where there were too many to count all of them."""

    states: Mapping[State, int]
    exact: bool = True

    @property
    def children(self) -> Children:
        well, going = self._in(ENDED_WELL), self._in(OPEN)
        return Children(well, sum(self.states.values()) - well - going, going)

    def _in(self, states: frozenset[State]) -> int:
        return sum(count for state, count in self.states.items() if state in states)


def progress_of(own: Any, status: State, children: Children) -> Any:
    """How far a parent is: what its code says while it runs, from then on how many of its children have ended, with
    the note and the data of its code."""
    if own is not None and status is State.RUNNING:
        return own
    progress: dict[str, Any] = {"done": children.ended, "total": children.total}
    if children.failed:
        progress["failed"] = children.failed
    own_fields = {name: own[name] for name in ("note", "data") if name in own} if isinstance(own, dict) else {}
    return progress | own_fields


def why_cancelled(*, cancelled: bool, gave_up: bool, broken: bool) -> str | None:
    """Why a parent's open children must be cancelled; None if they may continue.

    `broken`: a child failed for good, and the parent's policy is to cancel the rest then.
    """
    if cancelled:
        return "its parent was cancelled"
    if gave_up:
        return "its parent gave up"
    return "another child of its parent failed" if broken else None


def family_end(children: Children, *, cancelled: bool, callback: bool) -> State:
    """The state of a parent whose own code is done and whose children have all ended."""
    if cancelled:
        return State.CANCELLED
    if children.failed == 0:
        return State.NOTIFYING if callback else State.SUCCEEDED
    return State.PARTIAL if children.succeeded else State.FAILED
