"""Requests that are signed rather than carrying their key: what their header says, and whether it is true."""

import hmac
import re
from dataclasses import dataclass
from datetime import datetime

from headgate.core.keys import WINDOW_SECONDS
from headgate.core.signing import SignedRequest, sign

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
    fields = {found[1]: found[2] for found in parts if found}
    if None in parts or len(fields) != len(parts) or fields.keys() != _PARTS:
        return None
    access = _ACCESS.fullmatch(fields["access_key"])
    if access is None or not _TIMESTAMP.fullmatch(fields["timestamp"]) or not _NONCE.fullmatch(fields["nonce"]):
        return None
    return Signature(int(access[1]), int(fields["timestamp"]), fields["nonce"], fields["signature"])


def is_signed(secret: str, request: SignedRequest, claimed: Signature) -> bool:
    made = sign(secret, request, claimed.timestamp, claimed.nonce)
    return hmac.compare_digest(made.encode(), claimed.signature.encode())
