"""API keys: what one may do, how it is written, what is kept of it."""

import hashlib
import hmac
import re
import zlib
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

PREFIX = "hg_"
SECRET_BYTES = 24  # 192 bits cannot be guessed, so a fast hash is enough
SHORTEST_SERVER_SECRET = 16
WINDOW_SECONDS = 300.0  # how far from now a signed request may be dated
NO_KEY_DIGEST = "0" * 64  # what a secret is compared with if there is no such key

_KEY = re.compile(r"hg_([1-9][0-9]{0,17})_([0-9a-f]{48})([0-9a-f]{8})", re.ASCII)


class Role(IntEnum):
    """What a key may do. Each role includes those before it, except an agent: it sees only the tasks it holds."""

    READ = 1
    SUBMIT = 2
    AGENT = 3
    OPERATOR = 4
    ADMIN = 5

    @property
    def word(self) -> str:
        return self.name.lower()


ROLES = {role.word: role for role in Role}


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the store has it, without its secret. `tenant_id` None: for all tenants."""

    id: int
    name: str
    role: Role
    tenant_id: int | None
    digest: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def is_active(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    @property
    def access_key(self) -> str:
        return access_key(self.id)


def format_key(key_id: int, secret: bytes) -> str:
    """The key as its holder has it: `hg_<id>_<secret><checksum>`."""
    text = f"{PREFIX}{key_id}_{secret.hex()}"
    return text + _checksum(text)


def parse_key(text: str) -> tuple[int, bytes] | None:
    """The id and the secret of a key; None if the text is not a key."""
    found = _KEY.fullmatch(text)
    if found is None or _checksum(text[:-8]) != found[3]:
        return None
    return int(found[1]), bytes.fromhex(found[2])


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def digest_of(secret: bytes) -> str:
    """The stored hash of a secret."""
    return hashlib.sha256(secret).hexdigest()


def matches(secret: bytes, key: Key | None) -> bool:
    """Whether it is the key's secret; takes equally long if there is no such key."""
    return hmac.compare_digest(digest_of(secret), NO_KEY_DIGEST if key is None else key.digest) and key is not None


def access_key(key_id: int) -> str:
    return f"{PREFIX}{key_id}"


def secret_key(server_secret: str, key_id: int, digest: str) -> str:
    """The secret that signs a key's requests: derived from the server's own secret, and stored nowhere."""
    message = f"headgate secret key 1\n{key_id}\n{digest}"
    return hmac.new(server_secret.encode(), message.encode(), hashlib.sha256).hexdigest()
