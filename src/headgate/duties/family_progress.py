"""Tells the progress of waiting parents as their children end."""

from headgate.duties.duty import Duty
from headgate.store.tasks.family_progress import EVENT_SECONDS


class TellFamilyProgress(Duty):
    """Looks at every waiting parent, a page a turn; 0 at the end of the round. Rounds are rare while none waits."""

    name = "family progress"
    pause = 7.0
    pause_after_work = 0.1
    page = 20
    _after = 0

    async def turn(self) -> int:
        families = self._store.family_progress
        seen, untold, after = await self._in_thread(families.waiting, after=self._after, limit=self.page)
        for each in untold:
            await self._in_thread(families.tell, each)
        self.next_in = EVENT_SECONDS if seen or self._after else None
        self._after = after or 0
        return 0 if after is None else self.page
