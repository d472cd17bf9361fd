"""Reports of agents, taken: how executions ended, and what becomes of a report that came too late."""

from collections.abc import Callable, Sequence

from headgate.api.agent_shapes import ReportIn
from headgate.api.principal import Principal
from headgate.api.server import Server
from headgate.api.shapes import text_of
from headgate.core.errors import HeadgateError, Refused, StaleExecution
from headgate.core.machine import CancelReached, Event, GivenBack, PauseReached, Raised, Returned
from headgate.core.retry import next_delay
from headgate.core.states import State
from headgate.core.task import Execution, TaskType, check_json, check_name
from headgate.outside import draw
from headgate.store.agents import Holding, stale
from headgate.store.base import Store
from headgate.store.claims import Outcome

NOTHING = "null"
End = State | HeadgateError
AS_HANDED_OUT = frozenset({"Success", "Completed"})  # what such a report needs to know of the task does not change


def settle(server: Server, who: Principal, agent_id: str, reports: Sequence[ReportIn]) -> list[End]:
    """Record how executions ended, in one transaction; what each task is now, or why the report was not taken."""
    check_name("agent_id", agent_id)
    held = _held(server, who, agent_id, reports)
    ends: list[End | None] = []
    outcomes: dict[int, Outcome] = {}
    for place, told in enumerate(reports):
        try:
            outcomes[place] = _outcome(server.store, who, agent_id, told, held.get(told.exec_id))
            ends.append(None)
        except HeadgateError as error:
            ends.append(error)
    for place, state in zip(
        outcomes, _settled(server.store, list(outcomes.values()), f"agent:{agent_id}"), strict=True
    ):
        if state is None:
            told = reports[place]
            ends[place] = _problem(lambda told=told: lost(server.store, told.id, told.exec_id, who))  # type: ignore[misc]
        else:
            ends[place] = state
    server.roster.forget([told.exec_id for told in reports])
    for holding in {h.worker_id: h for h in held.values() if h.agent_id == agent_id}.values():
        server.roster.heard(holding)
    return [end for end in ends if end is not None]


def _held(server: Server, who: Principal, agent_id: str, reports: Sequence[ReportIn]) -> dict[str, Holding]:
    """What the reports are about, by execution: as this server handed it out, or as it is read."""
    held, unknown = {}, []
    for told in reports:
        holding = server.roster.handed_out(agent_id, told.exec_id) if told.status in AS_HANDED_OUT else None
        if holding is None or told.id != holding.execution.id or not who.sees(holding.execution.tenant_id):
            unknown.append(told.id)
        else:
            held[told.exec_id] = holding
    if unknown:
        found = server.store.agents.holdings(sorted(set(unknown)), who.tenant_id).values()
        held |= {holding.execution.exec_id: holding for holding in found}
    return held


def _settled(store: Store, outcomes: list[Outcome], actor: str) -> list[End | None]:
    """All together; one by one if that is refused, so that nobody suffers for another's report."""
    try:
        return [*store.settle(outcomes, actor=actor)]
    except Refused as error:
        if len(outcomes) <= 1:
            return [error]
        return [end for outcome in outcomes for end in _settled(store, [outcome], actor)]


def _problem(reason: Callable[[], str]) -> HeadgateError:
    try:
        return StaleExecution(reason())
    except HeadgateError as error:
        return error


def _outcome(store: Store, who: Principal, agent_id: str, told: ReportIn, holding: Holding | None) -> Outcome:
    """A report as the store takes it; what is stale already goes on record there as well."""
    if holding is None or holding.execution.id != told.id:
        task = store.get(told.id, who.tenant_id)
        return Outcome(stale(task, told.exec_id), Raised("stale"))
    if holding.agent_id != agent_id:
        raise StaleExecution(f"task {told.id} is not agent {agent_id}'s")
    execution = holding.execution
    if execution.status is State.SCHEDULING and told.status != "Released":
        raise Refused(f"task {told.id} is scheduling: its start has not been confirmed")
    return Outcome(execution, _event(told, holding, store.type_of(execution.type)))


def _event(told: ReportIn, holding: Holding, rules: TaskType) -> Event:
    match told.status:
        case "Success" | "Completed":
            result = NOTHING if told.result is None else text_of(told.result)
            if result is not NOTHING:
                check_json("result", result)
            return Returned(result, completed=told.status == "Completed")
        case "Error":
            return Raised(told.error_info, _delay(told, holding.execution, rules))
        case "Cancelled" if not holding.cancel:
            raise Refused(f"nobody asked for task {told.id} to be cancelled")
        case "Cancelled":
            return CancelReached()
        case "Paused" if not holding.pause:
            raise Refused(f"nobody asked for task {told.id} to be paused")
        case "Paused":
            return PauseReached()
        case "Released":
            return GivenBack()


def _delay(told: ReportIn, execution: Execution, rules: TaskType) -> float | None:
    if told.retryable is False or (told.retryable is None and rules.unknown_errors == "fail"):
        return None
    return next_delay(rules.retry, execution.error_count, draw(), told.retry_after, execution.max_error_count)


_ENDED = {
    "overdue": "its deadline had passed",
    "lease_lost": "its agent's lease was over",
    "given_back": "it was given back",
    "compensated": "its start was not confirmed in time",
    "started": "it is another agent's",
    "scheduled": "it is another agent's",
}


def lost(store: Store, task_id: int, exec_id: str, who: Principal) -> str:
    """Why an exec_id does not own a task; `NotFound` if there is no such task, for this one at least."""
    task = store.get(task_id, who.tenant_id)
    last = store.agents.last_of(task_id, exec_id)
    reason = "it never did" if last is None else _ENDED.get(last, f"its end is on record: {last}")
    return f"exec_id {exec_id} does not own task {task_id}, which is {task.status}: {reason}"
