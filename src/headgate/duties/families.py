"""Families whose closer died: parents that wait for nothing any more."""

import logging

from headgate.core.errors import HeadgateError, Unavailable
from headgate.duties.duty import Duty
from headgate.events.log_lines import FIELDS

log = logging.getLogger("headgate.families")


class CloseFamilies(Duty):
    """Looks after every waiting parent, a page a turn; 0 at the end of the round."""

    name = "families"
    pause = 5.0
    pause_after_work = 0.1
    page = 500
    _after = 0

    async def turn(self) -> int:
        stalled, after = await self._in_thread(self._store.families.stalled, after=self._after, limit=self.page)
        for parent_id in stalled:
            try:
                await self._in_thread(self._store.families.look_after, [parent_id])
            except Unavailable:
                raise
            except HeadgateError as error:  # other families must not wait for this one
                fields = {FIELDS: {"task_id": parent_id}}
                log.error("parent task could not be ended, retrying: task=%d error=%s", parent_id, error, extra=fields)
        self._after = after or 0
        return 0 if after is None else self.page
