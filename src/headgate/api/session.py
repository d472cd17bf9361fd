"""`/api/session`: sign in at the console with a key, see who one is, sign out."""

from datetime import datetime
from typing import Annotated

import msgspec
from litestar import Response, Router, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import CookieParameter

from headgate.api.keys import RoleWord
from headgate.api.principal import Principal, Role
from headgate.api.problems import documented
from headgate.api.server import Server
from headgate.api.session_cache import COOKIE, digest_of_token
from headgate.core.errors import Refused

PreviousSession = Annotated[str | None, CookieParameter(name=COOKIE, description="The session that was: it ends.")]


class SessionOut(msgspec.Struct, kw_only=True):
    """Who asks. `open`: the server has no keys, and whoever sits at its machine may do everything."""

    name: str
    role: RoleWord
    tenant_id: int | None
    open: bool
    expires_at: datetime | None = None


@post(
    "/",
    summary="Sign in: change a key for a session",
    responses=documented(409),
    opt={"role": Role.READ},
    description=(
        "The request carries a key as any other does; the answer sets a cookie that a browser keeps to itself. It ends "
        "by itself, with the key, and when somebody signs out. What is changed under it needs the header "
        "`X-Headgate-Console` too, which no page of another site can send."
    ),
)
async def sign_in(server: Server, who: Principal, before: PreviousSession = None) -> Response[SessionOut]:
    key = None if who.key_id is None else await server.keyring.get(who.key_id)
    if key is None:
        raise Refused("this server has no keys: there is nothing to sign in with")
    if who.session is not None:
        raise Refused("a session does not make another: sign in with a key")
    session, cookie = await server.session_cache.begin(key, who.actor, digest_of_token(before or ""))
    return Response(_session_out(who, session.expires_at), status_code=201, headers={"Set-Cookie": cookie})


@get("/", summary="Who asks", responses=documented(), opt={"role": Role.READ})
async def who_asks(server: Server, who: Principal) -> SessionOut:
    session = None if who.session is None else await server.session_cache.get(who.session)
    return _session_out(who, None if session is None else session.expires_at)


SIGNED_OUT = ResponseSpec(data_container=None, description="Signed out", generate_examples=False)


@delete("/", summary="Sign out", responses=documented() | {204: SIGNED_OUT}, opt={"role": Role.READ})
async def sign_out(server: Server, who: Principal) -> Response[None]:
    headers = {}
    if who.session is not None:  # a key needs no session
        headers["Set-Cookie"] = await server.session_cache.end(who.session, who.actor)
    return Response(None, status_code=204, headers=headers)


def _session_out(who: Principal, expires_at: datetime | None) -> SessionOut:
    return SessionOut(
        name=who.name,
        role=who.role.word,  # type: ignore[arg-type]
        tenant_id=who.tenant_id,
        open=who.key_id is None,
        expires_at=expires_at,
    )


routes = Router("/api/session", route_handlers=[sign_in, who_asks, sign_out], tags=["session"])
