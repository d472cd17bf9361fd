"""Queues tasks whose start time has passed."""

from headgate.duties.duty import Duty

BATCH = 1000


class BringDue(Duty):
    """Queues due tasks a batch at a time, and sleeps until the next one's time."""

    name = "due"
    pause = 1.0  # any process may submit an earlier time, without a wake-up

    async def turn(self) -> int:
        self.next_in = await self._in_thread(self._store.due.next_in)
        if self.next_in is None or self.next_in > 0:
            return 0
        return await self._in_thread(self._store.due.bring, BATCH)
