"""Claims: at most one caller gets a task, and no limit is ever exceeded, on either database."""

import headgate.store.claim.postgres as postgres
import headgate.store.claim.sqlite as sqlite
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.contract import Claimed, ClaimRequest
from headgate.store.claim.cursors import Cursors
from headgate.store.db.database import Database
from headgate.store.db.deferred import Deferred
from headgate.store.db.statement import Db


class Claims:
    """How executors get tasks."""

    def __init__(self, database: Database, catalog: Catalog, cursors: Cursors) -> None:
        self._database = database
        self._catalog = catalog
        self._cursors = cursors
        self._claim = sqlite.claim if database.dialect == "sqlite" else postgres.claim

    def take(self, request: ClaimRequest) -> Claimed:
        """Start what every gate lets through, in the order of priority, then creation.

        At most one caller gets a task. Lanes, resources, rate limits and mutexes are never exceeded. `WorkerLost`
        if the worker was declared lost.
        """
        return self._database.write(lambda db: self.take_in(db, request))

    def take_in(self, db: Db, request: ClaimRequest) -> Claimed | Deferred[Claimed]:
        """`take`, as part of a transaction."""
        return self._claim(db, self._catalog, request, self._cursors)
