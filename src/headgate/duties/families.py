"""Families whose closer died: parents that wait for nothing any more."""

import logging
from functools import partial

from headgate.core.errors import HeadgateError, Unavailable
from headgate.service import Aside, Service
from headgate.store.base import Store

PAGE = 500
ROUND_SECONDS = 5.0
log = logging.getLogger("headgate.families")


class Families(Service):
    """Looks after every waiting parent, a page a turn; 0 at the end of the round."""

    name = "families"
    breath = 0.1

    def __init__(self, store: Store, aside: Aside, *, page: int = PAGE) -> None:
        super().__init__(ROUND_SECONDS)
        self._store = store
        self._aside = aside
        self._page = page
        self._after = 0

    async def turn(self) -> int:
        stalled, after = await self._aside(partial(self._store.families.stalled, after=self._after, limit=self._page))
        for parent_id in stalled:
            try:
                await self._aside(self._store.families.look_after, [parent_id])
            except Unavailable:
                raise
            except HeadgateError as error:  # the others' families are not to wait for this one
                log.error("the family of task %d cannot be closed: %s", parent_id, error)
        self._after = after or 0
        return 0 if after is None else self._page
