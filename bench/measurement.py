"""A row of the table: what is measured, on which stores, and what it should reach."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from bench.figure import Figure, Scale
from bench.place import Place
from headgate.core.task import TaskType
from headgate.store.store import Store, open_store

TYPE = "work"
EXT = '{"video": "a7c2e9", "quality": 1080}'


@dataclass(frozen=True, slots=True)
class Measurement:
    name: str  # may quote the scale: `{depth:,}`
    run: Callable[[Place, Scale], Figure]
    targets: Mapping[str, float] = field(default_factory=dict)  # a ratio, by dialect
    dialects: tuple[str, ...] = ("sqlite", "postgres")

    def title(self, scale: Scale) -> str:
        return self.name.format(**asdict(scale))


def both(ratio: float) -> dict[str, float]:
    return {"sqlite": ratio, "postgres": ratio}


@contextmanager
def fresh_store(place: Place) -> Iterator[tuple[Store, str]]:
    """An empty store that knows one type, and its URL."""
    with place.fresh() as url, open_store(url) as store:
        store.migrate()
        store.types.put(TaskType(TYPE))
        yield store, url
