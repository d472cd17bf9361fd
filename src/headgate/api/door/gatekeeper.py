"""Before any route: who may come in at all. Every answer has the request's id and the headers that keep it safe."""

import asyncio
import re
from typing import Any, NoReturn

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.api.console import is_page
from headgate.api.door.address import LOCAL_NAMES, TrustedProxies, is_loopback, is_loopback_address, network_of
from headgate.api.door.failures import Failures
from headgate.api.door.logs import SAFE_METHODS, RequestLog
from headgate.api.door.principal import ANONYMOUS, Principal, local_person, principal_of_key
from headgate.api.door.refusal_log import REFUSALS, RefusalLog
from headgate.api.door.safe_headers import REQUEST_ID, with_safe_headers
from headgate.api.door.sessions import digest_in
from headgate.api.door.shares import REFUSED_SECONDS, ShareUsedUp
from headgate.api.door.signature import is_signed, signature_in
from headgate.api.door.unverified_bodies import UnverifiedBodies
from headgate.api.door.visit import Visit, current_visit
from headgate.api.problems import Rejected, problem_response
from headgate.api.routing import raw_path
from headgate.api.server import Server
from headgate.core.errors import HeadgateError
from headgate.core.keys import Key, matches, parse_key, secret_key
from headgate.core.signing import SCHEME, SignedRequest
from headgate.environment import monotonic, new_uuid7, utc_now
from headgate.events.telemetry import SAFE_ID

SESSION_WEIGHT = 0.25  # of a session that is over, as a wrong key: its pages may ask a few times more
ALWAYS_OPEN = frozenset({"/livez", "/readyz"})
IDEMPOTENCY_KEY = b"idempotency-key"
CONSOLE_HEADER = b"x-headgate-console"  # no page of another site can send it
READ_METHODS = frozenset({"GET", "HEAD"})
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"})
NO_ROUTE = "none"  # one name for all unknown routes, or a caller could create names without end
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[^\s:@/?#\[\]]+))(?::[0-9]{1,5})?", re.ASCII)
# Headers by which browsers describe the calling page. Each must occur once: of two, another reader may pick the other.
PAGE_HEADERS = frozenset({b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"})
NO_KEY = f"the key is missing or not valid: send Authorization: Bearer hg_…, or sign the request ({SCHEME})"
NO_SIGNATURES = "signatures are off: the server has no HEADGATE_SECRET"
Headers = dict[bytes, bytes]


class Gatekeeper:
    """The outermost layer of the API."""

    def __init__(self, inside: ASGIApp, server: Server) -> None:
        self.inside = inside
        self._server = server
        self._keyring = server.keyring
        self._secrets = server.settings.secrets
        self._loopback = is_loopback(server.settings.host)
        self._hosts = LOCAL_NAMES | {name.strip().lower() for name in server.settings.hosts.split(",") if name.strip()}
        self._proxies = TrustedProxies(server.settings.trusted_proxies)
        self._failures = Failures()
        self._refusals = RefusalLog()
        self._unverified_bodies = UnverifiedBodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "there is nothing here"})
            return
        headers, repeated = _headers(scope)
        requested_id = headers.get(REQUEST_ID, b"").decode("latin-1")
        request_id = requested_id if SAFE_ID.fullmatch(requested_id) else new_uuid7()
        state = scope.setdefault("state", {})
        state["request_id"], state["headers"], state["repeated"] = request_id, headers, repeated
        state["client"] = self._proxies.client((scope.get("client") or ("",))[0], scope["headers"])
        request_log = RequestLog(request_id, headers)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                request_log.status = message["status"]
                self._count(scope, request_log)
                message["headers"] = with_safe_headers(message.get("headers", []), request_id)
            await send(message)

        visit = None
        try:
            visit, receive = await self._let_in(scope, headers, repeated, receive)
        except HeadgateError as error:
            if isinstance(error, ShareUsedUp):
                await asyncio.sleep(REFUSED_SECONDS)
            await problem_response(error, request_id)(scope, receive, answer)
        else:
            request_log.authenticated(visit.who.name)
            await self.inside(scope, receive, answer)
        finally:
            if visit is not None:
                visit.end()
            request_log.write(scope)
            if request_log.status in REFUSALS:
                self._refusals.add(request_log.status, scope, _key_id(state.get("principal"), headers))

    def _count(self, scope: Scope, request_log: RequestLog) -> None:
        """Count the answer, and wake the listeners after what may have changed something."""
        method, route = scope["method"], scope.get("path_template", NO_ROUTE)
        label = method if method in METHODS else "other"
        self._server.tally.count_request(label, route, request_log.status, monotonic() - request_log.began)
        if method not in SAFE_METHODS:
            self._server.live_events.bus.wake()

    async def _let_in(
        self, scope: Any, headers: Headers, repeated: set[bytes], receive: Receive
    ) -> tuple[Visit, Receive]:
        """The caller, counted as one more request of its key and tenant."""
        scope["state"]["principal"], receive, nonce = await self._authenticate(scope, headers, repeated, receive)
        who: Principal = scope["state"]["principal"]
        visit = Visit(self._server.shares, who, receive, scope["state"])
        current_visit.set(visit)
        try:
            if nonce is not None and not await self._take_nonce(visit, nonce):
                del scope["state"]["principal"]
                self._refuse_key(scope, headers)
        except BaseException:
            visit.end()
            raise
        return visit, receive

    async def _authenticate(
        self, scope: Any, headers: Headers, repeated: set[bytes], receive: Receive
    ) -> tuple[Principal, Receive, str | None]:
        """Who asks, what is left to be read, and the nonce of a signed request: it is good if it never was used."""
        if scope["path"] in ALWAYS_OPEN:
            return ANONYMOUS, receive, None
        for name in repeated & PAGE_HEADERS:
            raise Rejected(400, f"the header {name.decode()} is given twice")
        if self._loopback and not await self._keyring.exist():
            self._check_local_request(scope, headers, repeated)
            return local_person(_client(scope)), receive, None
        if is_page(scope):  # a page holds nothing secret
            return ANONYMOUS, receive, None
        limited = self._failures.too_many(address_of(scope))
        if b"authorization" not in headers and (
            principal := await self._session_holder(scope, headers, repeated, limited)
        ):
            return principal, receive, None
        key, nonce = None, None
        if not repeated & {b"authorization", b"host"}:
            key, receive, nonce = await self._key(scope, headers, receive, limited)
        if key is None:
            self._refuse_key(scope, headers)
        self._keyring.note_use(key)
        return principal_of_key(key, address=_client(scope)), receive, nonce

    def _refuse_key(self, scope: Any, headers: Headers) -> NoReturn:
        address = address_of(scope)
        limited = self._failures.too_many(address)
        if b"authorization" in headers:  # who brings none is not guessing
            self._failures.add(address)
        if limited:
            raise Rejected(429, "too many wrong keys from this address", {"Retry-After": "60"})
        raise Rejected(401, NO_KEY, {"WWW-Authenticate": "Bearer"})

    async def _take_nonce(self, visit: Visit, nonce: str) -> bool:
        """Whether it is the first time. It is written to the store, in the share of the key."""
        assert visit.who.key_id is not None
        visit.has_begun = True
        return await self._server.in_thread(self._server.store.keys.take_nonce, visit.who.key_id, nonce)

    # A server without keys, for the people at this machine

    def _check_local_request(self, scope: Any, headers: Headers, repeated: set[bytes]) -> None:
        """Refuse requests that a page of another site sends through a user's browser."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if b"host" in repeated or not self._is_local_name(host_name(host)):
            raise Rejected(
                403, "a server without keys answers only under this machine's own names (or those in HEADGATE_HOSTS)"
            )
        if _is_cross_site(scope, headers, host):
            raise Rejected(
                403, "the request comes from a page of another site; a server without keys answers only its own"
            )

    def _is_local_name(self, name: str) -> bool:
        return name in self._hosts or is_loopback_address(name)

    # A server with keys

    async def _key(
        self, scope: Any, headers: Headers, receive: Receive, limited: bool
    ) -> tuple[Key | None, Receive, str | None]:
        """The key that the request carries, or is signed with, and its nonce; no key if it is not good."""
        scheme, _, credentials = headers.get(b"authorization", b"").decode("latin-1").strip().partition(" ")
        if scheme.lower() == "bearer":
            return await self._bearer_key(credentials.strip(), limited), receive, None
        if scheme.upper() == SCHEME:
            return await self._signing_key(credentials, scope, headers, receive, limited)
        return None, receive, None

    async def _session_holder(
        self, scope: Any, headers: Headers, repeated: set[bytes], limited: bool
    ) -> Principal | None:
        """Who is signed in at the console; `Rejected` if another site's page asks in their name."""
        digest = digest_in(headers.get(b"cookie", b""))
        if digest is None or repeated & {b"cookie", b"host"}:
            return None
        session = await self._server.sessions.get(digest, only_known=limited)
        key = None if session is None else await self._keyring.get(session.key_id)
        if session is None or key is None or not key.is_active(utc_now()):
            self._failures.add(address_of(scope), SESSION_WEIGHT)
            return None
        host = headers.get(b"host", b"").decode("latin-1").lower()
        safe = scope["method"] in READ_METHODS or (CONSOLE_HEADER in headers and b"origin" in headers)
        if not safe or _is_cross_site(scope, headers, host) or _origin_differs(headers, host):
            raise Rejected(403, "a session works only for the console's own pages")
        self._server.sessions.note_use(session)
        self._keyring.note_use(key)
        return principal_of_key(key, session.digest, _client(scope))

    async def _bearer_key(self, text: str, limited: bool) -> Key | None:
        read = parse_key(text)
        if read is None:
            return None
        key_id, secret = read
        key = await (self._keyring.get_active(key_id) if limited else self._keyring.get(key_id))
        return key if key is not None and matches(secret, key) and key.is_active(utc_now()) else None

    async def _signing_key(
        self, credentials: str, scope: Any, headers: Headers, receive: Receive, limited: bool
    ) -> tuple[Key | None, Receive, str | None]:
        if not self._secrets:
            raise Rejected(401, NO_SIGNATURES, {"WWW-Authenticate": "Bearer"})
        claimed = signature_in(credentials)
        if claimed is None or not claimed.is_fresh(utc_now()):
            return None, receive, None
        key_id = claimed.key_id
        key = await (self._keyring.get_active(key_id) if limited else self._keyring.get(key_id))
        if key is None or not key.is_active(utc_now()):
            return None, receive, None
        body = await self._unverified_bodies.read(receive, address_of(scope))
        request = SignedRequest(
            scope["method"], raw_path(scope), scope["query_string"].decode("latin-1"),
            headers.get(b"host", b"").decode("latin-1"), body,
            headers[IDEMPOTENCY_KEY].decode("latin-1") if IDEMPOTENCY_KEY in headers else None,
        )  # fmt: skip
        keys = [secret_key(secret, key.id, key.digest) for secret in self._secrets]
        if not any(is_signed(each, request, claimed) for each in keys):
            return None, receive, None
        return key, _receive_again(body, receive), claimed.nonce


def host_name(host: str) -> str:
    """The name in a Host header, without its port; "" for what is no name with a port."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found["v6"] or found["name"]


def _client(scope: Any) -> str:
    return str(scope["state"]["client"])


def _key_id(principal: Principal | None, headers: Headers) -> int | None:
    """Whose key a request came with, or said that it did."""
    if principal is not None:
        return principal.key_id
    scheme, _, credentials = headers.get(b"authorization", b"").decode("latin-1").strip().partition(" ")
    if scheme.upper() == SCHEME:
        claimed = signature_in(credentials)
        return None if claimed is None else claimed.key_id
    read = parse_key(credentials.strip())
    return None if read is None else read[0]


def address_of(scope: Any) -> str:
    """Whose failures are counted together."""
    return network_of(_client(scope))


def _is_cross_site(scope: Any, headers: Headers, host: str) -> bool:
    """Whether a browser sends this for a page that is not ours. Programs say neither of the two headers."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none") and not _is_link(scope, headers)
    return _origin_differs(headers, host)


def _origin_differs(headers: Headers, host: str) -> bool:
    if b"origin" not in headers:
        return False
    _, found, place = headers[b"origin"].decode("latin-1").lower().partition("://")
    return not found or place != host


def _is_link(scope: Any, headers: Headers) -> bool:
    """Somebody follows a link to a page of the console: it is shown to them, and the other site learns nothing."""
    return (
        scope["method"] == "GET"
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
        and not scope["path"].lstrip("/").startswith("api")
    )


def _headers(scope: Any) -> tuple[Headers, set[bytes]]:
    """The headers by name, and the names that were said more than once."""
    found: Headers = {}
    repeated: set[bytes] = set()
    for name, value in scope["headers"]:
        if name in found:
            repeated.add(name)
        found[name] = value
    return found, repeated


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, for who reads it next."""
    given = False

    async def receive_again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
