"""Requests that are signed rather than carrying their key: HMAC-SHA256 over all that matters of them."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime

from headgate.core.keys import WINDOW_SECONDS

SCHEME = "HEADGATE-HMAC-SHA256"
_ACCESS = re.compile(r"hg_([1-9][0-9]{0,17})", re.ASCII)
_PART = re.compile(r'\s*([a-z_]+)\s*=\s*"?([A-Za-z0-9._~-]{1,128})"?\s*', re.ASCII)
_PARTS = frozenset({"access_key", "timestamp", "nonce", "signature"})
_TIMESTAMP = re.compile(r"[1-9][0-9]{0,11}", re.ASCII)
_NONCE = re.compile(r"[A-Za-z0-9._~-]{16,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Signature:
    """What the header of a signed request says."""

    key_id: int
    timestamp: int
    nonce: str
    signature: str

    def is_fresh(self, now: datetime) -> bool:
        return abs(now.timestamp() - self.timestamp) <= WINDOW_SECONDS


def signature_in(header: str) -> Signature | None:
    """The signature in an `Authorization` header's value, after the scheme; None if it cannot be read."""
    parts = [_PART.fullmatch(part) for part in header.split(",")]
    said = {found[1]: found[2] for found in parts if found}
    if None in parts or len(said) != len(parts) or said.keys() != _PARTS:
        return None
    access = _ACCESS.fullmatch(said["access_key"])
    if access is None or not _TIMESTAMP.fullmatch(said["timestamp"]) or not _NONCE.fullmatch(said["nonce"]):
        return None
    return Signature(int(access[1]), int(said["timestamp"]), said["nonce"], said["signature"])


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """The parts of a request that its signature is about: path and query as they are on the wire."""

    method: str
    path: str
    query: str
    host: str
    body: bytes


def signed_text(request: SignedRequest, timestamp: int, nonce: str) -> str:
    """What is signed: eight lines. The query is sorted by name; values of one name keep their order."""
    query = "&".join(sorted(filter(None, request.query.split("&")), key=lambda pair: pair.partition("=")[0]))
    lines = (
        SCHEME,
        request.method,
        request.path,
        query,
        request.host.lower(),
        hashlib.sha256(request.body).hexdigest(),
        str(timestamp),
        nonce,
    )
    return "\n".join(lines)


def sign(secret: str, request: SignedRequest, timestamp: int, nonce: str) -> str:
    """The signature, as 64 hexadecimal digits."""
    return hmac.new(secret.encode(), signed_text(request, timestamp, nonce).encode(), hashlib.sha256).hexdigest()


def is_signed(secret: str, request: SignedRequest, claimed: Signature) -> bool:
    made = sign(secret, request, claimed.timestamp, claimed.nonce)
    return hmac.compare_digest(made.encode(), claimed.signature.encode())
