"""Callbacks: what is owed to receivers, what came of it, and once more by hand."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import Cursor, Id, Limit, Name, Params, TaskId, Text, copied
from headgate.core.callbacks import CallbackKind, Delivery
from headgate.core.errors import HeadgateError
from headgate.outward.callback import callbacks_to
from headgate.store.callbacks.report import CallbackRecord, DeliveryAttempt, DeliveryFilter
from headgate.store.store import Store

MOST_AT_ONCE = 200


class AttemptOut(msgspec.Struct):
    """One attempt: the status of its answer, or null and why there was none. `answer` is shown to admins."""

    id: int
    at: datetime
    host: str
    status: int | None
    seconds: float
    error: str
    answer: str | UnsetType = UNSET


class DeliveryOut(msgspec.Struct, kw_only=True):
    """A callback as it stands. Every request of it carries `webhook_id`; `attempts` counts since it was asked for.

    A `blocked` one is sent by itself once the server's HEADGATE_CALLBACK_ALLOW allows its receiver. Until
    `receiver_rests_until` nothing is sent to its receiver, because it kept failing.
    """

    id: int
    webhook_id: str
    task_id: int
    tenant_id: int
    type: str
    kind: CallbackKind
    status: Delivery
    attempts: int
    next_attempt_at: datetime | None
    receiver_rests_until: datetime | None
    host: str | None
    last_status: int | None
    last_error: str | None
    created_at: datetime
    update_date: datetime
    delivered_at: datetime | None


class DeliveryTold(DeliveryOut, kw_only=True):
    """A callback with its latest attempts, the newest first."""

    history: list[AttemptOut]


class DeliveriesOfTask(msgspec.Struct):
    items: list[DeliveryTold]


class DeliveriesPage(msgspec.Struct):
    items: list[DeliveryOut]
    next_cursor: int | None


class CallbackCounts(msgspec.Struct):
    """How many callbacks wait for a person to send them again; `exact` false: there may be more."""

    undeliverable: int
    exact: bool


class Redeliver(msgspec.Struct, forbid_unknown_fields=True):
    """Which of a task's callbacks; the last, unless it is named."""

    delivery_id: Id | None = None


class RedeliverMany(msgspec.Struct, forbid_unknown_fields=True):
    """Which undeliverable callbacks: all, or those of a host, a type, a kind; at most `limit`, the newest first."""

    host: Name | None = None
    type: Name | None = None
    kind: CallbackKind | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE


class Redelivered(msgspec.Struct):
    """What became of one of them; `code` and `params` say what `problem` says in English."""

    id: int
    task_id: int
    problem: str | None = None
    code: str | UnsetType = UNSET
    params: Params | UnsetType = UNSET


class RedeliveredMany(msgspec.Struct):
    items: list[Redelivered]


routes = Routes("callbacks")


@routes.get(
    "/api/tasks/{task_id}/callbacks", Role.READ, "List the callbacks of a task, with their attempts", errors=(404,)
)
async def callbacks_of_task(task_id: TaskId, server: Server, who: Principal) -> DeliveriesOfTask:
    found = await server.in_thread(server.store.deliveries.of_task, task_id, who.tenant_id)
    return DeliveriesOfTask([delivery_with_history(callback, who) for callback in found])


@routes.post("/api/tasks/{task_id}/redeliver", Role.OPERATOR, "Send a callback of a task again, now", errors=(404, 409))
async def redeliver(task_id: TaskId, server: Server, who: Principal, data: Redeliver | None = None) -> DeliveryTold:
    """It keeps its id and gets as many attempts as a new one. A callback that is being sent right now is left alone."""
    delivery_id = data.delivery_id if data else None
    callback = await server.in_thread(
        server.store.deliveries.redeliver, task_id, delivery_id=delivery_id, actor=who.actor, tenant_id=who.tenant_id
    )
    return delivery_with_history(callback, who)


@routes.get("/api/callbacks", Role.READ, "List the callbacks of all tasks, newest first")
async def list_callbacks(
    server: Server,
    who: Principal,
    status: Annotated[Delivery | None, Meta(description="Filter by status.")] = None,
    kind: Annotated[CallbackKind | None, Meta(description="Filter by kind: success or error.")] = None,
    type: Text = None,
    host: Annotated[
        str | None, Meta(description="Filter by receiver: host, with a port that is not the default.", max_length=300)
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> DeliveriesPage:
    def work() -> DeliveriesPage:
        wanted = _visible(server.store, who, DeliveryFilter(status=status, kind=kind, type=type, host=host))
        page = server.store.deliveries.find(wanted, cursor=cursor, limit=limit)
        items = [copied(DeliveryOut, callback, next_attempt_at=callback.due_at) for callback in page.items]
        return DeliveriesPage(items, page.next_cursor)

    return await server.in_thread(work)


@routes.get("/api/callbacks/counts", Role.READ, "Count undeliverable callbacks")
async def count_callbacks(server: Server, who: Principal) -> CallbackCounts:
    return CallbackCounts(*await server.in_thread(server.store.deliveries.undeliverable, who.tenant_id))


@routes.post("/api/callbacks/redeliver", Role.OPERATOR, "Send undeliverable callbacks again, now")
async def redeliver_many(server: Server, who: Principal, data: RedeliverMany | None = None) -> RedeliveredMany:
    selection = data or RedeliverMany()

    def work() -> list[Redelivered]:
        wanted = DeliveryFilter(
            status=Delivery.UNDELIVERABLE, kind=selection.kind, type=selection.type, host=selection.host
        )
        page = server.store.deliveries.find(_visible(server.store, who, wanted), limit=selection.limit)
        return [_redeliver_one(server.store, who, callback) for callback in page.items]

    return RedeliveredMany(await server.in_thread(work))


def _redeliver_one(store: Store, who: Principal, callback: CallbackRecord) -> Redelivered:
    try:
        store.deliveries.redeliver(callback.task_id, delivery_id=callback.id, actor=who.actor, tenant_id=who.tenant_id)
    except HeadgateError as error:
        return Redelivered(callback.id, callback.task_id, str(error), error.code, dict(error.params))
    return Redelivered(callback.id, callback.task_id)


def _visible(store: Store, who: Principal, wanted: DeliveryFilter) -> DeliveryFilter:
    """The filter within the caller's tenant; a callback that was never sent belongs to the host that its type names."""
    receivers = () if wanted.host is None else callbacks_to(wanted.host, store.types.by_code().values())
    return replace(wanted, tenant_id=who.tenant_id, lines=receivers)


def delivery_with_history(callback: CallbackRecord, who: Principal) -> DeliveryTold:
    history = [_attempt(attempt, who) for attempt in callback.tries]
    return copied(DeliveryTold, callback, next_attempt_at=callback.due_at, history=history)


def _attempt(attempt: DeliveryAttempt, who: Principal) -> AttemptOut:
    # A receiver inside may answer with what is not for everybody.
    return copied(AttemptOut, attempt, answer=attempt.body if who.role is Role.ADMIN else UNSET)
