"""Parent and children: how a family ends."""

from dataclasses import dataclass

from headgate.core.states import State


@dataclass(frozen=True, slots=True)
class Children:
    """How many children ended well, and how many did not; a cancelled or dead child counts as failed."""

    succeeded: int = 0
    failed: int = 0


def family_end(children: Children, *, cancelled: bool, callback: bool) -> State:
    """The state of a parent whose own code is done and whose children have all ended."""
    if cancelled:
        return State.CANCELLED
    if children.failed == 0:
        return State.NOTIFYING if callback else State.SUCCEEDED
    return State.PARTIAL if children.succeeded else State.FAILED
