"""A store's listeners, and what they were told, to be waited for."""

import queue

from headgate.store.store import Store

PATIENCE = 120.0


class Ears:
    """Hears a store's news from now on, and, once `listening`, those of others."""

    def __init__(self, store: Store) -> None:
        self.wakes: queue.Queue[dict[int, tuple[int, int]]] = queue.Queue()
        self.asked: queue.Queue[set[int]] = queue.Queue()
        self.store = store
        store.wakeups.on_work(self.wakes.put)
        store.wakeups.on_requests(self.asked.put)

    def listening(self) -> "Ears":
        """Return once others are heard."""
        self.store.wakeups.listen()
        assert self.next_wake() == {}
        while not self.asked.empty():  # at that moment something may be asked of anybody
            self.asked.get()
        return self

    def next_wake(self) -> dict[int, tuple[int, int]]:
        return self.wakes.get(timeout=PATIENCE)

    def next_asked(self) -> set[int]:
        return self.asked.get(timeout=PATIENCE)

    def wake_for(self, task_id: int) -> None:
        """Return once this very task is named; whatever is heard before it is passed over."""
        while task_id not in {named for _, named in self.next_wake().values()}:
            pass

    @property
    def silent(self) -> bool:
        """Whether nothing was told but what was taken."""
        return self.wakes.empty() and self.asked.empty()
