"""Repairs mutex queues after a bug or a crash."""

from headgate.duties.duty import Duty

START = (-(1 << 63), "")


class RepairMutexes(Duty):
    """Repairs every mutex queue, a page a turn; 0 at the end of the round."""

    name = "mutexes"
    pause = 60.0
    pause_after_work = 0.5
    page = 100
    _after = START

    async def turn(self) -> int:
        after = await self._in_thread(self._store.mutexes.repair, self._after, self.page)
        self._after = after or START
        return 0 if after is None else self.page
