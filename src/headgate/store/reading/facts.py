"""What decides whether a task may start, or end, as it stands in the store: behind `why` and the forecast."""

from datetime import datetime, timedelta

from headgate.core.callbacks import SENDER_SILENT_SECONDS, CallbackKind, Delivery
from headgate.core.gates import Bucket, CapacityLimit, Facts, PendingCallback, Server
from headgate.core.limits import Rate, limit_name
from headgate.core.pause import keys_of
from headgate.core.queues import routes
from headgate.core.states import State
from headgate.core.task import Task
from headgate.store.callbacks.holds import sender_seen
from headgate.store.callbacks.report import of_task
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.pauses import read_pauses
from headgate.store.catalog.streams import pairs_of
from headgate.store.claim.agent_starts import last_start
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.db.statement import Db, Row, Statement, clock, moment
from headgate.store.execution.workers import DISPATCHER, held_by_tenant
from headgate.store.reading.pools import WorkerPool, live_pools
from headgate.store.reading.resource_use import holds_of, read_uses
from headgate.store.tasks.families import open_child
from headgate.store.tasks.family_progress import census

MOST_HOLDERS = 50

LANE = Statement("SELECT capacity FROM headgate_lane WHERE name = :lane")
IN_LANE = Statement(
    "SELECT id, tenant_id FROM headgate_task WHERE lane = :lane AND status IN ('scheduling', 'running') LIMIT :limit"
)
COUNT_LANE = Statement("SELECT count(*) FROM headgate_task WHERE lane = :lane AND status IN ('scheduling', 'running')")
RATES = Statement("SELECT name, rate, burst, tat FROM headgate_rate_limit WHERE name {in names text}")
MUTEX_HOLDER = Statement(
    """
    SELECT id FROM headgate_task WHERE tenant_id = :tenant_id AND mutex = :mutex AND mutex IS NOT NULL AND id <> :id
       AND exec_id IS NOT NULL
    UNION ALL
    SELECT id FROM headgate_task WHERE tenant_id = :tenant_id AND mutex = :mutex AND mutex IS NOT NULL
       AND status IN ('queued', 'blocked', 'waiting') AND status = 'waiting' AND scheduling_time IS NOT NULL
       AND coalesce(root_id, id) <> :root_id
    """
)
# The state is a parameter: written as a word, the planner may prefer the whole of the stream to the line.
AHEAD = Statement(
    """
    SELECT id FROM headgate_task WHERE tenant_id = :tenant_id AND mutex = :mutex AND mutex IS NOT NULL AND id <> :id
       AND status = :queued AND status IN ('queued', 'blocked', 'waiting')
       AND stream_id = (SELECT stream_id FROM headgate_task WHERE id = :id)
    """
)
BY_DISPATCHER = Statement("SELECT 1 FROM headgate_worker WHERE id = :worker_id AND name = :name")
HELD_BY = Statement(
    f"""
    SELECT id, tenant_id, type, worker_id, scheduling_time FROM headgate_task
     WHERE worker_id {{in workers}} AND status IN {HELD_STATES}
    """
)


def facts_of(db: Db, catalog: Catalog, task: Task, viewer: int | None = None) -> Facts:
    """Everything that decides whether `task` may start. Another tenant's holders are counted, not named.

    Of one that has done its work, what it waits for before it ends. A `viewer` is the tenant that asks: it sees neither
    the names of executors that serve others too, nor what runs in a lane without a limit.
    """
    if task.status is State.WAITING:
        children = census(db, task, EXACT_UP_TO).children
        return Facts(CapacityLimit(task.lane), children=children, open_child=open_child(db, task.id))
    if (callback := _owed_callback(db, task)) is not None:
        return Facts(CapacityLimit(task.lane), callback=callback)
    capacity = next((capacity for (capacity,) in db.rows(LANE, lane=task.lane)), None)
    keys = keys_of(task.tenant_id, task.lane, task.type, task.rate_key)
    in_lane = db.rows(IN_LANE, lane=task.lane, limit=MOST_HOLDERS)
    [[running]] = db.rows(COUNT_LANE, lane=task.lane)
    tenant_id = task.tenant_id
    own = tuple(sorted(task_id for task_id, owner in in_lane if owner == tenant_id))
    holder, ahead = _mutex_facts(db, task)
    buckets = db.rows(RATES, names=catalog.buckets(task))
    now = clock(db)
    pools = live_pools(db)
    servers, in_slots = _servers(db, task, pools, now, viewer)
    holds = holds_of(db, task.id) if task.status is State.RUNNING else []
    uses = read_uses(db, [*catalog.type(task.type).uses, *(hold.resource for hold in holds)])
    needed = [name for name in catalog.type(task.type).uses if name in uses]
    holds = [hold for hold in holds if hold.resource in uses]
    others = 0 if capacity is None and viewer is not None else running - len(own)
    return Facts(
        CapacityLimit(task.lane, capacity, own, others),
        tuple(pause for pause in read_pauses(db) if pause.key in keys),
        tuple(uses[name].limit_for(tenant_id, lambda other: other.newest_task < task.id) for name in needed),
        tuple(Bucket(limit_name(name), Rate(rate, burst), tat) for name, rate, burst, tat in buckets),
        holder,
        ahead,
        servers,
        in_slots,
        last_start(db, task.tenant_id, task.agent_id),
        broker_queue=_broker_queue(db, catalog, task),
        held=tuple(uses[hold.resource].limit_for(tenant_id) for hold in holds if hold.held),
        waited_for=tuple(uses[hold.resource].limit_for(tenant_id, hold.is_behind) for hold in holds if not hold.held),
        stuck=_stuck(db, task.tenant_id, pools, viewer),
    )


def _broker_queue(db: Db, catalog: Catalog, task: Task) -> str | None:
    """The queue that the task's message is in, if it was handed to the broker."""
    if task.status is not State.SCHEDULING or not db.rows(BY_DISPATCHER, worker_id=task.worker_id, name=DISPATCHER):
        return None
    return routes(pairs_of(catalog.streams)).get((task.lane, task.type))


def _mutex_facts(db: Db, task: Task) -> tuple[int | None, int | None]:
    if task.mutex is None:
        return None, None
    root_id = task.root_id or task.id
    holders = db.rows(MUTEX_HOLDER, tenant_id=task.tenant_id, mutex=task.mutex, root_id=root_id, id=task.id)
    ahead = db.rows(AHEAD, tenant_id=task.tenant_id, mutex=task.mutex, id=task.id, queued=State.QUEUED.value)
    return (holders[0][0] if holders else None), (ahead[0][0] if ahead else None)


def _servers(
    db: Db, task: Task, live: list[WorkerPool], now: datetime, viewer: int | None
) -> tuple[tuple[Server, ...], tuple[int, ...]]:
    """The executors of the type, and the tasks of its tenant that fill their slots or whose handlers do not stop."""
    pools = [pool for pool in live if pool.serves(task.tenant_id, task.type, task.agent_id)]
    workers = sorted({pool.worker_id for pool in pools})
    held = db.rows(HELD_BY, workers=workers) if workers else []
    servers: list[Server] = []
    own: set[int] = set()
    for pool in pools:
        mine = [row for row in held if pool.holds(row[3], row[2])]
        servers.append(_server(pool, task, mine, now, viewer))
        own |= {row[0] for row in mine if row[1] == task.tenant_id}
        own |= {row[0] for row in held if row[1] == task.tenant_id and row[0] in pool.stuck}
    return tuple(servers), tuple(sorted(own)[:MOST_HOLDERS])


def _server(pool: WorkerPool, task: Task, held: list[Row], now: datetime, viewer: int | None) -> Server:
    """A pool as a task sees it; `held` (…, scheduling_time) is what runs in it."""
    slots = pool.slots
    if slots is not None:
        # Handlers that wait lend slots; what is known of that is as old as the worker's last beat.
        slots = max(slots + (pool.lent if task.id in pool.awaited else 0), len(held))
    asked_ago = None if pool.asked_at is None else (now - pool.asked_at).total_seconds()
    handed_at = max((moment(row[-1]) for row in held), default=None)
    handed_since = handed_at is not None and pool.asked_at is not None and handed_at >= pool.asked_at
    return Server(pool.agent_id or pool.name_for(viewer), slots, len(held), bool(pool.stuck), asked_ago, handed_since)


def _stuck(db: Db, tenant_id: int, pools: list[WorkerPool], viewer: int | None) -> dict[int, str]:
    """The tasks of a tenant whose handlers do not stop, and on which worker."""
    workers = {task_id: pool.name_for(viewer) for pool in pools for task_id in pool.stuck}
    return {task_id: workers[task_id] for task_id in held_by_tenant(db, workers, tenant_id)}


_TOLD_BY = {
    State.NOTIFYING: CallbackKind.SUCCESS,
    State.FAILED: CallbackKind.ERROR,
    State.DEAD: CallbackKind.ERROR,
}
_OWED = (Delivery.PENDING, Delivery.BLOCKED, Delivery.UNDELIVERABLE)


def _owed_callback(db: Db, task: Task) -> PendingCallback | None:
    if (kind := _TOLD_BY.get(task.status)) is None:
        return None
    for sent in of_task(db, task.id):  # the newest first
        if sent.kind is kind and sent.status in _OWED:
            seen = sender_seen(db)
            silent = timedelta(seconds=SENDER_SILENT_SECONDS)
            return PendingCallback(
                sent.attempts,
                sent.host,
                str(sent.last_error or sent.last_status or ""),
                sent.due_at,
                sent.status is Delivery.BLOCKED,
                sent.receiver_rests_until,
                seen is not None and clock(db) - seen <= silent,
            )
    return None
