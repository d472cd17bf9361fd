"""What running tasks use and hold of resources, or wait for, as a claim sees it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from headgate.core.holds import Asked
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Row, Statement

# Row by row, not as a join: one planned for a small table walks the whole primary key of a large one.
LIVE_HOLD = "(SELECT t.exec_id FROM headgate_task t WHERE t.id = h.task_id) = h.exec_id"
HOLDS = Statement(
    f"""
    SELECT h.resource, h.held, h.newest_task FROM headgate_hold h
     WHERE h.resource {{in resources text}} AND {LIVE_HOLD}
    """
)
RESOURCES = Statement("SELECT name, capacity FROM headgate_resource WHERE name {in resources text}")
USING = Statement(f"SELECT uses FROM headgate_task WHERE uses IS NOT NULL AND status IN {HELD_STATES}")


def held_and_asked(rows: Iterable[Row]) -> tuple[Counter[str], Asked]:
    """By gate: how many hold it, and the newest task as of each that waits, in ascending order."""
    held: Counter[str] = Counter()
    asked: dict[str, list[int]] = defaultdict(list)
    for resource, is_held, newest_task in rows:
        if is_held:
            held[f"resource {resource}"] += 1
        else:
            asked[f"resource {resource}"].append(newest_task)
    return held, {gate: sorted(newest) for gate, newest in asked.items()}


def free_resources(db: Db, resources: Sequence[str]) -> tuple[dict[str, int], Asked]:
    """How much is left of each resource, and which running handlers wait for it."""
    in_use, asked = held_and_asked(db.rows(HOLDS, resources=resources))
    for (uses,) in db.rows(USING):
        in_use.update(f"resource {name}" for name in uses.split(","))
    limits = {f"resource {name}": capacity for name, capacity in db.rows(RESOURCES, resources=resources)}
    return {gate: max(capacity - in_use[gate], 0) for gate, capacity in limits.items()}, asked
