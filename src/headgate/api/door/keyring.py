"""The keys as this process knows them: two seconds old at most."""

from headgate.api.recent import Recent, Uses
from headgate.core.keys import Key
from headgate.store.store import Store
from headgate.threads import InThread

FRESH_SECONDS = 2.0


class Keyring:
    """Looks keys up, and notes which were used."""

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._keys: Recent[int, Key | None] = Recent(store.keys.get, in_thread, FRESH_SECONDS)
        self._any: Recent[None, bool] = Recent(lambda _: store.keys.exist(), in_thread, FRESH_SECONDS)
        self._exist = False
        self._uses: Uses[int] = Uses(lambda key_id: store.keys.note_use([key_id]), in_thread)

    async def exist(self) -> bool:
        """Whether there ever was a key: from then on there is no way in without one."""
        if not self._exist and await self._any.get(None):  # never back to none
            self._exist = True
        return self._exist

    async def get(self, key_id: int, *, only_known: bool = False) -> Key | None:
        """A key, alive or not; `only_known`: without asking the store for one that was not used lately."""
        return await self._keys.get(key_id, only_known=only_known)

    def forget(self) -> None:
        """Look again at the next request: a key was made, or ended, here."""
        self._keys.forget()
        self._any.forget()

    def note_use(self, key: Key) -> None:
        self._uses.add(key.id)

    async def close(self) -> None:
        await self._uses.close()
