"""A type's callback: checked and sealed before it is stored, and turned into a signed request when it is sent."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.callbacks import CallbackKind
from headgate.core.errors import Invalid
from headgate.core.signing import SignedRequest, authorization, webhook_signature
from headgate.core.task import TaskType
from headgate.outward.address import Allowed, HttpTarget, checked_target, parse_url
from headgate.outward.sealing import Seals, is_sealed

METHODS = ("POST", "PUT")
SHORTEST_SK, LONGEST_SK = 24, 255
_ACCESS_KEY = re.compile(r"[A-Za-z0-9._~-]{1,128}", re.ASCII)
_TEXT = re.compile(r"[\x21-\x7e]+")


def sealed_callback(
    callback: Mapping[str, Any],
    code: str,
    seals: Seals,
    before: Mapping[str, Any] | None = None,
    allowed: Allowed | None = None,
) -> dict[str, Any]:
    """A callback as the store may have it: checked, its secret sealed; `Invalid` for what could never be sent.

    If the secret is left out, the one from `before` stays, if its key is the same. With `allowed`, a forbidden address
    is refused here.
    """
    for name in callback:
        if name not in ("success", "error", "security"):
            raise Invalid(f"callback: {name!r} is not one of success, error, security")
    found: dict[str, Any] = {}
    for kind in CallbackKind:
        if (target := callback.get(kind)) is not None:
            found[kind.value] = _target(kind, target, allowed)
    if (security := callback.get("security")) is not None:
        found["security"] = _security(security, code, seals, (before or {}).get("security", {}))
    return found


def refused_targets(callback: Mapping[str, Any], allowed: Allowed) -> list[str]:
    """Which addresses of a checked callback are forbidden, and why; names are not resolved here."""
    found = []
    for kind in CallbackKind:
        if kind.value in callback:
            try:
                checked_target(callback[kind.value]["url"], callback[kind.value]["url"], allowed)
            except Invalid as error:
                found.append(str(error))
    return found


def _target(kind: CallbackKind, target: Mapping[str, Any], allowed: Allowed | None) -> dict[str, Any]:
    if set(target) - {"url", "method"} or not isinstance(url := target.get("url"), str):
        raise Invalid(f"callback.{kind} must have a url and a method")
    method = target.get("method", METHODS[0])
    if method not in METHODS:
        raise Invalid(f"callback.{kind}.method must be POST or PUT")
    checked_target(url, f"callback.{kind}.url", allowed)
    return {"url": url, "method": method}


def _security(security: Mapping[str, Any], code: str, seals: Seals, before: Mapping[str, Any]) -> dict[str, Any]:
    scheme = security.get("type", "none")
    if set(security) - {"type", "ak", "sk"} or scheme not in ("none", "aksk"):
        raise Invalid("callback.security must have a type (none or aksk), an ak and an sk")
    if scheme == "none":
        return {"type": scheme}
    ak, sk = security.get("ak"), security.get("sk")
    if not isinstance(ak, str) or not _ACCESS_KEY.fullmatch(ak):
        raise Invalid("callback.security.ak must be 1 to 128 letters, digits, '.', '_', '~' or '-'")
    if sk is None and before.get("ak") == ak and "sk" in before:
        return {"type": scheme, "ak": ak, "sk": before["sk"]}
    if not isinstance(sk, str) or not SHORTEST_SK <= len(sk) <= LONGEST_SK or not _TEXT.fullmatch(sk):
        raise Invalid(
            f"callback.security.sk must be {SHORTEST_SK} to {LONGEST_SK} characters of plain text without spaces"
        )
    return {"type": scheme, "ak": ak, "sk": seals.seal(sk, _seal_place(code))}


def resealed_callback(callback: Mapping[str, Any], code: str, seals: Seals) -> dict[str, Any] | None:
    """The callback with its secret sealed under the newest HEADGATE_SECRET; None if there is nothing to do."""
    sealed = callback.get("security", {}).get("sk")
    if not seals or sealed is None or seals.is_current(sealed):
        return None
    sk = seals.open(sealed, _seal_place(code)) if is_sealed(sealed) else sealed
    return {**callback, "security": {**callback["security"], "sk": seals.seal(sk, _seal_place(code))}}


def secret_of(callback: Mapping[str, Any], code: str, seals: Seals) -> str | None:
    """The secret that callbacks are signed with, if there is one; `Unopened` if it cannot be read here."""
    sealed = callback.get("security", {}).get("sk")
    return None if sealed is None else seals.open(sealed, _seal_place(code))


def _seal_place(code: str) -> str:
    return f"type {code}"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the callbacks of one kind of a type go; `host` is with its port, which tells receivers apart."""

    method: str
    url: str
    target: HttpTarget
    access_key: str | None
    sealed: str | None
    code: str

    @property
    def host(self) -> str:
        return self.target.authority

    def headers(self, seals: Seals, webhook_id: str, timestamp: int, nonce: str, body: bytes) -> dict[str, str]:
        """The headers of one attempt. `Unopened` if the secret cannot be read here."""
        headers = {
            "content-type": "application/json",
            "webhook-id": webhook_id,
            "webhook-timestamp": str(timestamp),
        }
        if self.access_key is None or self.sealed is None:
            return headers
        secret = seals.open(self.sealed, _seal_place(self.code))
        path, _, query = self.target.path.partition("?")
        request = SignedRequest(self.method, path, query, self.target.authority, body)
        headers["webhook-signature"] = webhook_signature(secret, webhook_id, timestamp, body)
        headers["authorization"] = authorization(self.access_key, secret, request, timestamp, nonce)
        return headers


def destination(rules: TaskType, kind: CallbackKind) -> Destination | None:
    """Where a type's callbacks of this kind go; None if it has none. `Invalid` if that cannot be read."""
    target = rules.callback.get(kind.value)
    if target is None:
        return None
    security = rules.callback.get("security", {})
    signed = security.get("type") == "aksk"
    return Destination(
        target.get("method", METHODS[0]),
        target.get("url", ""),
        parse_url(target.get("url", "")),
        security.get("ak") if signed else None,
        security.get("sk") if signed else None,
        rules.code,
    )


def callbacks_to(host: str, types: Iterable[TaskType]) -> tuple[tuple[str, CallbackKind], ...]:
    """Which callbacks of which types currently go to a host."""
    found = []
    for rules in types:
        for kind in CallbackKind:
            try:
                where = destination(rules, kind)
            except Invalid:
                continue
            if where is not None and where.host == host:
                found.append((rules.code, kind))
    return tuple(found)
