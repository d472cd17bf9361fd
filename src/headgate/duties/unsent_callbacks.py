"""A warning where callbacks are owed and no process sends them, as with `headgate work` alone."""

import logging

from headgate.duties.duty import Duty

log = logging.getLogger("headgate.callbacks")


class UnsentCallbacks(Duty):
    """Says once that nobody sends what is owed, and again when somebody did in between."""

    name = "unsent callbacks"
    pause = 30.0
    _said = False

    async def turn(self) -> int:
        unsent = await self._in_thread(self._store.deliveries.unsent)
        if unsent and not self._said:
            log.warning(
                "callbacks are owed and no process sends them: run `headgate up`, `headgate serve` or `headgate duties`"
            )
        self._said = unsent
        return 0
