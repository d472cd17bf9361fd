"""Every duty of the pack, for the processes that load them; those about deletion are in a file of their own."""

from headgate.packs import Duty, Seals
from headgate.packs.media.cookies import Cookies
from headgate.packs.media.deletion import FinishDeletions, RemoveDeleted


class ResealCookies(Duty):
    """Seals cookies under the newest HEADGATE_SECRET, so that an older one can go."""

    name = "media cookies"
    pause = 3600.0
    page = 100  # cookies

    async def turn(self) -> int:
        cookies = Cookies(self._store.database, Seals(self._settings.secrets))
        return await self._in_thread(lambda: cookies.reseal(limit=self.page))


DUTIES = (FinishDeletions, RemoveDeleted, ResealCookies)
