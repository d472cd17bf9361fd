"""Room in limits: what executions give up, less what is taken again in the same transaction, is news."""

from collections.abc import Iterable
from typing import Protocol

from headgate.store.catalog.catalog import Catalog
from headgate.store.db.statement import Db


class Holder(Protocol):
    """Somebody who fills a place in a lane and in the resources its type uses."""

    @property
    def lane(self) -> str: ...
    @property
    def type(self) -> str: ...


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
