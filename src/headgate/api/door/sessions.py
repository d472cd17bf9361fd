"""Who is signed in at the console, as this process knows it: two seconds old at most."""

import re

from headgate.api.recent import Recent, Uses
from headgate.core.keys import SECRET_BYTES, Key, digest_of
from headgate.settings import Settings
from headgate.store.access.sessions import Session
from headgate.store.store import Store
from headgate.threads import InThread

# A browser keeps a cookie of this name only if it came from this very server, over TLS or on this machine.
COOKIE = "__Host-headgate"
_TOKEN = re.compile(rb"(?:^|;\s*)" + COOKIE.encode() + rb"=([0-9a-f]+)(?:;|$)")
FRESH_SECONDS = 2.0


class Sessions:
    """Begins, looks up and ends sessions, and notes which were used."""

    def __init__(self, store: Store, settings: Settings, in_thread: InThread, writing: InThread) -> None:
        """`writing`: where sessions are changed, so that none is looked up behind a write."""
        self._sessions = store.sessions
        self._seconds = settings.session_seconds
        self._writing = writing
        idle = settings.session_idle_seconds
        self._known: Recent[str, Session | None] = Recent(
            lambda digest: store.sessions.get(digest, idle), in_thread, FRESH_SECONDS
        )
        self._uses: Uses[str] = Uses(store.sessions.note_use, writing)

    async def begin(self, key: Key, actor: str, instead_of: str | None) -> tuple[Session, str]:
        """A session, and the cookie that its browser is to send."""
        session, token = await self._writing(
            self._sessions.begin, key, self._seconds, actor=actor, instead_of=instead_of
        )
        self._known.drop(instead_of or "")
        return session, cookie(token, self._seconds)

    async def get(self, digest: str, *, only_known: bool = False) -> Session | None:
        """A session that is not over; `only_known`: the store is not asked for it."""
        return await self._known.get(digest, only_known=only_known)

    def note_use(self, session: Session) -> None:
        self._uses.add(session.digest)

    async def end(self, digest: str, actor: str) -> str:
        """Sign somebody out; the cookie that makes their browser forget."""
        await self._writing(self._sessions.end, digest, actor=actor)
        self._known.drop(digest)
        return cookie("", 0)

    async def close(self) -> None:
        await self._uses.close()


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
