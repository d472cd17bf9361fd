"""Lanes and resources that were only made by a submit or a hold, and that nothing uses any more, are removed.

What a person, a program, a pack or the settings set stays, and so does what a type, a rate limit or a pause names. A
lane that was removed is made again by the next submit to it, a resource by the next hold.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from headgate.core.limits import BUILT_IN_RESOURCES
from headgate.core.task import DEFAULT_LANE
from headgate.store.catalog.resources import CONFIGS, ONE_TYPE_EDIT_AT_A_TIME
from headgate.store.catalog.version import bump
from headgate.store.claim.holds import USING
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Statement

_UNUSED_LANE = """
    source = 'default' AND capacity IS NULL AND name NOT IN (SELECT lane FROM headgate_stream)
    AND name NOT IN (SELECT name FROM headgate_pause WHERE scope = 'lane')
    AND 'lane:' || name NOT IN (SELECT name FROM headgate_rate_limit)
"""
_UNUSED_RESOURCE = "source = 'default' AND capacity = 1 AND name NOT IN (SELECT resource FROM headgate_hold)"
LANES = Statement(f"SELECT name FROM headgate_lane WHERE {_UNUSED_LANE}")
RESOURCES = Statement(f"SELECT name FROM headgate_resource WHERE {_UNUSED_RESOURCE}")
# Locked in an earlier statement than the one that looks again: what somebody is taking just now is left alone.
LOCK_LANES = Statement("SELECT name FROM headgate_lane WHERE name {in names text} {lock FOR UPDATE SKIP LOCKED}")
LOCK_RESOURCES = Statement(
    "SELECT name FROM headgate_resource WHERE name {in names text} {lock FOR UPDATE SKIP LOCKED}"
)
REMOVE_LANES = Statement(f"DELETE FROM headgate_lane WHERE name {{in names text}} AND {_UNUSED_LANE} RETURNING name")
REMOVE_RESOURCES = Statement(
    f"DELETE FROM headgate_resource WHERE name {{in names text}} AND {_UNUSED_RESOURCE} RETURNING name"
)
EVERY_LANE = "*"


@dataclass(frozen=True, slots=True)
class UnusedName:
    """A lane or a resource that nothing uses."""

    noun: str  # lane or resource
    name: str


class UnusedNames(Noun):
    """Lanes and resources that nobody set and nothing uses."""

    @reads
    def find(self, db: Db) -> set[UnusedName]:
        """All of them."""
        found = {UnusedName("lane", name) for (name,) in db.rows(LANES)}
        found |= {UnusedName("resource", name) for (name,) in db.rows(RESOURCES)}
        return found - set(_named(db))

    @writes
    def remove(self, db: Db, names: Collection[UnusedName]) -> int:
        """Remove those that are still unused; how many."""
        db.send(ONE_TYPE_EDIT_AT_A_TIME)
        bump(db)  # a transaction that is making a stream has committed, or waits
        left = set(names) - set(_named(db))
        return sum(
            len(db.rows(remove, names=[name for (name,) in db.rows(lock, names=wanted)]))
            for noun, lock, remove in (
                ("lane", LOCK_LANES, REMOVE_LANES),
                ("resource", LOCK_RESOURCES, REMOVE_RESOURCES),
            )
            if (wanted := sorted(each.name for each in left if each.noun == noun))
        )


def _named(db: Db) -> Iterator[UnusedName]:
    """What types name, and what runs; and what is always there."""
    for name in (DEFAULT_LANE, EVERY_LANE):
        yield UnusedName("lane", name)
    for name in BUILT_IN_RESOURCES:
        yield UnusedName("resource", name)
    for _, config in db.rows(CONFIGS):
        values = json.loads(config)
        yield UnusedName("lane", values["lane"])
        for name in values["uses"]:
            yield UnusedName("resource", name)
    for (uses,) in db.rows(USING):
        for name in uses.split(","):
            yield UnusedName("resource", name)
