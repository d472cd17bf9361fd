"""Resources: how many tasks may use each at once."""

import json

from headgate.core.errors import Invalid
from headgate.core.gates import CapacityLimit
from headgate.core.task import check_name
from headgate.store.catalog.lanes import check_capacity
from headgate.store.catalog.rate_limits import PREFIXES
from headgate.store.catalog.version import announce_limit
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import PERSON, record_system

ADD_RESOURCE = Statement(
    "INSERT INTO headgate_resource (name, capacity) VALUES (:name, 1) ON CONFLICT (name) DO NOTHING"
)
RESOURCES = Statement("SELECT name, capacity FROM headgate_resource ORDER BY name")
PUT_RESOURCE = Statement(
    """
    INSERT INTO headgate_resource (name, capacity) VALUES (:name, :capacity)
    ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity
    """
)


class Resources(Noun):
    """Every resource."""

    @reads
    def all(self, db: Db) -> list[CapacityLimit]:
        """Every resource by name, with its capacity."""
        return read_resources(db)

    @writes
    def set(self, db: Db, name: str, capacity: int, *, actor: str = PERSON) -> None:
        """Set how many tasks may use a resource at once."""
        check_name("resource", name)
        if name.startswith(PREFIXES):
            raise Invalid(
                f"{name} is the name of a rate limit, which has a rate and a burst; a resource has a plain name"
            )
        check_capacity(capacity)
        db.send(PUT_RESOURCE, name=name, capacity=capacity)
        record_system(db, "capacity_changed", actor, json.dumps({"resource": name, "capacity": capacity}))
        announce_limit(db)


def read_resources(db: Db) -> list[CapacityLimit]:
    return [CapacityLimit(name, capacity) for name, capacity in db.rows(RESOURCES)]
