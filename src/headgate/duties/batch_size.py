"""How much to do at once, and how long to rest, so that others never wait long for a batch."""

from collections.abc import Callable
from typing import TypeVar

from headgate.environment import monotonic

T = TypeVar("T")
LONG_SECONDS = 0.025  # as long as a claim may wait for a batch
FEWEST_ROWS = 100
REST_FACTOR = 4  # times as long as it worked, so that others have most of the time
LONGEST_REST_SECONDS = 0.05


class BatchSize:
    """A number of rows: fewer after a batch that took long, slowly more again after quick ones."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.rows = most
        self.rest = LONGEST_REST_SECONDS

    def run(self, work: Callable[..., T]) -> T:
        """Do one batch, and adjust the size to the time it took."""
        begun = monotonic()
        done = work(limit=self.rows)
        self.adjust(monotonic() - begun)
        return done

    def adjust(self, seconds: float) -> None:
        """Adjust the size to the time a batch took."""
        if seconds > LONG_SECONDS:
            self.rows = max(self.rows // 2, min(FEWEST_ROWS, self.most))
        else:
            self.rows = min(self.rows + self.rows // 4 + 1, self.most)
        self.rest = min(REST_FACTOR * seconds, LONGEST_REST_SECONDS)
