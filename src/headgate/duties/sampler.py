"""Counts what waits and what happened, every few seconds, for people."""

from headgate.duties.duty import Duty


class Sampler(Duty):
    """Takes the sample that the counts are made of, and counts what has happened for the charts."""

    name = "sampler"
    pause = 5.0

    async def turn(self) -> int:
        await self._in_thread(self._store.statistics.take_sample)
        await self._in_thread(self._store.series.take)
        return 0
