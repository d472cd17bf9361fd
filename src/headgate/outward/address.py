"""Where a request may go. Pure: URLs are parsed and addresses judged here; nothing is looked up and nothing is sent.

A URL has one reading only: if two parsers could see different hosts in it, it is refused. The `is_global` of
`ipaddress` is not enough: it calls an address that carries 127.0.0.1 inside public.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from headgate.core.callbacks import SETTING
from headgate.core.errors import Invalid
from headgate.settings import PREFIX, Settings

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Origin = tuple[str, str, int]

MAX_URL = 2048
PORTS = {"https": 443, "http": 80}
ANY_PUBLIC = "*"
TENANT_SETTING = "HEADGATE_TENANT_CALLBACK_ALLOW"

_URL = re.compile(r"(https?)://([^/?#]*)(/[^?#]*)?(\?[^#]*)?(?:#.*)?", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?", re.ASCII | re.IGNORECASE)
_UNCLEAN = re.compile(r"[^\x21-\x7e]|\\")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*", re.ASCII)
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)
_ENTRY = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<v4>\*|[^:]+)):(?P<port>[0-9]{1,5})", re.ASCII)

_FORBIDDEN_RANGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("this machine", ("0.0.0.0/8", "127.0.0.0/8", "::1/128", "::/128")),
    ("a private network", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
    ("a cloud's metadata", ("168.63.129.16/32",)),  # Azure's, at an address that is public everywhere else
    ("a link of this machine", ("169.254.0.0/16", "fe80::/10")),  # most clouds' metadata are here
    ("a carrier's own network", ("100.64.0.0/10",)),
    ("a multicast group", ("224.0.0.0/4", "ff00::/8")),
    ("a tunnel", ("192.88.99.0/24", "2001::/32", "2002::/16", "64:ff9b:1::/48")),  # what is inside may be anything
    (
        "reserved",
        (
            "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
            "2001::/23", "2001:db8::/32", "3fff::/20",
        ),
    ),
)  # fmt: skip
_FORBIDDEN_NETWORKS = tuple((ip_network(text), reason) for reason, texts in _FORBIDDEN_RANGES for text in texts)
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A parsed URL: `host` is a name, or an address in its canonical form; `path` is sent as it is."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """The address, when the host is one."""
        return ip_address(self.host) if ":" in self.host or _NUMBER.fullmatch(self.host.rpartition(".")[2]) else None

    @property
    def origin(self) -> Origin:
        """What a connection is made for: under another name even the same address is another place."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """As it is written in the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def parse_url(url: str) -> HttpTarget:
    """Parse a URL; `Invalid`, with the reason, if it is ambiguous."""
    if len(url) > MAX_URL:
        raise Invalid(f"the URL has more than {MAX_URL} characters")
    if _UNCLEAN.search(url):
        raise Invalid(
            "the URL has a space, a backslash, or a character that is not plain ASCII;"
            " write a host of another script in its xn-- form, other characters as %XX"
        )
    if not (parts := _URL.fullmatch(url)):
        raise Invalid("the URL must begin with https:// or http:// and name a host")
    scheme, authority, path, query = parts.groups(default="")
    if "@" in authority:
        raise Invalid("the URL must not contain a user name or a password")
    if not (found := _AUTHORITY.fullmatch(authority)):
        raise Invalid("the URL's host must be a name or an address, optionally with a port")
    host, port_text = found.groups()
    port = PORTS[scheme.lower()] if port_text is None else int(port_text)
    if not 0 < port < 65536:
        raise Invalid("the URL's port must be between 1 and 65535")
    return HttpTarget(scheme.lower(), _host(host.lower()), port, (path or "/") + query)


def _host(host: str) -> str:
    if host.startswith("["):
        try:
            return str(IPv6Address(host[1:-1]))
        except ValueError:
            raise Invalid(f"{host} is not an IPv6 address") from None
    if host.endswith("."):
        raise Invalid("the URL's host ends in a dot")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(IPv4Address(host))  # 127.1, 0x7f.1, 0177.0.0.1 and 2130706433 are refused, not understood
        except ValueError:
            raise Invalid(f"{host} is not an IPv4 address: write four decimal numbers") from None
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise Invalid("the URL's host is not a host name")
    return host


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an operator allows, by a setting, besides ports 443 and 80 of public addresses.

    Entries are separated by commas: `10.1.0.0/16` (any port there), `10.1.2.3:8443`, `[fd00::/8]:8443`, or `*:8443`
    (that port of any public address).
    """

    networks: tuple[tuple[Network, int | None], ...] = ()
    ports: frozenset[int] = frozenset(PORTS.values())
    setting: str = SETTING

    @classmethod
    def parse(cls, text: str, setting: str = SETTING) -> Self:
        name = setting.removeprefix(PREFIX).lower() if setting.startswith(PREFIX) else setting
        networks: list[tuple[Network, int | None]] = []
        ports = set(PORTS.values())
        for entry in filter(None, (part.strip() for part in text.split(","))):
            found = _ENTRY.fullmatch(entry)
            port = int(found["port"]) if found else None
            if port is not None and not 0 < port < 65536:
                raise Invalid(f"{name}: {entry}: a port must be between 1 and 65535")
            if found and found["v4"] == ANY_PUBLIC and port:
                ports.add(port)
                continue
            network = (found["v6"] or found["v4"]) if found else entry
            try:
                networks.append((ip_network(network), port))
            except ValueError as error:
                raise Invalid(
                    f"{name}: {entry} is not a network such as 10.1.0.0/16, optionally with a :port ({error})"
                ) from None
        return cls(tuple(networks), frozenset(ports), setting)

    def refusal(self, address: Address, port: int, name: str | None = None) -> str | None:
        """Why nothing may be sent to this port of this address; None if it may.

        With `name`, the reason names that and not the address, for the user who gave the name: only the operator may
        know which addresses names have in this network.
        """
        plain = _unmapped(address)
        if any(plain in network and allowed_port in (None, port) for network, allowed_port in self.networks):
            return None
        if reason := _forbidden_reason(plain):
            if name is not None:
                return f"{name} leads to an address that is not allowed ({self.setting})"
            return f"{address} is {reason}, which {self.setting} does not list"
        if port not in self.ports:
            return f"port {port} is none of {', '.join(map(str, sorted(self.ports)))} ({self.setting})"
        return None


def allowed_by(settings: Settings, *, by_tenant: bool) -> Allowed:
    """What an endpoint may lead to that a key of one tenant set, or else an operator or a program."""
    if by_tenant:
        return Allowed.parse(settings.tenant_callback_allow, TENANT_SETTING)
    return Allowed.parse(settings.callback_allow)


def checked_target(url: str, where: str, allowed: Allowed | None) -> HttpTarget:
    """The target of a request; `Invalid`, naming the field `where`, if it can never get there.

    With `allowed`, a forbidden address is refused here; the addresses of a name are checked when the request is sent.
    """
    try:
        target = parse_url(url)
    except Invalid as error:
        raise Invalid(f"{where}: {error}") from None
    if allowed and target.address and (refusal := allowed.refusal(target.address, target.port)):
        raise Invalid(f"{where}: {refusal}")
    return target


def _unmapped(address: Address) -> Address:
    """The IPv4 address inside an IPv4-mapped IPv6 address: the system connects to that as well."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _forbidden_reason(address: Address) -> str | None:
    for network, reason in _FORBIDDEN_NETWORKS:
        if address in network:
            return reason
    if isinstance(address, IPv4Address):
        return None
    if address.scope_id is not None:
        return "a link of this machine"
    if address in _NAT64:
        return _forbidden_reason(IPv4Address(int(address) & 0xFFFFFFFF))
    return None if address in _PUBLIC_V6 else "reserved"
