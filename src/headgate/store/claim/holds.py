"""What running handlers hold of resources, or wait for, as a claim sees it."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from headgate.core.holds import Asked
from headgate.store.db.statement import Row, Statement

# Row by row, not as a join: one planned for a small table walks the whole primary key of a large one.
LIVE_HOLD = "(SELECT t.exec_id FROM headgate_task t WHERE t.id = h.task_id) = h.exec_id"
HOLDS = Statement(
    f"""
    SELECT h.resource, h.held, h.newest_task FROM headgate_hold h
     WHERE h.resource {{in resources text}} AND {LIVE_HOLD}
    """
)


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
