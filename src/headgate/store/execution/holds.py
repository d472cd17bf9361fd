"""Resources that running handlers hold for a part of their run, and the line of handlers that wait for one."""

import json
from collections.abc import Iterable, Sequence

from headgate.core.errors import Refused, StaleExecution
from headgate.core.holds import Hold, Turn, circle, deadlock, has_turn
from headgate.core.limits import check_resource
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.holds import LIVE_HOLD, USING
from headgate.store.db.database import Database, Noun, reads, writes
from headgate.store.db.statement import SPACE, Db, Row, Statement
from headgate.store.reading.resource_use import HOLD_COLUMNS, ResourceUse, hold_of, holds_of, read_uses

LOCK_RESOURCE = Statement("SELECT capacity FROM headgate_resource WHERE name = :resource {lock FOR NO KEY UPDATE}")
NAMED = Statement("SELECT count(*) FROM headgate_resource WHERE tenant_id = :tenant_id AND source = 'default'")
NAME_RESOURCE = Statement(
    """
    INSERT INTO headgate_resource (name, capacity, tenant_id) VALUES (:name, 1, :tenant_id)
    ON CONFLICT (name) DO NOTHING
    """
)
OWNED = Statement("SELECT tenant_id, uses FROM headgate_task WHERE id = :id AND CAST(exec_id AS text) = :exec_id")
_ASK = """
    INSERT INTO headgate_hold (resource, task_id, exec_id, tenant_id, held, newest_task, since, keeps)
    VALUES (:resource, :id, :exec_id, :tenant_id, false, {newest}, {{now}}, :keeps)
    ON CONFLICT (task_id, exec_id, resource) DO NOTHING
"""
# From the sequence: the last entries of an index may be many, and dead.
ASK = Statement(
    sqlite=_ASK.format(newest="(SELECT seq FROM sqlite_sequence WHERE name = 'headgate_task')"),
    postgres=_ASK.format(newest="pg_sequence_last_value(pg_get_serial_sequence('headgate_task', 'id')::regclass)"),
)
OWN = Statement(
    f"""
    SELECT {HOLD_COLUMNS} FROM headgate_hold h
     WHERE h.task_id = :id AND CAST(h.exec_id AS text) = :exec_id AND h.resource = :resource
    """
)
LINE = Statement(
    f"SELECT {HOLD_COLUMNS} FROM headgate_hold h WHERE h.resource = :resource AND {LIVE_HOLD} ORDER BY h.id"
)
ALL = Statement(
    f"""
    SELECT {HOLD_COLUMNS}, (SELECT r.capacity FROM headgate_resource r WHERE r.name = h.resource)
      FROM headgate_hold h WHERE {LIVE_HOLD} ORDER BY h.id
    """
)
ONE_CIRCLE_AT_A_TIME = Statement(sqlite="SELECT 1", postgres=f"SELECT pg_advisory_xact_lock({SPACE}, -5)")
# The head of each stream: what stands behind it cannot start before it.
HEADS = Statement(
    sqlite="""
    SELECT (SELECT t.id FROM headgate_task t WHERE t.stream_id = s.value AND t.status = 'queued'
             ORDER BY t.priority, t.id LIMIT 1)
      FROM json_each(:streams) s
    """,
    postgres="""
    SELECT (SELECT t.id FROM headgate_task t WHERE t.stream_id = s.id AND t.status = 'queued'
             ORDER BY t.priority, t.id LIMIT 1)
      FROM unnest(:streams::bigint[]) AS s(id)
    """,
)
GRANT = Statement("UPDATE headgate_hold SET held = true, since = {now} WHERE id = :number")
RELEASE = Statement(
    """
    DELETE FROM headgate_hold WHERE task_id = :id AND CAST(exec_id AS text) = :exec_id AND resource {in resources text}
    RETURNING resource
    """
)
ENDED = Statement(f"SELECT h.id FROM headgate_hold h WHERE NOT coalesce({LIVE_HOLD}, false)")
SWEEP = Statement("DELETE FROM headgate_hold WHERE id {in ids} RETURNING resource")


class Holds(Noun):
    """Who holds which resource, besides what the types of running tasks use, and who waits for it.

    A hold counts while its task is executed under its exec_id, and no longer, whatever becomes of its row. Claims and
    holds are counted under the lock of the resource's row, so that together they never exceed its capacity.
    """

    def __init__(self, database: Database, catalog: Catalog) -> None:
        super().__init__(database)
        self._catalog = catalog

    @writes
    def take(
        self, db: Db, task_id: int, exec_id: str, resource: str, *, keeps: Sequence[str] = (), insist: bool = False
    ) -> Turn:
        """Join the line for a resource, and hold it if it is this execution's turn; asking again keeps the place.

        `StaleExecution` if it no longer owns its task. A missing resource is made, as for a type that uses it;
        `Refused` if handlers of its tenant have made as many as they may. An execution that let an older task go first
        may `insist` a moment later. `keeps` names the resources that it releases only after this wait: `Deadlock`, and
        no place in the line, if their holders wait for each other then.
        """
        check_resource(resource)
        catalog = self._catalog.fresh(db)  # before the lock: no other transaction must wait for it
        found = db.rows(LOCK_RESOURCE, resource=resource)
        own = {"id": task_id, "exec_id": exec_id}
        owned = db.rows(OWNED, **own)
        if not owned:
            raise StaleExecution.of("stale-execution", exec_id=exec_id, task_id=task_id, status=None)
        [[tenant_id, uses]] = owned
        if resource in (uses or "").split(","):
            return Turn(None, held=True)
        if not found:
            _name_resource(db, resource, tenant_id, catalog.most_names.of(tenant_id))
            found = db.rows(LOCK_RESOURCE, resource=resource)
        [[capacity]] = found
        db.send(ASK, **own, resource=resource, tenant_id=tenant_id, keeps=json.dumps(keeps) if keeps else "")
        [mine] = [hold_of(row) for row in db.rows(OWN, **own, resource=resource)]
        if mine.held:
            return Turn(mine.id, held=True)
        in_use = sum(resource in uses.split(",") for (uses,) in db.rows(USING))
        line = [hold_of(row) for row in db.rows(LINE, resource=resource)]
        if not has_turn(mine, capacity, in_use, line):
            if keeps and (others := _circle(db, mine)):
                raise deadlock(mine, others)
            return Turn(mine.id, held=False)
        if not insist and _came_later(db, catalog, mine):
            return Turn(mine.id, held=False, yields=True)
        db.send(GRANT, number=mine.id)
        return Turn(mine.id, held=True)

    @writes
    def release(self, db: Db, task_id: int, exec_id: str, resources: Sequence[str]) -> None:
        """Let go of resources, or leave their lines; those that wait are woken."""
        _wake(db, db.rows(RELEASE, id=task_id, exec_id=exec_id, resources=list(resources)))

    @reads
    def uses(self, db: Db) -> dict[str, ResourceUse]:
        """Every resource by name, with those that use it, hold it or wait for it."""
        return read_uses(db)

    @reads
    def of(self, db: Db, task_id: int) -> list[Hold]:
        """What a running task holds, or waits to hold, besides what its type uses."""
        return holds_of(db, task_id)

    def sweep(self) -> int:
        """Remove what executions that have ended held or waited for, and wake those that wait; how many rows."""
        ended = self._database.read(lambda db: db.rows(ENDED))
        if not ended:
            return 0

        def sweep(db: Db) -> int:
            swept = db.rows(SWEEP, ids=[hold_id for (hold_id,) in ended])
            _wake(db, swept)
            return len(swept)

        return self._database.write(sweep)


def _name_resource(db: Db, resource: str, tenant_id: int, most: int | None) -> None:
    """Make a resource that a handler names; `Refused` if those of its tenant have named as many as they may."""
    if most is not None and db.rows(NAMED, tenant_id=tenant_id)[0][0] >= most:
        raise Refused.of("too-many-resources", tenant_id=tenant_id, most=most)
    db.send(NAME_RESOURCE, name=resource, tenant_id=tenant_id)


def _circle(db: Db, mine: Hold) -> list[Hold]:
    """Those that would wait for this one, and it for them. Who closes a circle sees the others: one asks at a time."""
    db.send(ONE_CIRCLE_AT_A_TIME)
    rows = db.rows(ALL)
    return circle(mine, [hold_of(row[:-1]) for row in rows], {row[1]: row[-1] for row in rows})


def _came_later(db: Db, catalog: Catalog, mine: Hold) -> bool:
    """Whether a queued task that uses the resource, and is not paused, was submitted before this one asked."""
    streams = [
        stream.id
        for stream in catalog.streams.values()
        if mine.resource in catalog.type(stream.type).uses and catalog.pause_of(db, stream) is None
    ]
    heads = db.rows(HEADS, streams=streams) if streams else []
    return any(head is not None and head <= mine.newest_task for (head,) in heads)


def _wake(db: Db, freed: Iterable[Row]) -> None:
    for (resource,) in freed:
        db.news.room[f"resource {resource}"] = 1
