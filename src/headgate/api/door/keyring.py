"""The keys as this process knows them: two seconds old at most."""

from headgate.api.recent import Recent, Uses
from headgate.core.keys import Key
from headgate.store.store import Store
from headgate.threads import InThread

FRESH_SECONDS = 2.0


class Keyring:
    """Looks keys up, and notes which were used."""

    def __init__(self, store: Store, in_thread: InThread, noting: InThread) -> None:
        """`noting`: where uses are written, so that no key waits behind a write."""
        self._keys: Recent[int, Key | None] = Recent(store.keys.get, in_thread, FRESH_SECONDS)
        self._active: Recent[None, dict[int, Key]] = Recent(
            lambda _: {key.id: key for key in store.keys.active()}, in_thread, FRESH_SECONDS
        )
        self._any: Recent[None, bool] = Recent(lambda _: store.keys.exist(), in_thread, FRESH_SECONDS)
        self._exist = False
        self._uses: Uses[int] = Uses(lambda key_id: store.keys.note_use([key_id]), noting)

    async def exist(self) -> bool:
        """Whether there ever was a key: from then on there is no way in without one."""
        if not self._exist and await self._any.get(None):  # never back to none
            self._exist = True
        return self._exist

    async def get(self, key_id: int) -> Key | None:
        """A key, alive or not."""
        return await self._keys.get(key_id)

    async def get_active(self, key_id: int) -> Key | None:
        """A key that works. All are read at once, so that guessing ids does not cost a query each."""
        return (await self._active.get(None) or {}).get(key_id)

    def forget(self) -> None:
        """Look again at the next request: a key was made, or ended, here."""
        self._keys.forget()
        self._active.forget()
        self._any.forget()

    def note_use(self, key: Key) -> None:
        self._uses.add(key.id)

    async def close(self) -> None:
        await self._uses.close()
