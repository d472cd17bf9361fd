"""Removes old tasks on demand: batch by batch, with a pause between batches."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from headgate.core.states import State
from headgate.duties.archive import BATCH, DAY_SECONDS
from headgate.duties.batch_size import BatchSize
from headgate.environment import monotonic
from headgate.store.history.history import ArchiveCursor, Batch
from headgate.store.store import Store


def purge_now(
    store: Store, days: Mapping[State, float], *, at_most: float | None = None
) -> tuple[dict[str, int], bool]:
    """Remove tasks that ended in each state that many days ago; how many, and whether `at_most` seconds ran out."""
    end = None if at_most is None else monotonic() + at_most
    batch_size = BatchSize(BATCH)
    purged = dict.fromkeys((state.value for state in days), 0)
    for state, age_days in days.items():
        seconds = age_days * DAY_SECONDS
        move = partial(store.history.move, seconds=seconds)  # what goes by way of history is all removed in one way
        remove = partial(store.history.remove, state, seconds=seconds)
        for work in (move, remove):
            for count in _batches(work, batch_size):
                purged[state.value] += count if work is remove else 0
                if end is not None and monotonic() > end:
                    return purged, True
    return purged, False


def _batches(work: Callable[..., Batch], batch_size: BatchSize) -> Iterator[int]:
    """Page by page to the end; how many each took along."""
    after: ArchiveCursor | None = None
    while True:
        page = batch_size.run(partial(work, after=after))
        yield page.count
        if not page.more:
            return
        after = page.after
        time.sleep(batch_size.rest)
