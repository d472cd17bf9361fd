"""`/api/cookies`: the cookies of sites. What is in one goes in and never out."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.packs.media.cookies import Cookie, Cookies
from headgate.packs.web import INT64, Integer, Nothing, Principal, Role, Routes, Server, copied

Site = Annotated[str, Meta(description="Host name, including its subdomains: example.org.", max_length=253)]
Tenant = Annotated[int | None, Meta(description="Tenant that owns it; default: 0.", ge=-INT64, le=INT64)]


class CookieIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A cookie: a Netscape cookie file, or the value of a Cookie header (`SESSDATA=…; other=…`)."""

    content: Annotated[str, Meta(max_length=262_144)]
    tenant_id: Integer | None = None

    def __repr__(self) -> str:  # for tracebacks
        return "CookieIn(…)"


class CookieOut(msgspec.Struct, kw_only=True):
    """A cookie without its content. `failures` are in a row; a disabled one is not used; a warning counts nothing."""

    site: str
    tenant_id: int
    failures: int
    disabled_at: datetime | None
    last_error: str | None
    last_warned_at: datetime | None
    created_at: datetime
    changed_at: datetime
    used_at: datetime | None


class CookieList(msgspec.Struct):
    items: list[CookieOut]


routes = Routes("cookies")


@routes.get("/api/cookies", Role.OPERATOR, "List cookies, without their content")
async def list_cookies(server: Server, who: Principal) -> CookieList:
    found = await server.in_thread(_cookies(server).find, who.tenant_id)
    return CookieList([_out(cookie) for cookie in found])


@routes.put("/api/cookies/{site}", Role.OPERATOR, "Store the cookie of a site", errors=(507,))
async def put_cookie(site: Site, data: CookieIn, server: Server, who: Principal) -> CookieOut:
    """It replaces an earlier one, is enabled and has no failures. It is stored sealed under HEADGATE_SECRET."""
    tenant_id = who.allowed_tenant(data.tenant_id)
    return _out(await server.in_thread(_cookies(server).put, tenant_id, site, data.content, actor=who.actor))


@routes.post("/api/cookies/{site}/enable", Role.OPERATOR, "Use a disabled cookie again", errors=(404,))
async def enable_cookie(
    site: Site, server: Server, who: Principal, tenant_id: Tenant = None, data: Nothing | None = None
) -> CookieOut:
    return _out(await server.in_thread(_cookies(server).enable, who.allowed_tenant(tenant_id), site, actor=who.actor))


@routes.delete("/api/cookies/{site}", Role.OPERATOR, "Delete a cookie", errors=(404,))
async def delete_cookie(site: Site, server: Server, who: Principal, tenant_id: Tenant = None) -> None:
    await server.in_thread(_cookies(server).delete, who.allowed_tenant(tenant_id), site, actor=who.actor)


def _cookies(server: Server) -> Cookies:
    return Cookies(server.store.database, server.seals)


def _out(cookie: Cookie) -> CookieOut:
    return copied(CookieOut, cookie)
