"""How the broker is doing: what the dispatcher and the consumers said of themselves, and what was handed over."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from headgate.core.queues import queue_name, routes
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import pairs_of
from headgate.store.db.database import Database, Noun, reads
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Statement, clock, moment
from headgate.store.execution.workers import BY_BROKER, WorkerRecord, workers

IN_BROKER = Statement(
    f"""
    SELECT stream_id, count(*), min(scheduling_time) FROM headgate_task
     WHERE status IN {HELD_STATES} AND status = 'scheduling' AND worker_id = :worker_id GROUP BY stream_id
    """
)


class BrokerQueue(NamedTuple):
    """A queue and the tasks in it that have not started; `since`: when the first of them was handed over."""

    name: str
    tasks: int = 0
    since: datetime | None = None


class Dispatching(NamedTuple):
    """The process that hands tasks to the broker."""

    worker_id: int
    process: str
    since: datetime


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """Without a dispatcher no task goes through the broker: workers claim from the store.

    Messages, and deliveries by worker, are counted by outcome since their processes began.
    """

    dispatcher: Dispatching | None
    consumers: int  # workers and agents that take what is delivered
    queues: list[BrokerQueue]
    messages: Mapping[str, int]
    deliveries: Mapping[str, Mapping[str, int]]
    dead_letters: int | None  # messages in the dead-letter queue; None: not known

    @property
    def tasks(self) -> int:
        """Tasks in the broker, not started yet."""
        return sum(queue.tasks for queue in self.queues)


class BrokerReports(Noun):
    """How the broker is doing, as far as the store knows. The broker itself is not asked."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        super().__init__(database)
        self._catalog = catalog

    @reads
    def current(self, db: Db) -> BrokerReport:
        now = clock(db)
        details = {each: json.loads(each.detail or "{}") for each in workers(db) if each.lease_until > now}
        leader = next((each for each in details if each.kind == "dispatcher"), None)
        detail: dict[str, Any] = {} if leader is None else details[leader]
        consumers = [each for each in details if details[each].get(BY_BROKER) is True]
        return BrokerReport(
            None if leader is None else Dispatching(leader.id, detail.get("process", ""), leader.started_at),
            len(consumers),
            self._queues(db, leader, consumers),
            detail.get("messages", {}),
            _by_name((each.name, details[each]["deliveries"]) for each in details if "deliveries" in details[each]),
            detail.get("dead_letters"),
        )

    def _queues(self, db: Db, leader: WorkerRecord | None, consumers: list[WorkerRecord]) -> list[BrokerQueue]:
        """Those that somebody consumes, and those that hold something."""
        catalog = self._catalog.fresh(db)
        names = routes(pairs_of(catalog.streams))
        served = {code for each in consumers for code in each.types or ()}
        found = {name: BrokerQueue(name) for (_, code), name in names.items() if code in served}
        found |= {name: BrokerQueue(name) for code in served for name in [queue_name(catalog.type(code).lane, code)]}
        held = [] if leader is None else db.rows(IN_BROKER, worker_id=leader.id)
        for stream_id, count, first in held:
            if (stream := catalog.streams.get(stream_id)) is not None:
                name = names[stream.lane, stream.type]
                known, since = found.get(name, BrokerQueue(name)), moment(first)
                found[name] = BrokerQueue(name, known.tasks + count, min(since, known.since or since))
        return sorted(found.values())


def _by_name(counts: Iterable[tuple[str, Mapping[str, int]]]) -> dict[str, Counter[str]]:
    """Deliveries by worker; workers of one name are counted together."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, each in counts:
        found[name].update(each)
    return dict(found)


def total(deliveries: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """What came of all deliveries together."""
    found: Counter[str] = Counter()
    for counts in deliveries.values():
        found.update(counts)
    return found
