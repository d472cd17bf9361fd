"""`/api/audit`: who did what, when, to what, from where, and what the system did by itself."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate.api.actions import check_timezone
from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import Cursor, Limit, ShortText, copied
from headgate.store.events.acts import ActFilter


class ActOut(msgspec.Struct, rename={"before": "from", "after": "to"}):
    """One act. `object` is `task:5`, `lane:mail`, `type:download` and so on.

    `changes` has what each value was (`old`) and is (`new`), `from` and `to` the states of a task.
    """

    id: int
    at: datetime
    kind: str
    actor: str
    address: str | None
    object: str
    tenant_id: int | None
    before: str | None
    after: str | None
    changes: dict[str, Any]
    reason: str | None
    detail: dict[str, Any]


class ActPage(msgspec.Struct):
    """With `next_cursor` there is more, though this page may have found little."""

    items: list[ActOut]
    next_cursor: int | None


routes = Routes("system", shared=True)


@routes.get("/api/audit", Role.OPERATOR, "List who did what, newest first")
async def list_acts(
    server: Server,
    who: Principal,
    actor: Annotated[
        ShortText | None, Meta(description="Filter by actor: `key:3`, `os:alice`, `system`, or a full name.")
    ] = None,
    kind: Annotated[
        ShortText | None, Meta(description="Filter by act: `cancelled`, `capacity_changed` and so on.")
    ] = None,
    object: Annotated[
        ShortText | None, Meta(description="Filter by object: `task:5` or `lane:mail`; `lane` for all lanes.")
    ] = None,
    since: datetime | None = None,
    until: datetime | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> ActPage:
    """What people did to tasks and to the system, and what the system did by itself. A key of one tenant sees what was
    done to its tenant's tasks.
    """
    for moment in (since, until):
        check_timezone(moment)
    wanted = ActFilter(actor, kind, object, since, until, who.tenant_id)
    page = await server.in_thread(server.store.acts.find, wanted, cursor=cursor, limit=limit)
    return ActPage([copied(ActOut, act) for act in page.items], page.next_cursor)
