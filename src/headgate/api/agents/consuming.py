"""`/api/agents/…/consume` and `start`: programs in any language take tasks from the broker, and start them here.

A queue of the broker holds the tasks of all tenants, so this needs a key of none.
"""

from headgate.api.agents.routes import AgentId, executions_out
from headgate.api.agents.shapes import ConsumeIn, Consuming, Start, StartIn, Starts
from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.broker.topology import TASK_QUEUE, TASKS
from headgate.core.errors import Refused
from headgate.core.task import Execution, check_name
from headgate.store.execution.handed import HandedStarts, Report
from headgate.store.store import Store

routes = Routes("agents", shared=True)


@routes.post("/api/agents/{agent_id}/consume", Role.AGENT, "Sign on as a consumer of the broker", errors=(409,))
async def consume(agent_id: AgentId, data: ConsumeIn, server: Server) -> Consuming:
    """Signs a process on as a consumer, and answers which queues it is to consume. Ask again well within
    `lease_seconds`: that renews the lease, and there may be more queues. One that is not heard of gets nothing more,
    and what it had started goes to others.
    """
    if not server.settings.broker:
        raise Refused.of("no-broker")
    lease = server.settings.lease_seconds if data.lease_seconds is None else data.lease_seconds

    def work() -> Consuming:
        agent = server.store.agents.consume(
            agent_id, data.types, data.slots, lease_seconds=lease, instance=data.instance
        )
        dispatch, types = server.store.dispatch, frozenset(data.types)
        return Consuming(
            exchange=TASKS,
            queues=dispatch.queues(types),
            arguments=dict(TASK_QUEUE),
            dispatched=dispatch.is_live(),
            stalled=dispatch.is_stalled(types, server.settings.broker_resend_seconds),
            lease_seconds=agent.lease_seconds,
        )

    return await server.in_thread(work)


@routes.post("/api/agents/{agent_id}/start", Role.AGENT, "Start tasks that the broker delivered", errors=(409,))
async def start(agent_id: AgentId, data: StartIn, server: Server, who: Principal) -> Starts:
    """The task is this process's from then on; it reports as any agent does. If the answer gets lost, ask again: what
    the process had started before, and has not ended, is `started` once more.
    """
    handed = [(each.id, each.exec_id) for each in data.tasks]

    def work() -> tuple[HandedStarts, list[Execution]]:
        check_name("agent_id", agent_id)
        worker_id = server.store.agents.consumer(agent_id, data.instance)
        starts = server.store.executions.start_handed(worker_id, handed, actor=who.acting_as(agent_id))
        return starts, [*starts.executions, *_started_before(server.store, worker_id, starts.stale)]

    starts, executions = await server.in_thread(work)
    tasks = {(each.id, each.exec_id): each for each in await executions_out(server, executions)}

    def outcome(report: Report) -> Start:
        if report in tasks:
            return Start(*report, "started", tasks[report])
        if report in starts.held_back:
            return Start(*report, "held_back")
        return Start(*report, "busy" if report in starts.busy else "stale")

    return Starts([outcome(report) for report in handed])


def _started_before(store: Store, worker_id: int, stale: frozenset[Report]) -> list[Execution]:
    """What this process runs already: the answer that said so was lost."""
    held = store.agents.holdings(sorted({task_id for task_id, _ in stale})) if stale else {}
    return [
        holding.execution
        for holding in held.values()
        if holding.worker_id == worker_id and (holding.execution.id, holding.execution.exec_id) in stale
    ]
