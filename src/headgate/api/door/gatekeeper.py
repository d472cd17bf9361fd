"""Before any route: who may come in at all. Every answer has the request's id and the headers that keep it safe."""

import ipaddress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.api.console import is_page
from headgate.api.door.failures import Failures
from headgate.api.door.logs import SAFE_METHODS, RequestLog
from headgate.api.door.principal import ANONYMOUS, Principal, local_person, principal_of_key
from headgate.api.door.sessions import digest_in
from headgate.api.door.signature import is_signed, signature_in
from headgate.api.problems import Rejected, problem_response
from headgate.api.routing import raw_path, read_body
from headgate.api.server import Server
from headgate.core.errors import HeadgateError
from headgate.core.keys import Key, matches, parse_key, secret_key
from headgate.core.signing import SCHEME, SignedRequest
from headgate.environment import monotonic, new_uuid7, utc_now
from headgate.events.telemetry import SAFE_ID

MOST_HEADER_BYTES = 32 * 1024
SESSION_WEIGHT = 0.25  # of a session that is over, as a wrong key: its pages may ask a few times more
ALWAYS_OPEN = frozenset({"/livez", "/readyz"})
REQUEST_ID = b"x-request-id"
CONSOLE_HEADER = b"x-headgate-console"  # no page of another site can send it
READ_METHODS = frozenset({"GET", "HEAD"})
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"})
NO_ROUTE = "none"  # what is asked for and not there has one name, or whoever asks could make names without end
# Only where the route has not said something else, as a page for people has to.
SAFE_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
LOCAL_NAMES = frozenset({"localhost"})
NO_KEY = f"a key is needed, and it must be good: Authorization: Bearer hg_…, or a signature ({SCHEME})"
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
        self._failures = Failures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "there is nothing here"})
            return
        headers, repeated = _headers(scope)
        requested_id = headers.get(REQUEST_ID, b"").decode("latin-1")
        request_id = requested_id if SAFE_ID.fullmatch(requested_id) else new_uuid7()
        state = scope.setdefault("state", {})
        state["request_id"], state["headers"], state["repeated"] = request_id, headers, repeated
        request_log = RequestLog(request_id, headers)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                request_log.status = message["status"]
                self._count(scope, request_log)
                message["headers"] = _with_safe_headers(message.get("headers", []), request_id)
            await send(message)

        try:
            state["principal"], receive = await self._authenticate(scope, headers, repeated, receive)
        except HeadgateError as error:
            await problem_response(error, request_id)(scope, receive, answer)
        else:
            request_log.authenticated(state["principal"].name)
            await self.inside(scope, receive, answer)
        finally:
            request_log.write(scope)

    def _count(self, scope: Scope, request_log: RequestLog) -> None:
        """Count the answer, and wake the listeners after what may have changed something."""
        method, route = scope["method"], scope.get("path_template", NO_ROUTE)
        label = method if method in METHODS else "other"
        self._server.tally.count_request(label, route, request_log.status, monotonic() - request_log.began)
        if method not in SAFE_METHODS:
            self._server.live_events.bus.wake()

    async def _authenticate(
        self, scope: Any, headers: Headers, repeated: set[bytes], receive: Receive
    ) -> tuple[Principal, Receive]:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADER_BYTES:
            raise Rejected(431, f"the headers of a request hold at most {MOST_HEADER_BYTES // 1024} KiB")
        if scope["path"] in ALWAYS_OPEN:
            return ANONYMOUS, receive
        if self._loopback and not await self._keyring.exist():
            self._check_local_request(scope, headers, repeated)
            return local_person(_client(scope)), receive
        if is_page(scope):  # there is nothing in it that anybody may not see
            return ANONYMOUS, receive
        address = address_of(scope)
        limited = self._failures.too_many(address)
        if b"authorization" not in headers and (
            principal := await self._session_holder(scope, headers, repeated, limited)
        ):
            return principal, receive
        key = None
        if not repeated & {b"authorization", b"host"}:
            key, receive = await self._key(scope, headers, receive, limited)
        if key is None:
            if b"authorization" in headers:  # who brings none is not guessing
                self._failures.add(address)
            if limited:
                raise Rejected(429, "too many wrong keys from this address", {"Retry-After": "60"})
            raise Rejected(401, NO_KEY, {"WWW-Authenticate": "Bearer"})
        self._keyring.note_use(key)
        return principal_of_key(key, address=_client(scope)), receive

    # A server without keys, for the people at this machine

    def _check_local_request(self, scope: Any, headers: Headers, repeated: set[bytes]) -> None:
        """No page of another site may drive us through the browser of whoever sits here."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if b"host" in repeated or not self._is_local_name(host_name(host)):
            raise Rejected(
                403, "a server without keys answers only under this machine's own names (or those in HEADGATE_HOSTS)"
            )
        if _is_cross_site(scope, headers, host):
            raise Rejected(403, "a page of another site asks; a server without keys answers only its own")

    def _is_local_name(self, name: str) -> bool:
        return name in self._hosts or _is_loopback_address(name)

    # A server with keys

    async def _key(self, scope: Any, headers: Headers, receive: Receive, limited: bool) -> tuple[Key | None, Receive]:
        """The key that the request carries, or is signed with; None if it is not good."""
        scheme, _, credentials = headers.get(b"authorization", b"").decode("latin-1").strip().partition(" ")
        if scheme.lower() == "bearer":
            return await self._bearer_key(credentials.strip(), limited), receive
        if scheme.upper() == SCHEME:
            return await self._signing_key(credentials, scope, headers, receive, limited)
        return None, receive

    async def _session_holder(
        self, scope: Any, headers: Headers, repeated: set[bytes], limited: bool
    ) -> Principal | None:
        """Who is signed in at the console; `Rejected` if another site's page asks in their name."""
        digest = digest_in(headers.get(b"cookie", b""))
        if digest is None or repeated & {b"cookie", b"host", b"origin"}:
            return None
        session = await self._server.sessions.get(digest, only_known=limited)
        key = None if session is None else await self._keyring.get(session.key_id)
        if session is None or key is None or not key.is_active(utc_now()):
            self._failures.add(address_of(scope), SESSION_WEIGHT)
            return None
        host = headers.get(b"host", b"").decode("latin-1").lower()
        safe = scope["method"] in READ_METHODS or (CONSOLE_HEADER in headers and b"origin" in headers)
        if not safe or _is_cross_site(scope, headers, host) or _origin_differs(headers, host):
            raise Rejected(403, "a session is good for the console's own pages only")
        self._server.sessions.note_use(session)
        self._keyring.note_use(key)
        return principal_of_key(key, session.digest, _client(scope))

    async def _bearer_key(self, text: str, limited: bool) -> Key | None:
        read = parse_key(text)
        if read is None:
            return None
        key_id, secret = read
        key = await self._keyring.get(key_id, only_known=limited)
        return key if key is not None and matches(secret, key) and key.is_active(utc_now()) else None

    async def _signing_key(
        self, credentials: str, scope: Any, headers: Headers, receive: Receive, limited: bool
    ) -> tuple[Key | None, Receive]:
        if not self._secrets:
            raise Rejected(401, NO_SIGNATURES, {"WWW-Authenticate": "Bearer"})
        claimed = signature_in(credentials)
        if claimed is None or not claimed.is_fresh(utc_now()):
            return None, receive
        key = await self._keyring.get(claimed.key_id, only_known=limited)
        if key is None or not key.is_active(utc_now()):
            return None, receive
        body = await read_body(receive)
        request = SignedRequest(
            scope["method"], raw_path(scope), scope["query_string"].decode("latin-1"),
            headers.get(b"host", b"").decode("latin-1"), body,
        )  # fmt: skip
        keys = [secret_key(secret, key.id, key.digest) for secret in self._secrets]
        if not any(is_signed(each, request, claimed) for each in keys):
            return None, receive
        if not await self._server.in_thread(self._server.store.keys.take_nonce, key.id, claimed.nonce):
            return None, receive
        return key, _receive_again(body, receive)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there; any name but `localhost` may be anybody's."""
    return host.lower() in LOCAL_NAMES or _is_loopback_address(host)


@lru_cache(256)
def _is_loopback_address(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _client(scope: Any) -> str:
    return str((scope.get("client") or ("",))[0])


def address_of(scope: Any) -> str:
    """Whose failures are counted together: an IPv4 address, or the network of an IPv6 one."""
    client = _client(scope)
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return client if address.version == 4 else str(ipaddress.ip_network(f"{client}/64", strict=False))


def _is_cross_site(scope: Any, headers: Headers, host: str) -> bool:
    """Whether a browser sends this for a page that is not ours. Programs say neither of the two headers."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none") and not _is_link(scope, headers)
    return _origin_differs(headers, host)


def _origin_differs(headers: Headers, host: str) -> bool:
    origin = headers.get(b"origin")
    return origin is not None and urlsplit(origin.decode("latin-1").lower()).netloc != host


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


def _with_safe_headers(headers: Any, request_id: str) -> list[tuple[bytes, bytes]]:
    all_headers = [*headers]
    names = {name.lower() for name, _ in all_headers}
    all_headers += [(name, value) for name, value in SAFE_HEADERS if name not in names]
    all_headers.append((REQUEST_ID, request_id.encode()))
    return all_headers


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
