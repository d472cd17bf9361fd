"""How full the start queues of agents are, and when each lets the next task out: for the duty and for people."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from headgate.core.starts import LastStart
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.agent_starts import ALL_LAST_STARTS
from headgate.store.claim.contract import READY_STREAMS
from headgate.store.db.database import Database
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.db.statement import Db, clock, moment
from headgate.store.execution.workers import WorkerRecord
from headgate.store.reading.statistics import DEPTH


@dataclass(frozen=True, slots=True)
class StartQueue:
    """What waits for an agent; 10,001 stands for anything above 10,000. `next_start` None: at its next claim."""

    agent_id: str
    tenant_id: int
    size: int
    next_start: datetime | None

    def serves(self, worker: WorkerRecord) -> bool:
        """Whether this worker is the agent, and may have the tenant's tasks."""
        return worker.agent_id == self.agent_id and worker.tenant_id in (None, self.tenant_id)


class StartQueues:
    """The start queues in which something waits, or whose last start holds up the next."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._database = database
        self._catalog = catalog

    def find(self, tenant_id: int | None = None) -> list[StartQueue]:
        """Every such queue, or a tenant's, by agent and tenant."""

        def find(db: Db) -> list[StartQueue]:
            catalog, now = self._catalog.fresh(db), clock(db)
            waiting: dict[tuple[str, int], list[Stream]] = defaultdict(list)
            for (stream_id,) in db.rows(READY_STREAMS):
                stream = catalog.streams.get(stream_id)
                if stream is not None and stream.agent_id:
                    waiting[stream.agent_id, stream.tenant_id].append(stream)
            until = {}
            for agent_id, owner, started_at, seconds in db.rows(ALL_LAST_STARTS):
                held_until = LastStart(moment(started_at), seconds).holds_until(now)
                if held_until is not None:
                    until[agent_id, owner] = held_until
            return [
                StartQueue(*queue, _depth(db, waiting.get(queue, [])), until.get(queue))
                for queue in sorted({*waiting, *until})
                if tenant_id in (None, queue[1])
            ]

        return self._database.read(find)


def queue_size(db: Db, catalog: Catalog, tenant_id: int | None = None, agent_id: str | None = None) -> int:
    """How many tasks wait in the start queues of agents, or of one; 10,001 stands for anything above 10,000."""
    return _depth(
        db,
        [
            stream
            for stream in catalog.streams.values()
            if stream.agent_id and tenant_id in (None, stream.tenant_id) and agent_id in (None, stream.agent_id)
        ],
    )


def _depth(db: Db, streams: list[Stream]) -> int:
    ids = [stream.id for stream in streams]
    return int(db.rows(DEPTH, streams=ids, most=EXACT_UP_TO + 1)[0][0]) if ids else 0
