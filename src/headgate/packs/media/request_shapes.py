"""Requests as the outside sees them: what may be asked for, and how a task of the queue is shown."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headgate.packs import DEFAULT_PRIORITY, NewTask, Store, Task, View, status_word
from headgate.packs.media.addresses import check_url
from headgate.packs.media.lanes import COOKIE
from headgate.packs.media.new_request import new_request
from headgate.packs.media.subscription_tasks import EndedRequest, OpenRequests
from headgate.packs.media.types import SUBSCRIPTION
from headgate.packs.web import INT64, Integer

RequestType = Literal["expected_total", "parse", "list_fetch", "download"]
Status = Literal["queued", "running", "paused", "done", "failed", "canceled"]
Lane = Literal["requires_cookie", "no_cookie"]
RequestId = Annotated[int, Meta(description="ID of the request.", ge=1, le=INT64)]


class RequestIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request to be made. A download always takes the cookie's lane; requests of one subscription run in turn."""

    type: RequestType
    subscription_id: Annotated[int, Meta(ge=0, le=INT64)] | None = None
    url: Annotated[str, Meta(max_length=4096)] | None = None
    requires_cookie: bool | None = None
    ua_profile: Literal["desktop", "mobile", "alt"] | None = None
    priority: Integer = DEFAULT_PRIORITY
    max_attempts: Annotated[int, Meta(ge=1, le=1000)] | None = None

    def new_task(self, tenant_id: int) -> NewTask:
        """`Invalid` for an address that may not be asked for."""
        if self.url is not None:
            check_url(self.url)
        return new_request(
            self.type,
            tenant_id,
            subscription_id=self.subscription_id,
            url=self.url,
            requires_cookie=self.type == "download" or bool(self.requires_cookie),
            ua_profile=self.ua_profile,
            priority=self.priority,
            max_error_count=None if self.max_attempts is None else self.max_attempts - 1,
        )


class RequestJob(msgspec.Struct, kw_only=True):
    """A request as it stands. `attempts` counts starts; `ua_profile` null: whichever is next.

    `created`, where somebody asked for it just now: whether it is new, or was open already.
    """

    id: int
    type: str
    subscription_id: int | None
    url: str | None
    requires_cookie: bool
    ua_profile: str | None
    status: Status
    priority: int
    attempts: int
    max_attempts: int
    last_error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lane: str
    progress: Any
    result: Any
    created: bool | UnsetType = UNSET


class RequestPage(msgspec.Struct):
    """Requests, newest first; `next_cursor` is null at the end.

    With a `next_cursor`, `items` may hold fewer than `size`, or none: a filter that fits few requests is read on there.
    """

    items: list[RequestJob]
    next_cursor: int | None
    page: int
    size: int


class RequestEvent(msgspec.Struct, rename={"before": "from", "after": "to"}):
    """Something that happened to a request; states in the queue's words."""

    id: int
    request_id: int
    type: str
    lane: str
    subscription_id: int | None
    kind: str
    before: str | None
    after: str | None
    at: datetime
    actor: str
    detail: str | None
    code: str
    params: dict[str, Any]


class BusyOut(msgspec.Struct):
    """What a subscription is busy with: its first open request, and how many are open in all."""

    subscription_id: int
    request_id: int
    type: str
    status: Status
    open: int
    text: str


class EndedOut(msgspec.Struct):
    """A request that has ended; `error` is the first line of its last error."""

    request_id: int
    type: str
    status: Status
    ended_at: datetime | None
    error: str | None


class BusyList(msgspec.Struct):
    items: list[BusyOut]


def busy_out(subscription_id: int, requests: OpenRequests | None) -> BusyOut | None:
    """What a subscription is busy with; None if nothing is open."""
    if requests is None:
        return None
    status: Any = status_word(View.REQUESTS, requests.status)
    more = f", and {requests.count - 1} more" if requests.count > 1 else ""
    text = f"{requests.type} {requests.first_id} is {status}{more}"
    return BusyOut(subscription_id, requests.first_id, requests.type, status, requests.count, text)


def ended_out(request: EndedRequest | None) -> EndedOut | None:
    if request is None:
        return None
    status: Any = status_word(View.REQUESTS, request.status)
    return EndedOut(request.id, request.type, status, request.ended_at, request.error)


def request_out(task: Task, store: Store, *, created: bool | UnsetType = UNSET) -> RequestJob:
    """A task as a request; `created` where it was asked for just now."""
    ext = json.loads(task.ext)
    arguments = ext if isinstance(ext, dict) else {}
    retries = store.types.recent(task.type).retry.retries if task.max_error_count is None else task.max_error_count
    status: Any = status_word(View.REQUESTS, task.status, task.error_count)
    return RequestJob(
        id=task.id,
        type=task.type,
        subscription_id=SUBSCRIPTION.value_in(task.ext),
        url=_text(arguments.get("url")),
        requires_cookie=task.lane == COOKIE,
        ua_profile=_text(arguments.get("ua_profile")),
        status=status,
        priority=task.priority,
        attempts=task.attempt,
        max_attempts=retries + 1,
        last_error=task.error_info,
        created_at=task.create_date,
        started_at=task.started_at,
        finished_at=task.finished_at,
        lane=task.lane,
        progress=None if task.progress is None else json.loads(task.progress),
        result=None if task.result is None else json.loads(task.result),
        created=created,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
