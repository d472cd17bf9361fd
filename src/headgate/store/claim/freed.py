"""Room in limits: what executions give up, less what is taken again in the same transaction, is news."""

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
    for holder in holders:
        if holder.lane in catalog.limited:
            gate = f"lane {holder.lane}"
            room[gate] = room.get(gate, 0) + step
        for name in catalog.type(holder.type).uses:
            gate = f"resource {name}"
            room[gate] = room.get(gate, 0) + step
