"""Families whose closer died: parents that wait for nothing any more."""

import logging
from functools import partial

from headgate.core.errors import HeadgateError, Unavailable
from headgate.service import InThread, Service
from headgate.store.store import Store

PAGE = 500
ROUND_SECONDS = 5.0
log = logging.getLogger("headgate.families")


class CloseFamilies(Service):
    """Looks after every waiting parent, a page a turn; 0 at the end of the round."""

    name = "families"
    pause_after_work = 0.1

    def __init__(self, store: Store, in_thread: InThread, *, page: int = PAGE) -> None:
        super().__init__(ROUND_SECONDS)
        self._store = store
        self._in_thread = in_thread
        self._page = page
        self._after = 0

    async def turn(self) -> int:
        stalled, after = await self._in_thread(
            partial(self._store.families.stalled, after=self._after, limit=self._page)
        )
        for parent_id in stalled:
            try:
                await self._in_thread(self._store.families.look_after, [parent_id])
            except Unavailable:
                raise
            except HeadgateError as error:  # the others' families are not to wait for this one
                log.error("the family of task %d cannot be closed: %s", parent_id, error)
        self._after = after or 0
        return 0 if after is None else self._page
