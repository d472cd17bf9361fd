"""The server itself: whether it is well, who works, how it went, and what is removed."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import copied
from headgate.core.states import FINAL, State
from headgate.duties.archive import retention_days
from headgate.duties.purging import purge_now
from headgate.store.claim.start_queues import StartQueue
from headgate.store.execution.workers import BY_BROKER, WorkerRecord

DAY_SECONDS = 86400.0
PURGE_SECONDS = 10.0  # then it answers, and says whether there is more
Final = Literal["succeeded", "partial", "failed", "resolved", "cancelled"]


class Health(msgspec.Struct):
    status: Literal["ok"] = "ok"


class WorkerOut(msgspec.Struct):
    """Somebody who executes tasks, under a lease, and how many it holds now; `types` null: whatever comes.

    `kind` is `worker`, `agent`, or `dispatcher`: that one hands tasks to the broker, and holds what is in it.

    What it uses of its machine, and how many tasks it runs at once (`slots`), is as it said at its last beat; null for
    agents, which say nothing of that. `stuck` are the tasks whose handlers do not stop though they were told to: it
    claims nothing until they do. `by_broker`: it takes what the broker delivers. For an agent `start_queue` counts what
    is assigned to it and waits, `next_start` is when the next of it may start; null: at its next claim.
    """

    id: int
    name: str
    kind: Literal["worker", "agent", "dispatcher"]
    agent_id: str | None
    tenant_id: int | None
    types: list[str] | None
    lease_seconds: float
    lease_until: datetime
    lost: bool
    started_at: datetime
    running: int
    cpu_seconds: float | None
    memory_bytes: int | None
    read_bytes: int | None
    written_bytes: int | None
    slots: int | None
    by_broker: bool
    stuck: list[int]
    start_queue: int | None
    next_start: datetime | None


class WorkersOut(msgspec.Struct):
    items: list[WorkerOut]


class StatsOut(msgspec.Struct):
    """How the tasks of a type did, each counted once as it stands now. `failed` includes dead and resolved tasks.
    `success_rate` is succeeded / (succeeded + failed), null if all were cancelled. Run times
    are in seconds, of all but cancelled tasks.
    """

    type: str
    finished: int
    succeeded: int
    failed: int
    cancelled: int
    success_rate: float | None
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class Stats(msgspec.Struct):
    seconds: float
    items: list[StatsOut]


class PurgeIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be removed: ended so (default: any way), longer ago than that (default: the retention settings)."""

    older_than_days: Annotated[float, Meta(ge=0, le=36600)] | None = None
    status: Annotated[list[Final], Meta(min_length=1, max_length=5)] | None = None


class Purged(msgspec.Struct):
    """How many were removed, by how they had ended. `more`: time was up; ask again."""

    purged: dict[str, int]
    more: bool


routes = Routes("system", shared=True)


@routes.get("/livez", Role.READ, "Check that the process answers")
async def livez() -> Health:
    return Health()


@routes.get("/readyz", Role.READ, "Check that the store is writable and its schema up to date", errors=(507,))
async def readyz(server: Server) -> Health:
    """No key is needed, so the store is not queried each time."""
    await server.ready.get(None)
    return Health()


@routes.get("/api/workers", Role.READ, "List workers and agents")
async def workers(
    server: Server,
    who: Principal,
    lost: Annotated[bool, Meta(description="Include lost ones.")] = False,
) -> WorkersOut:
    def work() -> WorkersOut:
        found = server.store.workers.seen_by(who.tenant_id, lost_too=lost)
        queues = server.store.start_queues.find(who.tenant_id)
        return WorkersOut([_worker(each, [queue for queue in queues if queue.serves(each)]) for each in found])

    return await server.in_thread(work)


def _worker(worker: WorkerRecord, queues: list[StartQueue]) -> WorkerOut:
    figures = ("cpu_seconds", "memory_bytes", "read_bytes", "written_bytes")
    fields = dict.fromkeys(figures) | msgspec.json.decode(worker.detail or "{}")
    fields["slots"] = sum(pool["slots"] for pool in fields["pools"]) if "pools" in fields else None
    fields["by_broker"] = fields.get(BY_BROKER) is True
    fields |= {"types": None if worker.types is None else list(worker.types), "stuck": list(worker.stuck)}
    fields["start_queue"] = None if worker.agent_id is None else sum(queue.size for queue in queues)
    fields["next_start"] = min((queue.next_start for queue in queues if queue.next_start), default=None)
    return copied(WorkerOut, worker, **{name: fields[name] for name in WorkerOut.__struct_fields__ if name in fields})


@routes.get("/api/stats", Role.READ, "Show durations and outcomes by task type")
async def stats(
    server: Server,
    who: Principal,
    seconds: Annotated[float, Meta(description="Seconds to look back.", gt=0, le=366 * DAY_SECONDS)] = DAY_SECONDS,
) -> Stats:
    found = await server.in_thread(server.store.statistics.by_type, seconds, who.tenant_id)
    return Stats(seconds, [copied(StatsOut, each) for each in found])


@routes.post("/api/purge", Role.ADMIN, "Remove tasks that ended long ago", errors=(507,))
async def purge(server: Server, who: Principal, data: PurgeIn | None = None) -> Purged:
    """All their records are removed too. Dead tasks stay, because they wait for a person."""
    return await server.in_thread(_purge, server, who, data or PurgeIn())


def _purge(server: Server, who: Principal, request: PurgeIn) -> Purged:
    days = {
        state: retention_days(server.settings, state) if request.older_than_days is None else request.older_than_days
        for state in State
        if state.value in (request.status or FINAL)
    }
    purged, more = purge_now(server.store, days, at_most=PURGE_SECONDS)
    server.store.events.record("purged", msgspec.json.encode(purged).decode(), actor=who.actor)
    return Purged(purged, more)
