"""Refusals in the log, sampled, since the refused client decides how many there are."""

import logging
from collections import OrderedDict
from typing import Any

from headgate.api.door.address import network_of
from headgate.environment import monotonic

REFUSALS = frozenset({401, 403, 429})
SECONDS = 10.0  # between two lines about the same address and status
MOST_ADDRESSES = 1_000
LONGEST_PATH = 200
log = logging.getLogger("headgate.api")


class RefusalLog:
    """A line for the first refusal of an address, then one in ten seconds at most, with how many it stands for."""

    def __init__(self) -> None:
        self._unlogged: OrderedDict[tuple[str, int], tuple[float, int]] = OrderedDict()

    def add(self, status: int, scope: Any, key_id: int | None) -> None:
        """A request was refused. `key_id` is the key it came with, or said that it did."""
        address = scope["state"]["client"]
        subject = network_of(address), status
        next_line, left_out = self._unlogged.get(subject, (0.0, 0))
        now = monotonic()
        if now < next_line:
            self._unlogged[subject] = next_line, left_out + 1
            return
        self._unlogged[subject] = now + SECONDS, 0
        self._unlogged.move_to_end(subject)
        if len(self._unlogged) > MOST_ADDRESSES:
            self._unlogged.popitem(last=False)
        log.info(
            "refused: status=%d address=%s key=%s method=%s path=%s more=%d",
            status, address, "-" if key_id is None else key_id, scope["method"], scope["path"][:LONGEST_PATH], left_out,
        )  # fmt: skip
