"""Callbacks: what is owed to receivers, what came of it, and once more by hand."""

from datetime import datetime
from functools import partial
from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.params import QueryParameter
from msgspec import UNSET, Meta, UnsetType

from headgate.api.principal import Principal, Role
from headgate.api.problems import documented
from headgate.api.server import Server
from headgate.api.shapes import Id, Name
from headgate.api.tasks import Cursor, Limit, Said, TaskId
from headgate.core.callbacks import Delivery, Kind
from headgate.core.errors import HeadgateError
from headgate.outward.callback import lines_to
from headgate.store.base import Store
from headgate.store.delivery_reports import Sent, Try, Wanted

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
    """A callback as it stands. Every request of it carries `webhook_id`; `attempts` counts since it was asked for."""

    id: int
    webhook_id: str
    task_id: int
    tenant_id: int
    type: str
    kind: Kind
    status: Delivery
    attempts: int
    next_attempt_at: datetime | None
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


class Redeliver(msgspec.Struct, forbid_unknown_fields=True):
    """Which of a task's callbacks; the last, unless it is named."""

    delivery_id: Id | None = None


class RedeliverMany(msgspec.Struct, forbid_unknown_fields=True):
    """Which undeliverable callbacks: all, or those of a host, a type, a kind; so many of them, the newest first."""

    host: Name | None = None
    type: Name | None = None
    kind: Kind | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE


class Redelivered(msgspec.Struct):
    """What became of one of them."""

    id: int
    task_id: int
    problem: str | None = None


class RedeliveredMany(msgspec.Struct):
    items: list[Redelivered]


@get(
    "/tasks/{task_id:int}/callbacks",
    summary="A task's callbacks and what came of them",
    responses=documented(404),
    opt={"role": Role.READ},
)
async def callbacks_of_task(task_id: TaskId, server: Server, who: Principal) -> DeliveriesOfTask:
    found = await server.aside(server.store.deliveries.of_task, task_id, who.tenant_id)
    return DeliveriesOfTask([told(sent, who) for sent in found])


@post(
    "/tasks/{task_id:int}/redeliver",
    summary="Send a task's callback again, now",
    description="Under the same id, and as often as a new one; one that is being sent just now goes on as it is.",
    status_code=200,
    responses=documented(404, 409, 413, 415),
    opt={"role": Role.OPERATOR},
)
async def redeliver(task_id: TaskId, server: Server, who: Principal, data: Redeliver | None = None) -> DeliveryTold:
    again = partial(
        server.store.deliveries.redeliver, task_id, delivery_id=data.delivery_id if data else None, actor=who.actor,
        tenant_id=who.tenant_id,
    )  # fmt: skip
    return told(await server.aside(again), who)


@get(
    "/callbacks", summary="List callbacks over all tasks, newest first", responses=documented(), opt={"role": Role.READ}
)
async def list_callbacks(
    server: Server,
    who: Principal,
    status: Annotated[Delivery | None, QueryParameter(description="What has become of it.")] = None,
    kind: Annotated[Kind | None, QueryParameter(description="Whether it tells of a success or an error.")] = None,
    type: Said = None,
    host: Annotated[str | None, QueryParameter(description="With its port, if it is another.", max_length=300)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> DeliveriesPage:
    def work() -> DeliveriesPage:
        wanted = _wanted(server.store, who, Wanted(status=status, kind=kind, type=type, host=host))
        page = server.store.deliveries.find(wanted, cursor=cursor, limit=limit)
        return DeliveriesPage([shown(sent) for sent in page.items], page.next_cursor)

    return await server.aside(work)


@post(
    "/callbacks/redeliver",
    summary="Send undeliverable callbacks again, now",
    status_code=200,
    responses=documented(413, 415),
    opt={"role": Role.OPERATOR},
)
async def redeliver_many(server: Server, who: Principal, data: RedeliverMany | None = None) -> RedeliveredMany:
    asked = data or RedeliverMany()

    def work() -> list[Redelivered]:
        about = Wanted(status=Delivery.UNDELIVERABLE, kind=asked.kind, type=asked.type, host=asked.host)
        page = server.store.deliveries.find(_wanted(server.store, who, about), limit=asked.limit)
        return [_again(server.store, who, sent) for sent in page.items]

    return RedeliveredMany(await server.aside(work))


def _again(store: Store, who: Principal, sent: Sent) -> Redelivered:
    try:
        store.deliveries.redeliver(sent.task_id, delivery_id=sent.id, actor=who.actor, tenant_id=who.tenant_id)
    except HeadgateError as error:
        return Redelivered(sent.id, sent.task_id, str(error))
    return Redelivered(sent.id, sent.task_id)


def _wanted(store: Store, who: Principal, wanted: Wanted) -> Wanted:
    """Of what is theirs; what was never sent belongs to the host that its type says."""
    lines = () if wanted.host is None else lines_to(wanted.host, store.types().values())
    return Wanted(who.tenant_id, wanted.status, wanted.kind, wanted.type, wanted.host, lines)


def shown(sent: Sent) -> DeliveryOut:
    return DeliveryOut(
        id=sent.id,
        webhook_id=sent.webhook_id,
        task_id=sent.task_id,
        tenant_id=sent.tenant_id,
        type=sent.type,
        kind=sent.kind,
        status=sent.status,
        attempts=sent.attempts,
        next_attempt_at=sent.due_at,
        host=sent.host,
        last_status=sent.last_status,
        last_error=sent.last_error,
        created_at=sent.created_at,
        update_date=sent.update_date,
        delivered_at=sent.delivered_at,
    )


def told(sent: Sent, who: Principal) -> DeliveryTold:
    return DeliveryTold(**msgspec.structs.asdict(shown(sent)), history=[_attempt(each, who) for each in sent.tries])


def _attempt(each: Try, who: Principal) -> AttemptOut:
    out = AttemptOut(each.id, each.at, each.host, each.status, each.seconds, each.error)
    if who.role is Role.ADMIN:  # a receiver inside may answer with what is not for everybody
        out.answer = each.body
    return out


routes = Router(
    "/api", route_handlers=[callbacks_of_task, redeliver, list_callbacks, redeliver_many], tags=["callbacks"]
)  # fmt: skip
