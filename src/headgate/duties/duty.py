"""What every duty works with."""

from collections.abc import Callable

from headgate.environment import monotonic
from headgate.service import Service
from headgate.settings import Settings
from headgate.store.store import Store
from headgate.threads import InThread


class Duty(Service):
    """A service that looks after a store. `monotonic` is the one clock that it trusts."""

    def __init__(self, store: Store, settings: Settings, in_thread: InThread) -> None:
        super().__init__()
        self.monotonic: Callable[[], float] = monotonic
        self._store = store
        self._settings = settings
        self._in_thread = in_thread
