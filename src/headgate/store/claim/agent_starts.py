"""The start queues of agents: what is assigned to one leaves it a task at a time, however many servers hand it over."""

from collections.abc import Iterable, Sequence
from zlib import crc32

from headgate.core.choice import Choice
from headgate.core.starts import LastStart, start_gate
from headgate.store.db.statement import SPACE, Db, Row, Statement, moment
from headgate.store.tasks.mutex_queue import STRIPES

# Only one claim of an agent at a time reads and writes the agent's last start; the others get `busy`.
TRY_AGENT = Statement(postgres=f"SELECT pg_try_advisory_xact_lock({SPACE}, :number::int)")
LAST_STARTS = Statement(
    "SELECT tenant_id, started_at, seconds, {now} FROM headgate_agent_start WHERE agent_id = :agent_id"
)
ALL_LAST_STARTS = Statement("SELECT agent_id, tenant_id, started_at, seconds FROM headgate_agent_start")
# Reads the rows as they are now: a task that another claim took was not started here and delays nothing.
NOTE_STARTS = Statement(
    """
    INSERT INTO headgate_agent_start (agent_id, tenant_id, started_at, seconds)
    SELECT agent_id, tenant_id, max(scheduling_time), :seconds FROM headgate_task
     WHERE id {in ids} AND CAST(exec_id AS text) {in exec_ids text} GROUP BY agent_id, tenant_id
    ON CONFLICT (agent_id, tenant_id) DO UPDATE SET started_at = excluded.started_at, seconds = excluded.seconds
    """
)


def number_of(agent_id: str) -> int:
    """The lock under which an agent's starts are given out; beside the stripes of the lines."""
    return STRIPES + crc32(agent_id.encode()) % STRIPES


def waits_of(agent_id: str, rows: Iterable[Row]) -> dict[str, float]:
    """The gates of an agent that are shut by what `LAST_STARTS` gave, and for how many seconds."""
    waits = {}
    for tenant_id, started_at, seconds, now in rows:
        until = LastStart(moment(started_at), seconds).holds_until(moment(now))
        if until is not None:
            waits[start_gate(tenant_id, agent_id)] = (until - moment(now)).total_seconds()
    return waits


def room_of(gates: Iterable[str], waits: dict[str, float], seconds: float) -> dict[str, int]:
    """How many may start behind each of these gates: none, one, or, where no interval is set, any number."""
    return {gate: 0 if gate in waits else 1 for gate in gates if gate in waits or seconds}


def note_starts(db: Db, choice: Choice, rows: Sequence[Row], seconds: float) -> None:
    """Record the starts of assigned tasks among `rows` (id, exec_id, …), which have just been taken."""
    behind_a_queue = {gates for gates in {c.gates for c in choice.chosen} if any(g.startswith("start ") for g in gates)}
    if behind_a_queue:
        assigned = {c.id for c in choice.chosen if c.gates in behind_a_queue}
        started = [row for row in rows if row[0] in assigned]
        ids, exec_ids = [row[0] for row in started], [row[1] for row in started]
        db.send(NOTE_STARTS, ids=ids, exec_ids=exec_ids, seconds=seconds)


def last_start(db: Db, tenant_id: int, agent_id: str | None) -> LastStart | None:
    """When the agent was last handed one of the tenant's tasks that are assigned to it."""
    return None if agent_id is None else last_starts(db, agent_id).get(tenant_id)


def last_starts(db: Db, agent_id: str) -> dict[int, LastStart]:
    """The agent's last starts, by tenant."""
    rows = db.rows(LAST_STARTS, agent_id=agent_id)
    return {tenant_id: LastStart(moment(started_at), seconds) for tenant_id, started_at, seconds, _ in rows}


def all_last_starts(db: Db) -> dict[str, LastStart]:
    """The last starts of all agents, by the gate of their start queue."""
    rows = db.rows(ALL_LAST_STARTS)
    return {
        start_gate(tenant_id, agent_id): LastStart(moment(at), seconds) for agent_id, tenant_id, at, seconds in rows
    }
