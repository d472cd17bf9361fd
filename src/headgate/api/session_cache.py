"""Who is signed in at the console, as this process knows it: two seconds old at most."""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from headgate.core.errors import HeadgateError
from headgate.core.keys import SECRET_BYTES, Key, digest_of
from headgate.environment import monotonic
from headgate.settings import Settings
from headgate.store.access.sessions import Session
from headgate.store.store import Store

# A browser keeps a cookie of this name only if it came from this very server, over TLS or on this machine.
COOKIE = "__Host-headgate"
_TOKEN = re.compile(rb"(?:^|;\s*)" + COOKIE.encode() + rb"=([0-9a-f]+)(?:;|$)")
FRESH_SECONDS = 2.0
NOTE_SECONDS = 60.0
MOST_KNOWN = 10_000
log = logging.getLogger("headgate.api")
InThread = Callable[..., Awaitable[Any]]


class SessionCache:
    """Begins, looks up and ends sessions, and notes once a minute which were used."""

    def __init__(self, store: Store, settings: Settings, in_thread: InThread) -> None:
        self._sessions = store.sessions
        self._seconds = settings.session_seconds
        self._idle = settings.session_idle_seconds
        self._in_thread = in_thread
        self._known: dict[str, tuple[Session | None, float]] = {}
        self._noted: dict[str, float] = {}

    async def begin(self, key: Key, actor: str, instead_of: str | None) -> tuple[Session, str]:
        """A session, and the cookie that its browser is to send."""

        def work() -> tuple[Session, str]:
            return self._sessions.begin(key, self._seconds, actor=actor, instead_of=instead_of)

        session, token = await self._in_thread(work)
        self._known.pop(instead_of or "", None)
        return session, cookie(token, self._seconds)

    async def get(self, digest: str, only_known: bool = False) -> Session | None:
        """A session that is not over; `only_known`: the store is not asked for it."""
        now = monotonic()
        session, until = self._known.get(digest, (None, -1e18))
        if now < until or (only_known and session is None):
            return session
        found: Session | None = await self._in_thread(self._sessions.get, digest, self._idle)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
            self._noted.clear()
        self._known[digest] = found, monotonic() + FRESH_SECONDS
        return found

    async def note_use(self, session: Session) -> None:
        """It was used; the store hears of it once a minute."""
        now = monotonic()
        if now < self._noted.get(session.digest, -1e18):
            return
        self._noted[session.digest] = now + NOTE_SECONDS
        try:
            await self._in_thread(self._sessions.note_use, session.digest)
        except HeadgateError as error:
            log.warning("the use of a session was not noted: %s", error)

    async def end(self, digest: str, actor: str) -> str:
        """Sign somebody out; the cookie that makes their browser forget."""
        await self._in_thread(lambda: self._sessions.end(digest, actor=actor))
        self._known.pop(digest, None)
        return cookie("", 0)


def cookie(token: str, seconds: float) -> str:
    return f"{COOKIE}={token}; Path=/; Max-Age={int(seconds)}; Secure; HttpOnly; SameSite=Strict"


def digest_in(header: bytes) -> str | None:
    """The session that a Cookie header names; None if it names none as we write them."""
    found = _TOKEN.search(header)
    return None if found is None else digest_of_token(found[1].decode())


def digest_of_token(token: str) -> str | None:
    """Under what a session is kept; None if that is not how tokens are written."""
    try:
        secret = bytes.fromhex(token)
    except ValueError:
        return None
    return digest_of(secret) if len(secret) == SECRET_BYTES else None
