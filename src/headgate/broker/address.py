"""Where a broker is and how to get in, as its URL says."""

import ssl
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

HEARTBEAT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Address:
    """One node of a broker."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    vhost: str
    heartbeat: int  # seconds; 0: none
    external: bool  # the client is known by its certificate
    tls: ssl.SSLContext | None


def parse(url: str) -> Address:
    """The address that a URL names. Its query may have `heartbeat`, `auth=external`, `cafile`, `capath`, `certfile`,
    `keyfile` and `no_verify_ssl=1`."""
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    secure = parts.scheme == "amqps"
    return Address(
        host=parts.hostname or "localhost",
        port=parts.port or (5671 if secure else 5672),
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        vhost=unquote(parts.path[1:]) or "/",
        heartbeat=int(options.get("heartbeat", HEARTBEAT_SECONDS)),
        external=options.get("auth", "").lower() == "external",
        tls=_tls(options) if secure else None,
    )


def place_of(url: str) -> str:
    """Where a broker is, for people: without user and password."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or (5671 if parts.scheme == 'amqps' else 5672)}"


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("cafile"), capath=options.get("capath"))
    if "certfile" in options:
        context.load_cert_chain(options["certfile"], options.get("keyfile"))
    if options.get("no_verify_ssl", "0") != "0":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
