"""`/api/agents`: programs in any language fetch tasks, and report."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from headgate.api.agents.late_progress import Report
from headgate.api.agents.reporting import not_owner, settle
from headgate.api.agents.shapes import (
    Answer,
    CheckpointIn,
    ClaimIn,
    CompleteIn,
    FailIn,
    Handed,
    HandedOver,
    LogIn,
    Named,
    ProgressIn,
    Reported,
    ReportIn,
    Reports,
    ReportsIn,
    Trouble,
    execution_out,
)
from headgate.api.door.principal import Principal, Role
from headgate.api.door.visit import this_visit
from headgate.api.live.polls import LongPoll
from headgate.api.live.waiting import KEY_ENDED, count_as, still_authorized, woken
from headgate.api.problems import TYPE, Rejected
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import TaskId, text_of
from headgate.core.errors import HeadgateError, Paused, StaleExecution
from headgate.core.states import State
from headgate.core.task import Execution, check_name
from headgate.environment import monotonic, random_number
from headgate.store.claim.contract import Claimed, ClaimRequest, Control, HeldBack
from headgate.store.execution.agents import Holding

BUSY_SECONDS = 0.005  # another claim held the lock: retry after this time, plus or minus half

AgentId = Annotated[str, Meta(description="Name of the agent.", min_length=1, max_length=255)]

routes = Routes("agents")


@routes.post("/api/agents/{agent_id}/claim", Role.AGENT, "Claim tasks, or wait for some", errors=(409,))
async def claim(agent_id: AgentId, data: ClaimIn, server: Server, who: Principal) -> HandedOver:
    """Hands over what is assigned to the agent first (`scheduling`: confirm the start), then tasks without an agent
    (`running` at once). If the answer gets lost, repeat it with the same `claim_id`.
    """
    check_name("agent_id", agent_id)
    if data.claim_id is not None:
        check_name("claim_id", data.claim_id)
    tenant_id = data.tenant_id if who.tenant_id is None else who.allowed_tenant(data.tenant_id)
    claim_request = ClaimRequest(
        0, data.limit, _frozen(data.types), _frozen(data.categories), tenant_id, data.creator, agent_id, data.claim_id
    )
    poll = LongPoll((who.tenant_id, agent_id, data.instance or ""), claim_request, data.lease_seconds)
    if data.wait_seconds:
        count_as("polls")
        executions = await _claim_or_wait(server, poll, data.wait_seconds)
    else:
        executions = (await _claim_now(server, poll)).executions
    return HandedOver(await executions_out(server, await _give_back_if_gone(server, who, poll, executions)))


def _frozen(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


async def _claim_now(server: Server, poll: LongPoll) -> Claimed:
    """Claim what there is for the agent now; if only a token is missing, its group looks again when one comes."""
    while True:
        claimed: Claimed = await server.in_thread(
            server.agent_cache.claim, poll.identity, poll.claim_request, poll.lease
        )
        if claimed.executions or not claimed.busy or server.polls.closed:
            if claimed.token_in is not None:
                server.polls.wake_later(poll.group, claimed.token_in)
            return claimed
        await asyncio.sleep(BUSY_SECONDS * (0.5 + random_number()))


async def _claim_or_wait(server: Server, poll: LongPoll, seconds: float) -> list[Execution]:
    """Claim as soon as there is something; returns nothing when the time is up or the agent has hung up."""
    end = monotonic() + seconds
    visit = this_visit()
    visit.hung_up.add_done_callback(lambda _: poll.woken.set())
    with server.polls.joined(poll):
        while not (visit.is_gone or server.polls.closed):
            poll.woken.clear()
            claimed = await _claim_now(server, poll)
            if len(claimed.executions) == poll.claim_request.limit:
                server.polls.wake_next(poll.group)
            if claimed.executions:
                return claimed.executions
            left = max(end - monotonic(), 0.0)
            # Nothing wakes a poll when a start becomes due, so it looks again by itself.
            look_again_in = left if claimed.start_in is None else claimed.start_in
            if not await woken(server, poll.woken, min(left, look_again_in)) and left <= look_again_in:
                break
    return []


async def _give_back_if_gone(
    server: Server, who: Principal, poll: LongPoll, executions: list[Execution]
) -> list[Execution]:
    """The tasks; if the agent has hung up, or its key has ended, they are given back, so that others get them at once.

    A claim with a `claim_id` keeps them from an agent that hung up: it will ask for the same again, and may have done
    so already.
    """
    if not executions:
        return []
    authorized = await still_authorized(server, who)
    if authorized and (not this_visit().is_gone or poll.claim_request.claim_id is not None):
        return executions

    actor = who.acting_as(poll.claim_request.agent_id or "")

    def give_back() -> None:
        for execution in executions:
            with contextlib.suppress(StaleExecution):
                server.store.executions.give_back(execution.id, execution.exec_id, actor=actor)

    await server.in_thread(give_back)
    if not authorized:
        raise Rejected(401, KEY_ENDED, {"WWW-Authenticate": "Bearer"})
    return []


async def executions_out(server: Server, executions: Sequence[Execution]) -> list[Handed]:
    """Executions for the outside, each with the states that were saved for it."""
    retried = [execution.id for execution in executions if execution.attempt > 1]
    saved = await server.in_thread(server.store.executions.checkpoints_of, retried) if retried else {}
    return [execution_out(execution, saved.get(execution.id, {})) for execution in executions]


@routes.post(
    "/api/agents/{agent_id}/tasks/{task_id}/start", Role.AGENT, "Confirm the start of a task", errors=(404, 409)
)
async def start(agent_id: AgentId, task_id: TaskId, data: Named, server: Server, who: Principal) -> Answer:
    def begin(holding: Holding) -> Answer:
        execution: Execution | HeldBack | None = holding.execution
        if holding.execution.status is State.SCHEDULING:
            execution = server.store.executions.start(task_id, data.exec_id, actor=who.acting_as(agent_id))
        if isinstance(execution, HeldBack):
            raise Paused.of("start-held-back", task_id=task_id, reason=execution.reason)
        if execution is None:
            raise not_owner(server.store, task_id, data.exec_id, who)
        return _answer(execution, Control(holding.cancel, holding.pause))

    return await _as_owner(server, who, agent_id, task_id, data.exec_id, begin)


@routes.post(
    "/api/agents/{agent_id}/tasks/{task_id}/beat",
    Role.AGENT,
    "Renew the lease, and learn of requests to stop or pause",
    errors=(404, 409),
)
async def beat(agent_id: AgentId, task_id: TaskId, data: Named, server: Server, who: Principal) -> Answer:
    def answer(holding: Holding) -> Answer:
        return _answer(holding.execution, Control(holding.cancel, holding.pause))

    return await _as_owner(server, who, agent_id, task_id, data.exec_id, answer)


@routes.post("/api/agents/{agent_id}/tasks/{task_id}/progress", Role.AGENT, "Report progress", errors=(404, 409))
async def progress(agent_id: AgentId, task_id: TaskId, data: ProgressIn, server: Server, who: Principal) -> Answer:
    fields = {"done": data.done, "total": data.total, "note": data.note, "data": data.data}
    text = text_of({name: value for name, value in fields.items() if value is not None})

    def save(holding: Holding) -> Answer:
        control = server.late_progress.keep(Report(task_id, data.exec_id, text, who.acting_as(agent_id)))
        return _answer(holding.execution, control)

    answer = await _as_owner(server, who, agent_id, task_id, data.exec_id, save)
    server.late_progress.write_later(data.exec_id)
    return answer


@routes.post("/api/agents/{agent_id}/tasks/{task_id}/log", Role.AGENT, "Add log lines to a task", errors=(404, 409))
async def log(agent_id: AgentId, task_id: TaskId, data: LogIn, server: Server, who: Principal) -> Answer:
    def save(holding: Holding) -> Answer:
        lines = [(line.level, line.message) for line in data.lines]
        return _answer(holding.execution, server.store.executions.add_log(task_id, data.exec_id, lines))

    return await _as_owner(server, who, agent_id, task_id, data.exec_id, save)


@routes.post(
    "/api/agents/{agent_id}/tasks/{task_id}/checkpoint",
    Role.AGENT,
    "Save a checkpoint for the next execution",
    errors=(404, 409),
)
async def checkpoint(agent_id: AgentId, task_id: TaskId, data: CheckpointIn, server: Server, who: Principal) -> Answer:
    def save(holding: Holding) -> Answer:
        control = server.store.executions.save_checkpoint(task_id, data.exec_id, data.name, text_of(data.state))
        return _answer(holding.execution, control)

    return await _as_owner(server, who, agent_id, task_id, data.exec_id, save)


async def _as_owner(
    server: Server, who: Principal, agent_id: str, task_id: int, exec_id: str, act: Callable[[Holding], Answer]
) -> Answer:
    """Do something for an execution that owns its task; its agent's lease is renewed."""

    def work() -> Answer:
        check_name("agent_id", agent_id)
        holding = server.store.agents.holdings([task_id], who.tenant_id).get(task_id)
        if not _owns(holding, agent_id, exec_id) or holding is None or holding.worker_id is None:
            raise not_owner(server.store, task_id, exec_id, who)
        server.agent_cache.renew(holding.worker_id, holding.lease_seconds)
        return act(holding)

    return await server.in_thread(work)


def _owns(holding: Holding | None, agent_id: str, exec_id: str) -> bool:
    return holding is not None and holding.execution.exec_id == exec_id and holding.agent_id == agent_id


def _answer(execution: Execution, control: Control) -> Answer:
    requested: Literal["none", "cancel", "pause"] = "cancel" if control.cancel else "pause" if control.pause else "none"
    return Answer(execution.id, execution.status.value, requested, execution.executing_deadline)


@routes.post(
    "/api/agents/{agent_id}/tasks/{task_id}/complete", Role.AGENT, "Report that a task succeeded", errors=(404, 409)
)
async def complete(agent_id: AgentId, task_id: TaskId, data: CompleteIn, server: Server, who: Principal) -> Answer:
    report = ReportIn(id=task_id, exec_id=data.exec_id, status=data.status, result=data.result)
    return await _end(server, who, agent_id, report)


@routes.post("/api/agents/{agent_id}/tasks/{task_id}/fail", Role.AGENT, "Report that a task failed", errors=(404, 409))
async def fail(agent_id: AgentId, task_id: TaskId, data: FailIn, server: Server, who: Principal) -> Answer:
    report = ReportIn(
        id=task_id, exec_id=data.exec_id, status="Error", error_info=data.error_info, retryable=data.retryable,
        retry_after=data.retry_after, error_names=data.error_names,
    )  # fmt: skip
    return await _end(server, who, agent_id, report)


@routes.post(
    "/api/agents/{agent_id}/tasks/{task_id}/cancelled",
    Role.AGENT,
    "Confirm that a task has stopped",
    errors=(404, 409),
)
async def cancelled(agent_id: AgentId, task_id: TaskId, data: Named, server: Server, who: Principal) -> Answer:
    return await _end(server, who, agent_id, ReportIn(id=task_id, exec_id=data.exec_id, status="Cancelled"))


@routes.post(
    "/api/agents/{agent_id}/tasks/{task_id}/paused", Role.AGENT, "Confirm that a task is paused", errors=(404, 409)
)
async def paused(agent_id: AgentId, task_id: TaskId, data: Named, server: Server, who: Principal) -> Answer:
    return await _end(server, who, agent_id, ReportIn(id=task_id, exec_id=data.exec_id, status="Paused"))


@routes.post(
    "/api/agents/{agent_id}/tasks/{task_id}/release",
    Role.AGENT,
    "Hand a task back without an error",
    errors=(404, 409),
)
async def release(agent_id: AgentId, task_id: TaskId, data: Named, server: Server, who: Principal) -> Answer:
    return await _end(server, who, agent_id, ReportIn(id=task_id, exec_id=data.exec_id, status="Released"))


@routes.post("/api/agents/{agent_id}/report", Role.AGENT, "Report the ends of many tasks")
async def report(agent_id: AgentId, data: ReportsIn, server: Server, who: Principal) -> Reports:
    ends = await server.in_thread(settle, server, who, agent_id, data.reports)
    items = []
    for report, end in zip(data.reports, ends, strict=True):
        if isinstance(end, HeadgateError):
            trouble = Trouble(TYPE + end.kind, end.status, str(end), end.code, dict(end.params))
            items.append(Reported(report.id, report.exec_id, problem=trouble))
        else:
            items.append(Reported(report.id, report.exec_id, status=end.value))
    return Reports(items)


async def _end(server: Server, who: Principal, agent_id: str, report: ReportIn) -> Answer:
    [end] = await server.in_thread(settle, server, who, agent_id, [report])
    if isinstance(end, HeadgateError):
        raise end
    return Answer(report.id, end.value, "none")
