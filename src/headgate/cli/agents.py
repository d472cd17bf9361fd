"""`headgate agents`: who fetches tasks over HTTP, and what waits for each by name."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from headgate.cli.formatting import format_time
from headgate.cli.options import Json, Url
from headgate.cli.output import print_json, print_table
from headgate.cli.stores import existing_store
from headgate.store.claim.start_queues import StartQueue
from headgate.store.execution.workers import WorkerRecord


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent of a tenant, or of all (None): its processes, and its start queue."""

    agent_id: str
    tenant_id: int | None
    processes: int
    lease_until: datetime | None
    start_queue: int
    next_start: datetime | None


def show_agents(url: Url = None, as_json: Json = False) -> None:
    """Show the agents, and what is assigned to each and waits in its start queue.

    Of what is assigned to an agent one task starts in so many seconds; the next one's time is shown.

    \b
    headgate agents
    """  # fmt: skip
    with existing_store(url) as store:
        workers = [worker for worker in store.workers.all() if worker.agent_id is not None]
        queues = store.start_queues.find()
    agents = agents_of(workers, queues)
    if as_json:
        for agent in agents:
            print_json(asdict(agent))
        return
    print_table(
        ("AGENT", "TENANT", "PROCESSES", "LEASE UNTIL", "START QUEUE", "NEXT START"),
        [_row(agent) for agent in agents],
        right=("TENANT", "PROCESSES", "START QUEUE"),
    )


def agents_of(workers: list[WorkerRecord], queues: list[StartQueue]) -> list[AgentRow]:
    """The agents that are connected, and those that are not and have tasks waiting for them."""
    connected = {(worker.agent_id or "", worker.tenant_id) for worker in workers}
    awaited = {(q.agent_id, q.tenant_id) for q in queues if q.size and not any(q.serves(worker) for worker in workers)}
    return [
        _agent(
            agent_id,
            tenant_id,
            [worker for worker in workers if (worker.agent_id, worker.tenant_id) == (agent_id, tenant_id)],
            [queue for queue in queues if queue.agent_id == agent_id and tenant_id in (None, queue.tenant_id)],
        )
        for agent_id, tenant_id in sorted(
            connected | awaited, key=lambda key: (key[0], -1 if key[1] is None else key[1])
        )
    ]


def _agent(agent_id: str, tenant_id: int | None, workers: list[WorkerRecord], queues: list[StartQueue]) -> AgentRow:
    return AgentRow(
        agent_id,
        tenant_id,
        len(workers),
        max((worker.lease_until for worker in workers), default=None),
        sum(queue.size for queue in queues),
        min((queue.next_start for queue in queues if queue.next_start), default=None),
    )


def _row(agent: AgentRow) -> tuple[Any, ...]:
    next_start = format_time(agent.next_start) if agent.next_start else "at its next claim" if agent.start_queue else ""
    return (
        agent.agent_id, "all" if agent.tenant_id is None else agent.tenant_id, agent.processes,
        format_time(agent.lease_until), agent.start_queue, next_start,
    )  # fmt: skip
