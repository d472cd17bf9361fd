"""Addresses of clients: which is whose behind a proxy, and which are counted together."""

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache

from headgate.core.errors import Invalid

LOCAL_NAMES = frozenset({"localhost"})
IPV6_NETWORK_BITS = 64  # what one customer of a provider has to choose addresses from
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
FORWARDED_FOR = b"x-forwarded-for"
_PORT = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<v4>[0-9.]+))(?::[0-9]+)?", re.ASCII)  # as some proxies add it


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there; any name but `localhost` may lead anywhere."""
    return host.lower() in LOCAL_NAMES or is_loopback_address(host)


@lru_cache(256)
def is_loopback_address(text: str) -> bool:
    address = parse_address(text)
    return address is not None and address.is_loopback


@lru_cache(1024)
def parse_address(text: str) -> Address | None:
    """An IPv4 address that is written as an IPv6 one is the IPv4 address; None for what is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(1024)
def plain(client: str) -> str:
    """An address as it is best known."""
    return str(parse_address(client) or client)


@lru_cache(1024)
def network_of(client: str) -> str:
    """Whose connections and failures are counted together: an IPv4 address, or the network of an IPv6 one."""
    address = parse_address(client)
    if address is None or address.version == 4:
        return client if address is None else str(address)
    return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))


class TrustedProxies:
    """The proxies that are trusted to name the address of a client (HEADGATE_TRUSTED_PROXIES)."""

    def __init__(self, networks: str) -> None:
        self._networks = []
        for entry in filter(None, (part.strip() for part in networks.split(","))):
            try:
                self._networks.append(ipaddress.ip_network(entry))
            except ValueError as error:
                raise Invalid(f"trusted_proxies: {entry} is not a network such as 10.1.0.0/16 ({error})") from None

    def include(self, peer: str) -> bool:
        address = parse_address(peer)
        return address is not None and any(address in network for network in self._networks)

    def client(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Who asks: the peer or, behind proxies of ours, the nearest address that is none of theirs.

        Entries before that one may be forged.
        """
        client = plain(peer)
        if not self._networks or not self.include(client):
            return client
        forwarded = b",".join(value for name, value in headers if name == FORWARDED_FOR).decode("latin-1")
        for text in reversed(forwarded.split(",")):
            address = parse_address(_without_port(text.strip()))
            if address is None:
                break
            client = str(address)
            if not self.include(client):
                break
        return client


def _without_port(text: str) -> str:
    found = _PORT.fullmatch(text)
    return text if found is None else found["v6"] or found["v4"]
