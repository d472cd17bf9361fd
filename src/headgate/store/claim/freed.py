"""Room in limits: what executions give up, less what is taken again in the same transaction, is news."""

from collections import Counter
from collections.abc import Iterable

from headgate.core.task import Execution, Task
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.statement import Db

Holder = Task | Execution  # fills a place in its lane and in the resources its type uses


def give_up(db: Db, catalog: Catalog, holders: Iterable[Holder]) -> None:
    """Note that these executions hold nothing any more: where there is a limit, others may start."""
    _count(db, catalog, holders, 1)


def take_again(db: Db, catalog: Catalog, holders: Iterable[Holder]) -> None:
    """Note that these filled what was given up."""
    if db.news.room:
        _count(db, catalog, holders, -1)


def _count(db: Db, catalog: Catalog, holders: Iterable[Holder], step: int) -> None:
    room = db.news.room
    for (lane, type_code), count in Counter((holder.lane, holder.type) for holder in holders).items():
        gates = [f"resource {name}" for name in catalog.type(type_code).uses]
        if lane in catalog.limited:
            gates.append(f"lane {lane}")
        for gate in gates:
            room[gate] = room.get(gate, 0) + step * count
