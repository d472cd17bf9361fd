"""Who uses a resource, holds it for a part of its run, or waits to hold it: behind `why` and for people."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.core.gates import CapacityLimit
from headgate.core.holds import Hold
from headgate.store.catalog.resources import Resource, read_resources
from headgate.store.claim.holds import LIVE_HOLD
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Row, Statement, moment

HOLD_COLUMNS = "h.id, h.resource, h.task_id, h.tenant_id, h.held, h.newest_task, h.since, h.keeps"
USING = Statement(f"SELECT id, tenant_id, uses FROM headgate_task WHERE uses IS NOT NULL AND status IN {HELD_STATES}")
LINES = Statement(f"SELECT {HOLD_COLUMNS} FROM headgate_hold h WHERE {LIVE_HOLD} ORDER BY h.id")
OF_TASK = Statement(f"SELECT {HOLD_COLUMNS} FROM headgate_hold h WHERE h.task_id = :id AND {LIVE_HOLD} ORDER BY h.id")


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """A resource, the running tasks (id, tenant) whose type uses it, and the line of its holds, held and waiting."""

    resource: Resource
    users: tuple[tuple[int, int], ...] = ()
    line: tuple[Hold, ...] = ()  # in the order of asking

    def is_used_by(self, tenant_id: int | None) -> bool:
        """Whether a task of the tenant uses it now, or waits to."""
        return any(owner == tenant_id for _, owner in self.users) or any(
            hold.tenant_id == tenant_id for hold in self.line
        )

    def limit_for(self, tenant_id: int | None, is_ahead: Callable[[Hold], bool] = lambda hold: True) -> CapacityLimit:
        """The resource as one tenant may see it (None: all tenants), with how many waiting holds are ahead."""
        holders = [*self.users, *((hold.task_id, hold.tenant_id) for hold in self.line if hold.held)]
        own = tuple(sorted(task_id for task_id, owner in holders if tenant_id in (None, owner)))
        ahead = sum(not hold.held and is_ahead(hold) for hold in self.line)
        return CapacityLimit(self.resource.name, self.resource.capacity, own, len(holders) - len(own), ahead)


def read_uses(db: Db, names: Sequence[str] | None = None) -> dict[str, ResourceUse]:
    """Resources by name, those asked for or all, each with those that use it now or want to."""
    if names is not None and not names:
        return {}
    users: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for task_id, tenant_id, uses in db.rows(USING):
        for name in uses.split(","):
            users[name].append((task_id, tenant_id))
    lines: dict[str, list[Hold]] = defaultdict(list)
    for row in db.rows(LINES):
        lines[row[1]].append(hold_of(row))
    return {
        each.name: ResourceUse(each, tuple(users[each.name]), tuple(lines[each.name]))
        for each in read_resources(db)
        if names is None or each.name in names
    }


def holds_of(db: Db, task_id: int) -> list[Hold]:
    """What a running task holds, or waits to hold."""
    return [hold_of(row) for row in db.rows(OF_TASK, id=task_id)]


def held_by_task(db: Db) -> dict[int, list[str]]:
    """The resources that handlers hold, by their task."""
    held: dict[int, list[str]] = defaultdict(list)
    for hold in map(hold_of, db.rows(LINES)):
        if hold.held:
            held[hold.task_id].append(hold.resource)
    return held


def hold_of(row: Row) -> Hold:
    number, resource, task_id, tenant_id, held, newest_task, since, keeps = row
    kept = tuple(json.loads(keeps)) if keeps else ()
    return Hold(number, resource, task_id, tenant_id, bool(held), newest_task, moment(since), kept)
