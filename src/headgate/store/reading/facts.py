"""What decides whether a task may start, or end, as it stands in the store: behind `why` and the forecast."""

import json
from collections import defaultdict

from headgate.core.callbacks import CallbackKind, Delivery
from headgate.core.gates import Bucket, CapacityLimit, Facts, PendingCallback
from headgate.core.limits import Rate
from headgate.core.states import State
from headgate.core.task import EVERYTHING, Task
from headgate.store.callbacks.report import of_task
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.agent_starts import last_start
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.db.statement import Db, Statement
from headgate.store.tasks.families import census, open_child

MOST_HOLDERS = 50

LANE = Statement("SELECT name, capacity, paused FROM headgate_lane WHERE name {in names text}")
IN_LANE = Statement(
    "SELECT id, tenant_id FROM headgate_task WHERE lane = :lane AND status IN ('scheduling', 'running') LIMIT :limit"
)
COUNT_LANE = Statement("SELECT count(*) FROM headgate_task WHERE lane = :lane AND status IN ('scheduling', 'running')")
USING = Statement(
    "SELECT id, tenant_id, uses FROM headgate_task WHERE uses IS NOT NULL AND status IN ('scheduling', 'running')"
)
RESOURCES = Statement("SELECT name, capacity FROM headgate_resource WHERE name {in names text}")
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
SERVERS = Statement("SELECT agent_id, tenant_id, types FROM headgate_worker WHERE NOT lost AND lease_until >= {now}")


def facts_of(db: Db, catalog: Catalog, task: Task) -> Facts:
    """Everything that decides whether `task` may start. Another tenant's holders are counted, not named.

    Of one that has done its work, what it waits for before it ends.
    """
    if task.status is State.WAITING:
        children = census(db, task, EXACT_UP_TO).children
        return Facts(CapacityLimit(task.lane), children=children, open_child=open_child(db, task.id))
    if (callback := _owed_callback(db, task)) is not None:
        return Facts(CapacityLimit(task.lane), callback=callback)
    lanes = {name: (capacity, bool(paused)) for name, capacity, paused in db.rows(LANE, names=[task.lane, EVERYTHING])}
    capacity, paused = lanes.get(task.lane, (None, False))
    in_lane = db.rows(IN_LANE, lane=task.lane, limit=MOST_HOLDERS)
    [[running]] = db.rows(COUNT_LANE, lane=task.lane)
    own = tuple(sorted(task_id for task_id, tenant_id in in_lane if tenant_id == task.tenant_id))
    holder, ahead = _mutex_facts(db, task)
    names = [f"lane:{task.lane}", f"type:{task.type}", *([f"key:{task.rate_key}"] if task.rate_key else [])]
    buckets = db.rows(RATES, names=names)
    return Facts(
        CapacityLimit(task.lane, capacity, paused, own, running - len(own)),
        lanes[EVERYTHING][1],
        tuple(_resources(db, catalog, task)),
        tuple(Bucket(name, Rate(rate, burst), tat) for name, rate, burst, tat in buckets),
        holder,
        ahead,
        _servers(db, task),
        last_start(db, task.tenant_id, task.agent_id),
    )


def _resources(db: Db, catalog: Catalog, task: Task) -> list[CapacityLimit]:
    names = catalog.type(task.type).uses
    if not names:
        return []
    holders: dict[str, list[int]] = defaultdict(list)
    others: dict[str, int] = defaultdict(int)
    for task_id, tenant_id, uses in db.rows(USING):
        for name in uses.split(","):
            if tenant_id == task.tenant_id:
                holders[name].append(task_id)
            else:
                others[name] += 1
    return [
        CapacityLimit(name, capacity, False, tuple(sorted(holders[name])), others[name])
        for name, capacity in db.rows(RESOURCES, names=list(names))
    ]


def _mutex_facts(db: Db, task: Task) -> tuple[int | None, int | None]:
    if task.mutex is None:
        return None, None
    root_id = task.root_id or task.id
    holders = db.rows(MUTEX_HOLDER, tenant_id=task.tenant_id, mutex=task.mutex, root_id=root_id, id=task.id)
    ahead = db.rows(AHEAD, tenant_id=task.tenant_id, mutex=task.mutex, id=task.id, queued=State.QUEUED.value)
    return (holders[0][0] if holders else None), (ahead[0][0] if ahead else None)


def _servers(db: Db, task: Task) -> int:
    serving = 0
    for agent_id, tenant_id, types in db.rows(SERVERS):
        serves_type = types == "null" or task.type in json.loads(types)
        serves_tenant = tenant_id is None or tenant_id == task.tenant_id
        serving += serves_type and serves_tenant and task.agent_id in (None, agent_id)
    return serving


def _owed_callback(db: Db, task: Task) -> PendingCallback | None:
    if task.status is not State.NOTIFYING:
        return None
    for sent in of_task(db, task.id):  # the newest first
        if sent.kind is CallbackKind.SUCCESS and sent.status in (Delivery.PENDING, Delivery.UNDELIVERABLE):
            return PendingCallback(
                sent.attempts, sent.host, str(sent.last_error or sent.last_status or ""), sent.due_at
            )
    return None
