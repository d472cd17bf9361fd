"""Secrets at rest: sealed under HEADGATE_SECRET, which is never in the store.

The same secret is sealed to the same text (AES-SIV), so that a program that registers its types again changes nothing.
A seal holds for one place: moved to another type, it does not open.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from headgate.core.errors import HeadgateError, Invalid

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

MARK = "sealed:1:"


class Unopened(HeadgateError):
    """A secret was sealed under a HEADGATE_SECRET that this process does not have."""

    code = "unopened"


class Seals:
    """Seals under the first of `secrets`, the newest; opens what any of them has sealed."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = {_name_of(secret): secret for secret in secrets}

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def seal(self, text: str, place: str) -> str:
        """`text` as it may be stored; `Invalid` where there is nothing to seal with."""
        if not self._secrets:
            raise Invalid(
                "secrets are stored sealed under HEADGATE_SECRET, which is not set: give every server and program"
                " the same value of 16 characters or more, for example from `openssl rand -hex 32`"
            )
        name, secret = next(iter(self._secrets.items()))
        sealed = _box(secret).encrypt(text.encode(), [place.encode()])
        return f"{MARK}{name}:{urlsafe_b64encode(sealed).decode()}"

    def open(self, sealed: str, place: str) -> str:
        """What `seal` was given for this place; `Unopened` if this process cannot know."""
        name, _, text = sealed.removeprefix(MARK).partition(":")
        if not is_sealed(sealed) or name not in self._secrets:
            raise Unopened(
                f"the secret of {place} was sealed under another HEADGATE_SECRET ({name[:8]}):"
                " set that one too, behind the new one and a comma, or put the secret again"
            )
        try:
            return _box(self._secrets[name]).decrypt(urlsafe_b64decode(text), [place.encode()]).decode()
        except Exception:  # whatever is wrong, the message must reveal nothing
            raise Unopened(f"the secret of {place} is damaged, or was sealed for another place: put it again") from None

    def is_current(self, sealed: str) -> bool:
        """Whether it was sealed under the newest secret."""
        return bool(self._secrets) and sealed.startswith(f"{MARK}{next(iter(self._secrets))}:")


def is_sealed(text: str) -> bool:
    return text.startswith(MARK)


def _name_of(secret: str) -> str:
    """Eight digits that tell secrets apart and nothing about them."""
    return hmac.new(secret.encode(), b"headgate name of a secret 1", hashlib.sha256).hexdigest()[:8]


@lru_cache(maxsize=8)
def _box(secret: str) -> "AESSIV":
    # Loaded where there is a secret to seal or to open: it would take every worker 6 MB.
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key = HKDF(hashes.SHA256(), 64, salt=None, info=b"headgate callback secrets 1").derive(secret.encode())
    return AESSIV(key)
