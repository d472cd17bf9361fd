"""`headgate workers` and `headgate agents`: who executes tasks, and what is assigned to each agent."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.environment import utc_now
from headgate.store.claim.start_queues import StartQueue
from headgate.store.execution.workers import WorkerRecord

commands = CommandGroup()


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent of one tenant, or of all (None): its processes and its start queue.

    `lease_until` None: no process of it has a lease, so that its tasks are its own until their deadlines.
    """

    agent_id: str
    tenant_id: int | None
    processes: int
    running: int
    lease_until: datetime | None
    start_queue: int
    next_start: datetime | None


@commands.add("workers")
def show_workers(command: Command) -> None:
    """Show all workers, with tasks whose handlers do not stop.

    \b
    headgate workers
    """  # fmt: skip
    command.answer_all(
        [worker for worker in command.store.workers.all() if worker.agent_id is None],
        _worker_answer,
        ("WORKER", "NAME", "RUNNING", "LEASE UNTIL", "STUCK"),
        _worker_row,
        right=("WORKER", "RUNNING"),
        drop=("LEASE UNTIL",),
        none="no workers",
    )


def _worker_answer(worker: WorkerRecord) -> dict[str, Any]:
    fields = ("id", "name", "kind", "types", "running", "lease_until", "started_at", "stuck")
    return {name: getattr(worker, name) for name in fields}


def _worker_row(worker: WorkerRecord) -> tuple[Any, ...]:
    stuck = f"task {', '.join(map(str, worker.stuck))}" if worker.stuck else ""
    return worker.id, worker.name, worker.running, _lease(worker.lease_until), stuck


@commands.add("agents")
def show_agents(command: Command) -> None:
    """Show all agents, with the tasks in the start queue of each.

    An agent that claims without `lease_seconds` has no lease: each of its tasks is
    its own until the task's deadline.

    \b
    headgate agents
    """  # fmt: skip
    workers = [worker for worker in command.store.workers.all() if worker.agent_id is not None]
    command.answer_all(
        agents_of(workers, command.store.start_queues.find()),
        asdict,
        ("AGENT", "TENANT", "PROCESSES", "RUNNING", "LEASE UNTIL", "START QUEUE", "NEXT START"),
        _row,
        right=("TENANT", "PROCESSES", "RUNNING", "START QUEUE"),
        drop=("PROCESSES", "TENANT", "NEXT START", "START QUEUE"),
        none="no agents",
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
        sum(worker.running for worker in workers),
        max((worker.lease_until for worker in workers if worker.has_lease), default=None),
        sum(queue.size for queue in queues),
        min((queue.next_start for queue in queues if queue.next_start), default=None),
    )


def _row(agent: AgentRow) -> tuple[Any, ...]:
    next_start = agent.next_start or ("at its next claim" if agent.start_queue else "")
    return (
        agent.agent_id, "all" if agent.tenant_id is None else agent.tenant_id, agent.processes, agent.running,
        _lease(agent.lease_until) or ("no lease" if agent.processes else ""), agent.start_queue, next_start,
    )  # fmt: skip


def _lease(until: datetime | None) -> datetime | str | None:
    return "expired" if until is not None and until < utc_now() else until
