"""`/api/session`: sign in at the console with a key, see who one is, sign out."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.door.principal import Principal, Role
from headgate.api.door.sessions import COOKIE, digest_of_token
from headgate.api.keys import RoleWord
from headgate.api.routing import Cookie, Json, Routes
from headgate.api.server import Server
from headgate.core.errors import Refused

PreviousSession = Annotated[str | None, Cookie(COOKIE), Meta(description="The previous session, which ends.")]


class PageOut(msgspec.Struct):
    """A page of the console that a pack brings."""

    label: str
    path: str


class SessionOut(msgspec.Struct, kw_only=True):
    """The current key or session. `open`: the server has no keys, and anyone on its machine may do everything.

    `pages` are those that the packs of this server bring.
    """

    name: str
    role: RoleWord
    tenant_id: int | None
    open: bool
    expires_at: datetime | None = None
    pages: list[PageOut]


routes = Routes("session")


@routes.post("/api/session", Role.READ, "Sign in: exchange a key for a session", status=201, errors=(409,))
async def sign_in(server: Server, who: Principal, before: PreviousSession = None) -> Json[SessionOut]:
    """The request carries a key as any other does; the answer sets a cookie that a browser keeps to itself. It ends by
    itself, with the key, and when somebody signs out. What is changed under it needs the header `X-Headgate-Console`
    too, which no page of another site can send.
    """
    key = None if who.key_id is None else await server.keyring.get(who.key_id)
    if key is None:
        raise Refused.of("server-without-keys")
    if who.session is not None:
        raise Refused.of("session-not-a-key")
    session, cookie = await server.sessions.begin(key, who.actor, digest_of_token(before or ""))
    return Json(_session_out(server, who, session.expires_at), status_code=201, headers={"Set-Cookie": cookie})


@routes.get("/api/session", Role.READ, "Get the current key or session")
async def who_asks(server: Server, who: Principal) -> SessionOut:
    session = None if who.session is None else await server.sessions.get(who.session)
    return _session_out(server, who, None if session is None else session.expires_at)


@routes.delete("/api/session", Role.READ, "Sign out", status=204)
async def sign_out(server: Server, who: Principal) -> Response:
    headers = {}
    if who.session is not None:  # a key needs no session
        headers["Set-Cookie"] = await server.sessions.end(who.session, who.actor)
    return Response(status_code=204, headers=headers)


def _session_out(server: Server, who: Principal, expires_at: datetime | None) -> SessionOut:
    return SessionOut(
        name=who.name,
        role=who.role.word,  # type: ignore[arg-type]
        tenant_id=who.tenant_id,
        open=who.key_id is None,
        expires_at=expires_at,
        pages=[PageOut(page.label, page.path) for pack in server.packs for page in pack.pages],
    )
