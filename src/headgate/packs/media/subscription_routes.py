"""`/api/subscriptions`: lists on a site, and what is asked of the site for them.

Each button makes a request; while one of its type is open for the subscription, the answer is that one.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headgate.packs import NewTask, Refused, Store
from headgate.packs.media.addresses import check_url
from headgate.packs.media.deletion import delete_subscription
from headgate.packs.media.items import WANTED, Item, Items, ItemState
from headgate.packs.media.new_request import new_request
from headgate.packs.media.request_shapes import (
    BusyOut,
    EndedOut,
    RequestJob,
    RequestPage,
    Status,
    busy_out,
    ended_out,
    request_out,
)
from headgate.packs.media.requests import SYNC_SECONDS, requests_of, seconds_to_wait, states_of, submit_request
from headgate.packs.media.subscription_tasks import SubscriptionTasks
from headgate.packs.media.subscriptions import Subscription, Subscriptions
from headgate.packs.media.types import BUTTON
from headgate.packs.web import (
    INT64,
    Cursor,
    Header,
    Integer,
    Json,
    Key,
    Limit,
    Name,
    Nothing,
    Principal,
    Rejected,
    Role,
    Routes,
    Server,
    Wait,
    copied,
    text_of,
)

BATCH = 200  # downloads that are submitted together
MOST_SHOWN = 50  # of them

SubscriptionId = Annotated[int, Meta(description="ID of the subscription.", ge=1, le=INT64)]
Url = Annotated[str, Meta(max_length=4096)]
UaProfile = Literal["desktop", "mobile", "alt"]
Sync = Annotated[bool, Meta(description=f"Wait up to {SYNC_SECONDS:.0f} s for the end.")]
Console = Annotated[str | None, Header("X-Headgate-Console"), Meta(description="Sent by the console's own pages.")]


class SubscriptionIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A subscription to be made. `requires_cookie`: the site shows the list only to who is signed in."""

    name: Name
    url: Url
    requires_cookie: bool = False
    tenant_id: Integer | None = None


class CollectionIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An address to be looked at."""

    url: Url
    requires_cookie: bool = False
    ua_profile: UaProfile | None = None


class ItemCounts(msgspec.Struct):
    """How many items there are of each kind; `missing` and `broken` were downloaded once."""

    listed: int
    downloaded: int
    missing: int
    broken: int


class SubscriptionOut(msgspec.Struct, kw_only=True):
    """A subscription. `expected_total` is what the site says; `busy` is null while nothing is open for it.

    `last_ended` is the newest request that has ended; null if none of the newest has.
    """

    id: int
    tenant_id: int
    name: str
    url: str
    requires_cookie: bool
    created_at: datetime
    expected_total: int | None
    expected_at: datetime | None
    listed_at: datetime | None
    items: ItemCounts
    last_ended: EndedOut | None
    busy: BusyOut | None


class SubscriptionPage(msgspec.Struct):
    items: list[SubscriptionOut]
    next_cursor: int | None


class DownloadsOut(msgspec.Struct):
    """What a download began: the first requests, how many were made, and how many were open already."""

    requests: list[RequestJob]
    created: int
    already_open: int


routes = Routes("subscriptions")


# The subscriptions themselves


@routes.post("/api/subscriptions", Role.SUBMIT, "Create a subscription", status=201, errors=(507,))
async def create(data: SubscriptionIn, server: Server, who: Principal) -> SubscriptionOut:
    def work() -> SubscriptionOut:
        made = Subscriptions(server.store.database).create(
            who.allowed_tenant(data.tenant_id), data.name, data.url, requires_cookie=data.requires_cookie,
            actor=who.actor,
        )  # fmt: skip
        return _out(server.store, [made])[0]

    return await server.in_thread(work)


@routes.get("/api/subscriptions", Role.READ, "List subscriptions, newest first")
async def list_subscriptions(
    server: Server, who: Principal, cursor: Cursor = None, limit: Limit = 50
) -> SubscriptionPage:
    def work() -> SubscriptionPage:
        found = Subscriptions(server.store.database).find(who.tenant_id, cursor=cursor, limit=limit)
        return SubscriptionPage(_out(server.store, found), found[-1].id if len(found) == limit else None)

    return await server.in_thread(work)


@routes.get("/api/subscriptions/{subscription_id}", Role.READ, "Get a subscription", errors=(404,))
async def show(subscription_id: SubscriptionId, server: Server, who: Principal) -> SubscriptionOut:
    return await server.in_thread(lambda: _out(server.store, [_get(server.store, who, subscription_id)])[0])


@routes.delete("/api/subscriptions/{subscription_id}", Role.OPERATOR, "Delete a subscription", errors=(404,))
async def delete(subscription_id: SubscriptionId, server: Server, who: Principal) -> None:
    """Its open requests are cancelled, including running ones. Downloaded files stay."""
    await server.in_thread(delete_subscription, server.store, subscription_id, who.tenant_id, actor=who.actor)


@routes.get(
    "/api/subscriptions/{subscription_id}/tasks", Role.READ, "List the requests of a subscription", errors=(404,)
)
async def list_tasks(
    subscription_id: SubscriptionId,
    server: Server,
    who: Principal,
    status: Status | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> RequestPage:
    def work() -> RequestPage:
        subscription = _get(server.store, who, subscription_id)
        found, next_cursor = requests_of(
            server.store, subscription.id, subscription.tenant_id, cursor=cursor, limit=limit,
            states=None if status is None else states_of(status),
        )  # fmt: skip
        return RequestPage([request_out(task, server.store) for task in found], next_cursor, 1, limit)

    return await server.in_thread(work)


# What is asked of the site


@routes.get(
    "/api/subscriptions/{subscription_id}/expected-total",
    Role.SUBMIT,
    "Ask the site how many items the list has",
    errors=(404, 409, 507),
    also={202: "It has not ended when the time is up"},
)
async def expected_total(
    subscription_id: SubscriptionId,
    server: Server,
    who: Principal,
    console: Console = None,
    sync: Sync = False,
    wait: Wait = None,
) -> Json[RequestJob]:
    """It makes a request, though it is a GET: a browser sends it for the console's own pages only."""
    if who.session is not None and console is None:
        raise Rejected(403, "this makes a request: a session may do so from the console's own pages only")
    subscription = await _subscription(server, who, subscription_id)
    answer = await submit_request(
        server, who, _request("expected_total", subscription), None, seconds_to_wait(sync, wait)
    )  # fmt: skip
    if answer.status_code == 201:
        answer.status_code = 200
    return answer


@routes.post(
    "/api/subscriptions/{subscription_id}/refresh-list",
    Role.SUBMIT,
    "Fetch the list again",
    status=201,
    errors=(404, 409, 507),
)
async def refresh_list(
    subscription_id: SubscriptionId, server: Server, who: Principal, key: Key = None, data: Nothing | None = None
) -> Json[RequestJob]:
    subscription = await _subscription(server, who, subscription_id)
    return await submit_request(server, who, _request("list_fetch", subscription, then_download=False), key)


@routes.post(
    "/api/subscriptions/{subscription_id}/download",
    Role.SUBMIT,
    "Download new items",
    status=201,
    errors=(404, 409, 507),
)
async def download(
    subscription_id: SubscriptionId,
    server: Server,
    who: Principal,
    use_cache_only: Annotated[bool, Meta(description="Use the list as it was last fetched.")] = False,
    data: Nothing | None = None,
) -> DownloadsOut:
    """Fetches the list, and then every item that is not here; with the cookie, all of it. With `use_cache_only=true`
    the items are those that the last fetch found."""
    subscription = await _subscription(server, who, subscription_id)
    if use_cache_only:
        return await _download_listed(server, who, subscription)
    new = _request("list_fetch", subscription, requires_cookie=True, then_download=True)
    [made] = await server.submits.submit([new], who.actor, None)
    task = await server.submits.task(made)
    if not made.done.created and not json.loads(task.ext).get("then_download"):
        raise Refused(f"its list is being fetched (request {task.id}): download when that has finished")
    request = request_out(task, server.store, created=made.done.created)
    return DownloadsOut([request], int(made.done.created), int(not made.done.created))


@routes.post(
    "/api/subscriptions/parse-collection",
    Role.SUBMIT,
    "Look up what is at an address",
    status=201,
    errors=(409, 507),
    also={202: "It has not ended when the time is up"},
)
async def parse_collection(
    data: CollectionIn, server: Server, who: Principal, key: Key = None, sync: Sync = False, wait: Wait = None
) -> Json[RequestJob]:
    check_url(data.url)
    request_text = text_of([data.url, data.requires_cookie, data.ua_profile])
    new = new_request(
        "parse",
        who.allowed_tenant(None),
        url=data.url,
        requires_cookie=data.requires_cookie,
        ua_profile=data.ua_profile,
        priority=BUTTON,
        unique_key=f"url:{hashlib.sha256(request_text.encode()).hexdigest()[:40]}",
    )
    return await submit_request(server, who, new, key, seconds_to_wait(sync, wait))


async def _download_listed(server: Server, who: Principal, subscription: Subscription) -> DownloadsOut:
    """A download for every item that is listed and not here, page by page."""
    items = Items(server.store.database)
    if subscription.listed_at is None and not await server.in_thread(items.find, subscription.id, limit=1):
        raise Refused("its list was never fetched: refresh it first")
    answer = DownloadsOut([], 0, 0)
    after = 0
    while page := await server.in_thread(items.find, subscription.id, WANTED, after=after, limit=BATCH):
        after = page[-1].id
        made = await server.submits.submit([_download_of(subscription, item) for item in page], who.actor, None)
        answer.created += sum(each.done.created for each in made)
        answer.already_open += sum(not each.done.created for each in made)
        for each in made[: MOST_SHOWN - len(answer.requests)]:
            task = await server.submits.task(each)
            answer.requests.append(request_out(task, server.store, created=each.done.created))
    return answer


def _request(
    type_code: str, subscription: Subscription, *, requires_cookie: bool | None = None, **more: Any
) -> NewTask:
    return new_request(
        type_code,
        subscription.tenant_id,
        subscription_id=subscription.id,
        url=subscription.url,
        requires_cookie=subscription.requires_cookie if requires_cookie is None else requires_cookie,
        priority=BUTTON,
        **more,
    )


def _download_of(subscription: Subscription, item: Item) -> NewTask:
    return new_request(
        "download",
        subscription.tenant_id,
        subscription_id=subscription.id,
        url=item.url,
        item=item.key,
        requires_cookie=True,
        priority=BUTTON,
    )


def _get(store: Store, who: Principal, subscription_id: int) -> Subscription:
    return Subscriptions(store.database).get(subscription_id, who.tenant_id)


async def _subscription(server: Server, who: Principal, subscription_id: int) -> Subscription:
    return await server.in_thread(_get, server.store, who, subscription_id)


def _out(store: Store, subscriptions: list[Subscription]) -> list[SubscriptionOut]:
    ids = [each.id for each in subscriptions]
    if not ids:
        return []
    counts = Items(store.database).counts(ids)
    tasks = SubscriptionTasks(store.database)
    busy, last_ended = tasks.open_requests(ids), tasks.last_ended(ids)
    return [
        copied(
            SubscriptionOut,
            each,
            items=_counts(counts[each.id]),
            last_ended=ended_out(last_ended.get(each.id)),
            busy=busy_out(each.id, busy.get((each.tenant_id, each.id))),
        )
        for each in subscriptions
    ]  # fmt: skip


def _counts(counts: Mapping[ItemState, int]) -> ItemCounts:
    return ItemCounts(**{state.value: counts[state] for state in ItemState})
