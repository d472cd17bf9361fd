"""Resources: how many tasks may use each at once, whatever their lane."""

import json
from dataclasses import dataclass

from headgate.core.errors import NotFound, Refused
from headgate.core.limits import LimitSource, check_capacity, check_resource
from headgate.store.catalog.version import announce_limit
from headgate.store.claim.holds import LIVE_HOLD
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import SPACE, Db, Statement
from headgate.store.events.audit import PERSON, changed

ADD_RESOURCE = Statement(
    "INSERT INTO headgate_resource (name, capacity) VALUES (:name, 1) ON CONFLICT (name) DO NOTHING"
)
RESOURCES = Statement("SELECT name, capacity, source FROM headgate_resource ORDER BY name")
PUT_RESOURCE = Statement(
    """
    INSERT INTO headgate_resource (name, capacity, source) VALUES (:name, :capacity, :source)
    ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity, source = excluded.source
     WHERE headgate_resource.source {in replaced text}
    RETURNING name
    """
)
RESET = Statement("UPDATE headgate_resource SET source = 'default' WHERE name = :name RETURNING name")
REMOVE_RESOURCE = Statement("DELETE FROM headgate_resource WHERE name = :name RETURNING capacity, source")
CONFIGS = Statement("SELECT code, config FROM headgate_task_metadata ORDER BY code")
HOLDER = Statement(
    f"SELECT h.task_id FROM headgate_hold h WHERE h.resource = :name AND {LIVE_HOLD} ORDER BY h.id LIMIT 1"
)
# An edit of a type takes this lock, and makes the resources that the type uses.
ONE_TYPE_EDIT_AT_A_TIME = Statement(sqlite="SELECT 1", postgres=f"SELECT pg_advisory_xact_lock({SPACE}, -3)")


@dataclass(frozen=True, slots=True)
class Resource:
    """How many tasks may use a resource at once, and who set it."""

    name: str
    capacity: int
    source: str


class Resources(Noun):
    """Every resource. An edit holds from the moment it returns."""

    @reads
    def all(self, db: Db) -> list[Resource]:
        """Every resource by name."""
        return read_resources(db)

    @writes
    def set(self, db: Db, name: str, capacity: int, *, actor: str = PERSON) -> None:
        """Set how many tasks may use a resource at once."""
        check_resource(name)
        check_capacity(capacity)
        put_resource(db, name, capacity, LimitSource.PERSON, actor)

    @writes
    def reset(self, db: Db, name: str, *, actor: str = PERSON) -> None:
        """Keep the capacity, but let the next program or settings that declare one replace it."""
        check_resource(name)
        if not db.rows(RESET, name=name):
            raise NotFound.of("no-resource", resource=name)
        announce_limit(db, "limit_reset", actor, {"resource": name}, loosened=False)

    @writes
    def remove(self, db: Db, name: str, *, actor: str = PERSON) -> None:
        """Remove a resource; `Refused` while a task type uses it, or a running handler holds it or waits for it."""
        check_resource(name)
        db.send(ONE_TYPE_EDIT_AT_A_TIME)
        users = [code for code, config in db.rows(CONFIGS) if name in json.loads(config)["uses"]]
        removed = db.rows(REMOVE_RESOURCE, name=name)
        if not removed:
            raise NotFound.of("no-resource", resource=name)
        if users:
            raise Refused.of("resource-in-use", resource=name, types=", ".join(users))
        for (task_id,) in db.rows(HOLDER, name=name):
            raise Refused.of("resource-held", resource=name, task_id=task_id)
        [[capacity, source]] = removed
        detail = {"resource": name} | changed(capacity=(capacity, None), source=(source, None))
        announce_limit(db, "resource_removed", actor, detail)


def put_resource(db: Db, name: str, capacity: int, source: LimitSource, actor: str) -> None:
    """Set a resource's capacity, unless a stronger source set it."""
    before = next((each.capacity for each in read_resources(db) if each.name == name), None)
    if db.rows(PUT_RESOURCE, name=name, capacity=capacity, source=source, replaced=source.replaces):
        detail = {"resource": name, "capacity": capacity} | changed(capacity=(before, capacity))
        announce_limit(db, "capacity_changed", actor, detail)
        db.news.room[f"resource {name}"] = 1  # for handlers that wait for it


def read_resources(db: Db) -> list[Resource]:
    return [Resource(*row) for row in db.rows(RESOURCES)]
