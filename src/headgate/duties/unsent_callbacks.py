"""A warning where callbacks are owed and no process sends them, as with `headgate work` alone."""

import logging

from headgate.duties.duty import Duty

log = logging.getLogger("headgate.callbacks")


class UnsentCallbacks(Duty):
    """Warns once that no process sends the callbacks that are due, and again if that recurs."""

    name = "unsent callbacks"
    pause = 30.0
    _said = False

    async def turn(self) -> int:
        unsent = await self._in_thread(self._store.deliveries.unsent)
        if unsent and not self._said:
            log.warning(
                "callbacks are pending and no process sends them: run `headgate up`, `headgate serve` or"
                " `headgate duties`"
            )
        self._said = unsent
        return 0
