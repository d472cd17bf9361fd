"""Reports of agents, taken: how executions ended, and what becomes of a report that came too late."""

from collections.abc import Sequence

from headgate.api.agents.shapes import ReportIn
from headgate.api.door.principal import Principal
from headgate.api.server import Server
from headgate.api.shapes import text_of
from headgate.core.errors import HeadgateError, Refused, StaleExecution
from headgate.core.machine import CancelReached, Event, GivenBack, PauseReached, Raised, Returned
from headgate.core.retry import ErrorClass, Verdict, judge, listed_class
from headgate.core.states import State
from headgate.core.task import Execution, TaskType, check_json, check_name
from headgate.environment import random_number, utc_now
from headgate.events.end_lines import log_failure
from headgate.store.claim.contract import Outcome
from headgate.store.execution.agents import Holding, stale
from headgate.store.store import Store

NOTHING = "null"
End = State | HeadgateError
# For these a holding from the cache is enough: what such a report needs to know of the task does not change.
CACHED_HOLDING_IS_ENOUGH = frozenset({"Success", "Completed"})


def settle(server: Server, who: Principal, agent_id: str, reports: Sequence[ReportIn]) -> list[End]:
    """Record how executions ended, in one transaction; what each task is now, or why the report was not taken."""
    check_name("agent_id", agent_id)
    held = _holdings(server, who, agent_id, reports)
    ends: list[End | None] = []
    outcomes: dict[int, Outcome] = {}
    for index, report in enumerate(reports):
        try:
            outcome = _outcome(server.store, who, agent_id, report, held.get(report.exec_id))
            outcomes[index] = outcome._replace(progress=server.late_progress.of(report.exec_id))
            ends.append(None)
        except HeadgateError as error:
            ends.append(error)
    settled = _settle(server, list(outcomes.values()), who.acting_as(agent_id))
    _log(server, list(outcomes.values()), settled)
    for index, state in zip(outcomes, settled, strict=True):
        ends[index] = _not_owner(server.store, reports[index], who) if state is None else state
    server.agent_cache.forget_executions([report.exec_id for report in reports])
    for holding in {h.worker_id: h for h in held.values() if h.agent_id == agent_id}.values():
        server.agent_cache.try_renew(holding)
    return [end for end in ends if end is not None]


def _holdings(server: Server, who: Principal, agent_id: str, reports: Sequence[ReportIn]) -> dict[str, Holding]:
    """The executions that the reports end: as this server handed them out, or as read."""
    held, unknown = {}, []
    for report in reports:
        holding = None
        if report.status in CACHED_HOLDING_IS_ENOUGH:
            holding = server.agent_cache.holding_of(agent_id, report.exec_id)
        if holding is None or report.id != holding.execution.id or not who.can_see(holding.execution.tenant_id):
            unknown.append(report.id)
        else:
            held[report.exec_id] = holding
    if unknown:
        found = server.store.agents.holdings(sorted(set(unknown)), who.tenant_id).values()
        held |= {holding.execution.exec_id: holding for holding in found}
    return held


def _settle(server: Server, outcomes: list[Outcome], actor: str) -> list[End | None]:
    """All together; one by one if that is refused, so that a bad report affects no other."""
    try:
        return [*server.store.executions.settle(outcomes, actor=actor, frees_slots=bool(server.settings.broker))]
    except Refused as error:
        if len(outcomes) <= 1:
            return [error]
        return [end for outcome in outcomes for end in _settle(server, [outcome], actor)]


def _log(server: Server, outcomes: list[Outcome], ends: Sequence[End | None]) -> None:
    """The lines that a worker would write."""
    states = [end if isinstance(end, State) else None for end in ends]
    for outcome, state in zip(outcomes, states, strict=True):
        if state is not None:
            log_failure(outcome.execution, outcome.event, _seconds(outcome))
    server.end_lines.settled(outcomes, states, lambda outcome: (_seconds(outcome), None))


def _seconds(outcome: Outcome) -> float:
    """How long an execution took, until now: what is left of its time tells."""
    left = (outcome.execution.executing_deadline - utc_now()).total_seconds()
    return max(outcome.execution.timeout_seconds - left, 0.0)


def _not_owner(store: Store, report: ReportIn, who: Principal) -> HeadgateError:
    try:
        return not_owner(store, report.id, report.exec_id, who)
    except HeadgateError as error:
        return error


def _outcome(store: Store, who: Principal, agent_id: str, report: ReportIn, holding: Holding | None) -> Outcome:
    """A report as the store takes it; one that is already stale is recorded there too."""
    if holding is None or holding.execution.id != report.id:
        task = store.tasks.get(report.id, who.tenant_id)
        return Outcome(stale(task, report.exec_id), Raised("stale"))
    if holding.agent_id != agent_id:
        raise StaleExecution.of("other-agents-task", task_id=report.id, agent_id=agent_id)
    execution = holding.execution
    if execution.status is State.SCHEDULING and report.status != "Released":
        raise Refused.of("start-not-confirmed", task_id=report.id)
    return Outcome(execution, _event(report, holding, store.types.recent(execution.type)))


def _event(report: ReportIn, holding: Holding, rules: TaskType) -> Event:
    match report.status:
        case "Success" | "Completed":
            result = NOTHING if report.result is None else text_of(report.result)
            if result is not NOTHING:
                check_json("result", result)
            return Returned(result, completed=report.status == "Completed")
        case "Error":
            return Raised(report.error_info, *_verdict(report, holding.execution, rules))
        case "Cancelled" if not holding.cancel:
            raise Refused.of("cancel-not-asked", task_id=report.id)
        case "Cancelled":
            return CancelReached()
        case "Paused" if not holding.pause:
            raise Refused.of("pause-not-asked", task_id=report.id)
        case "Paused":
            return PauseReached()
        case "Released":
            return GivenBack()


def _verdict(report: ReportIn, execution: Execution, rules: TaskType) -> Verdict:
    """What a failure leads to: what the type lists goes before what the agent thinks of it."""
    known = {True: ErrorClass.RETRYABLE, False: ErrorClass.FATAL, None: ErrorClass.UNKNOWN}[report.retryable]
    error_class = listed_class(report.error_names, rules.retry_on, rules.fatal) or known
    return judge(
        rules, error_class, execution.error_count, random_number(), report.retry_after, execution.max_error_count
    )


_REASONS = {
    "overdue": "its deadline had passed",
    "lease_lost": "its agent's lease was over",
    "given_back": "it was given back",
    "compensated": "its start was not confirmed in time",
    "started": "it is another agent's",
    "scheduled": "it is another agent's",
}


def not_owner(store: Store, task_id: int, exec_id: str, who: Principal) -> StaleExecution:
    """Why an exec_id does not own a task; raises `NotFound` if there is no such task, for this one at least."""
    task = store.tasks.get(task_id, who.tenant_id)
    last = store.agents.last_of(task_id, exec_id)
    reason = "it never owned it" if last is None else _REASONS.get(last, f"its end is on record: {last}")
    status = str(task.status)
    return StaleExecution.of("stale-execution", exec_id=exec_id, task_id=task_id, status=status, reason=reason)
