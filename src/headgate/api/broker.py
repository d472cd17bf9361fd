"""`/api/broker`: whether tasks go through RabbitMQ, and how that is going."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import copied
from headgate.broker.address import place_of
from headgate.duties.relay import SUBSCRIPTION
from headgate.environment import utc_now
from headgate.settings import broker_urls
from headgate.store.reading.broker_report import total

MOST_QUEUES = 500


class DispatcherOut(msgspec.Struct):
    """The process that hands tasks to the broker."""

    worker_id: int
    process: str
    since: datetime


class QueueOut(msgspec.Struct):
    """A queue, and the tasks handed to it that have not started; `since`: when the first was handed over."""

    name: str
    tasks: int
    since: datetime | None


class MessagesOut(msgspec.Struct):
    """What became of the dispatcher's messages. `resent`: they had started nothing in time."""

    published: int
    confirmed: int
    unconfirmed: int
    returned: int
    refused: int
    resent: int


class DeliveriesOut(msgspec.Struct):
    """What came of messages that workers got; consumers in other languages do not say."""

    received: int
    started: int
    redelivered: int
    stale: int
    held_back: int
    no_slot: int
    undecodable: int


class BrokerOut(msgspec.Struct):
    """How the broker is doing, as the processes that use it last said; the broker itself is not asked.

    `dispatcher` null: the broker is away, or no process with duties runs; workers claim from the store. Messages and
    deliveries are counted since the processes began. `relay_lag_seconds`: for how long the first event that is not
    published has been waiting. `dead_letters`: messages in `headgate.dead`; null if not counted yet.
    """

    configured: Annotated[
        bool, Meta(description="Whether this server has a broker; if not, all other fields are empty.")
    ]
    address: str | None
    dispatcher: DispatcherOut | None
    consumers: int
    tasks: int
    queues: list[QueueOut]
    messages: MessagesOut | None
    deliveries: DeliveriesOut | None
    relay_lag_seconds: float | None
    dead_letters: int | None


NO_BROKER = BrokerOut(
    configured=False, address=None, dispatcher=None, consumers=0, tasks=0, queues=[], messages=None, deliveries=None,
    relay_lag_seconds=None, dead_letters=None,
)  # fmt: skip


routes = Routes("system", shared=True)


@routes.get("/api/broker", Role.READ, "Show the state of the broker")
async def broker(server: Server, who: Principal) -> BrokerOut:
    who.require_all_tenants()
    if not server.settings.broker:
        return NO_BROKER
    return await server.in_thread(_report, server)


def _report(server: Server) -> BrokerOut:
    report, now = server.store.broker_reports.current(), utc_now()
    relays = [each for each in server.store.subscriptions.all() if each.name == SUBSCRIPTION]
    counts = {name.replace(" ", "_"): count for name, count in total(report.deliveries).items()}
    return BrokerOut(
        configured=True,
        address=", ".join(map(place_of, broker_urls(server.settings.broker))),
        dispatcher=None if report.dispatcher is None else copied(DispatcherOut, report.dispatcher),
        consumers=report.consumers,
        tasks=report.tasks,
        queues=[copied(QueueOut, queue) for queue in report.queues[:MOST_QUEUES]],
        messages=MessagesOut(*(report.messages.get(name, 0) for name in MessagesOut.__struct_fields__)),
        deliveries=DeliveriesOut(*(counts.get(name, 0) for name in DeliveriesOut.__struct_fields__)),
        relay_lag_seconds=relays[0].lag_seconds(now) if relays else None,
        dead_letters=report.dead_letters,
    )
