"""Where a request may go. Pure: a URL is read here, and addresses are judged; nobody is asked and nothing is sent.

A URL is read in one way only: what two readers could take for different hosts is refused, not guessed at. What
`ipaddress` calls global is not enough to go by: it takes an address that carries 127.0.0.1 inside for a public one.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from headgate.core.errors import Invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Origin = tuple[str, str, int]

MAX_URL = 2048
PORTS = {"https": 443, "http": 80}
ANY_PUBLIC = "*"

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
    """A URL, read: `host` is a name or an address in its one proper form, `path` is what goes on the wire."""

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
    """A URL that leaves no room for doubt; `Invalid`, with the reason, if it does."""
    if len(url) > MAX_URL:
        raise Invalid(f"the URL has more than {MAX_URL} characters")
    if _UNCLEAN.search(url):
        raise Invalid(
            "the URL has a space, a backslash, or a character that is not plain ASCII;"
            " a host of another script is written in its xn-- form, other characters as %XX"
        )
    if not (parts := _URL.fullmatch(url)):
        raise Invalid("the URL begins with https:// or http:// and names a host")
    scheme, authority, path, query = parts.groups(default="")
    if "@" in authority:
        raise Invalid("the URL carries a user name or a password")
    if not (found := _AUTHORITY.fullmatch(authority)):
        raise Invalid("the URL's host is a name or an address, with a port if need be")
    host, port_text = found.groups()
    port = PORTS[scheme.lower()] if port_text is None else int(port_text)
    if not 0 < port < 65536:
        raise Invalid("the URL's port is between 1 and 65535")
    return HttpTarget(scheme.lower(), _host(host.lower()), port, (path or "/") + query)


def _host(host: str) -> str:
    if host.startswith("["):
        try:
            return str(IPv6Address(host[1:-1]))
        except ValueError:
            raise Invalid(f"{host} is no IPv6 address") from None
    if host.endswith("."):
        raise Invalid("the URL's host ends in a dot")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(IPv4Address(host))  # 127.1, 0x7f.1, 0177.0.0.1 and 2130706433 are refused, not understood
        except ValueError:
            raise Invalid(f"{host} is no IPv4 address; one is written as four decimal numbers") from None
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise Invalid("the URL's host is no name of a host")
    return host


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an operator allows besides ports 443 and 80 of public addresses (HEADGATE_CALLBACK_ALLOW).

    Entries are separated by commas: `10.1.0.0/16` (any port there), `10.1.2.3:8443`, `[fd00::/8]:8443`, or `*:8443`
    (that port of any public address).
    """

    networks: tuple[tuple[Network, int | None], ...] = ()
    ports: frozenset[int] = frozenset(PORTS.values())

    @classmethod
    def parse(cls, text: str) -> Self:
        networks: list[tuple[Network, int | None]] = []
        ports = set(PORTS.values())
        for entry in filter(None, (part.strip() for part in text.split(","))):
            found = _ENTRY.fullmatch(entry)
            port = int(found["port"]) if found else None
            if port is not None and not 0 < port < 65536:
                raise Invalid(f"callback_allow: {entry}: a port is between 1 and 65535")
            if found and found["v4"] == ANY_PUBLIC and port:
                ports.add(port)
                continue
            network = (found["v6"] or found["v4"]) if found else entry
            try:
                networks.append((ip_network(network), port))
            except ValueError as error:
                raise Invalid(
                    f"callback_allow: {entry} is no network such as 10.1.0.0/16, with a :port if need be ({error})"
                ) from None
        return cls(tuple(networks), frozenset(ports))

    def refusal(self, address: Address, port: int, name: str | None = None) -> str | None:
        """Why nothing may be sent to this port of this address; None if it may.

        With the `name` that led to the address, for whoever said the name: which addresses names have in this network
        is the operator's to know.
        """
        plain = _unmapped(address)
        if any(plain in network and allowed_port in (None, port) for network, allowed_port in self.networks):
            return None
        if reason := _forbidden_reason(plain):
            if name is not None:
                return f"{name} leads to an address that is not allowed (HEADGATE_CALLBACK_ALLOW)"
            return f"{address} is {reason}, which HEADGATE_CALLBACK_ALLOW does not list"
        if port not in self.ports:
            return f"port {port} is none of {', '.join(map(str, sorted(self.ports)))} (HEADGATE_CALLBACK_ALLOW)"
        return None


def checked_target(url: str, where: str, allowed: Allowed | None) -> HttpTarget:
    """Where a request would go; `Invalid`, naming the field `where`, if it can never get there.

    With `allowed`, an address that nothing may be sent to is refused here and now; where a name leads is seen when it
    is sent.
    """
    try:
        target = parse_url(url)
    except Invalid as error:
        raise Invalid(f"{where}: {error}") from None
    if allowed and target.address and (refusal := allowed.refusal(target.address, target.port)):
        raise Invalid(f"{where}: {refusal}")
    return target


def _unmapped(address: Address) -> Address:
    """An IPv4 address in IPv6 clothes, without them: the system takes them off as well."""
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
