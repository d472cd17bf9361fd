"""One scheme for signing with a key (AK) and its secret (SK): callers of the API, and callbacks to others.

HMAC-SHA256 over all that matters of a request. Callbacks are signed by the rules of Standard Webhooks as well.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass

SCHEME = "HEADGATE-HMAC-SHA256"
_WEBHOOK_PREFIX = "whsec_"


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """The parts of a request that its signature covers: path and query as they are on the wire."""

    method: str
    path: str
    query: str
    host: str
    body: bytes
    idempotency_key: str | None = None  # the header of this name, if there is one


def signed_text(request: SignedRequest, timestamp: int, nonce: str) -> str:
    """What is signed: eight lines, and one for the idempotency key if there is one.

    The query is sorted by name; values of one name keep their order.
    """
    query = "&".join(sorted(filter(None, request.query.split("&")), key=lambda pair: pair.partition("=")[0]))
    lines = [
        SCHEME,
        request.method,
        request.path,
        query,
        request.host.lower(),
        hashlib.sha256(request.body).hexdigest(),
        str(timestamp),
        nonce,
    ]
    if request.idempotency_key is not None:
        lines.append(request.idempotency_key)
    return "\n".join(lines)


def sign(secret: str, request: SignedRequest, timestamp: int, nonce: str) -> str:
    """The signature, as 64 hexadecimal digits."""
    return hmac.new(secret.encode(), signed_text(request, timestamp, nonce).encode(), hashlib.sha256).hexdigest()


def authorization(access_key: str, secret: str, request: SignedRequest, timestamp: int, nonce: str) -> str:
    """The `Authorization` header of a signed request."""
    signature = sign(secret, request, timestamp, nonce)
    return f"{SCHEME} access_key={access_key}, timestamp={timestamp}, nonce={nonce}, signature={signature}"


def webhook_signature(secret: str, webhook_id: str, timestamp: int, body: bytes) -> str:
    """The `webhook-signature` header: over `id.timestamp.body`, as Standard Webhooks says (v1)."""
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.new(webhook_key(secret), signed, hashlib.sha256).digest()).decode()


def webhook_key(secret: str) -> bytes:
    """The bytes to sign with: what follows `whsec_` is base64, as the standard has it; else the secret as it is."""
    if secret.startswith(_WEBHOOK_PREFIX):
        try:
            return b64decode(secret.removeprefix(_WEBHOOK_PREFIX), validate=True)
        except NotBase64:
            pass
    return secret.encode()
