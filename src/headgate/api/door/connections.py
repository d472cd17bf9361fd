"""All connections of a server: how many there may be, and whose turn it is to go when there are too many."""

import logging
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.api.door.address import TrustedProxies, is_loopback
from headgate.environment import monotonic
from headgate.settings import Settings

RESERVED_FILES = 200  # kept free for the store, callbacks, logs
FEWEST_CONNECTIONS = 16
SPARE = 16  # connections above a limit, which are not served
LOG_SECONDS = 10.0  # between two lines about limits
log = logging.getLogger("headgate.api")


class Client(Protocol):
    """A connection, as it is counted."""

    address: str
    network: str  # of the address, whose connections are counted together
    served: bool  # False: above a limit, and told no more than that, or how healthy the server is

    def drop(self) -> None:
        """Close it, whatever was to be sent."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be, and how long a client may take over each part of a request."""

    total: int
    per_network: int
    head_seconds: float
    body_seconds: float
    answer_seconds: float

    @classmethod
    def of(cls, settings: Settings, most_files: int) -> "ConnectionLimits":
        """As they are set, and below the number of files that the process may open.

        One network has half of them at most; on an address of this machine there is but one.
        """
        total = max(FEWEST_CONNECTIONS, min(settings.connections, most_files - RESERVED_FILES))
        share = total if is_loopback(settings.host) else min(settings.connections_per_address, total // 2)
        return cls(total, share, settings.head_seconds, settings.body_seconds, settings.answer_seconds)


def most_files() -> int:
    """How many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class _Network:
    """The connections from one network; those that have asked nothing yet by age."""

    __slots__ = ("open", "silent")

    def __init__(self) -> None:
        self.open = 0
        self.silent: dict[Client, None] = {}


class Connections:
    """Counts connections. Where there are too many, those that never asked anything make room for new ones."""

    def __init__(self, limits: ConnectionLimits, proxies: TrustedProxies) -> None:
        self.limits = limits
        self._proxies = proxies
        self._open = 0
        self._networks: dict[str, _Network] = {}
        self._last_logged = -LOG_SECONDS

    def add(self, new: Client) -> None:
        """Count a connection, and say whether it is `served`."""
        here = self._networks.setdefault(new.network, _Network())
        most = self.limits.total if self._proxies.include(new.address) else self.limits.per_network
        crowded, full = here.open >= most, self._open >= self.limits.total
        if crowded or full:
            self._log(new.network, here.open)
            new.served = self._drop_silent(here if crowded else self._most_silent())
        here.open += 1
        self._open += 1
        here.silent[new] = None
        if here.open > most + SPARE or self._open > self.limits.total + SPARE:
            new.drop()

    def note_request(self, client: Client) -> None:
        """A connection has sent the head of a request."""
        self._networks[client.network].silent.pop(client, None)

    def remove(self, client: Client) -> None:
        """A connection has ended."""
        here = self._networks[client.network]
        here.silent.pop(client, None)
        here.open -= 1
        self._open -= 1
        if not here.open:
            del self._networks[client.network]

    def _most_silent(self) -> _Network:
        return max(self._networks.values(), key=lambda network: len(network.silent))

    @staticmethod
    def _drop_silent(network: _Network) -> bool:
        """Close the connection that has been silent longest; whether that frees a place for a new one."""
        oldest = next(iter(network.silent), None)
        if oldest is None:
            return False
        del network.silent[oldest]
        oldest.drop()
        return oldest.served

    def _log(self, network: str, here: int) -> None:
        if monotonic() - self._last_logged >= LOG_SECONDS:
            self._last_logged = monotonic()
            log.warning("connections: at the limit: address=%s open=%d total=%d", network, here, self._open)


def check_deadlines(clients: Iterable[Any]) -> None:
    """Give up on clients that are too slow."""
    now = monotonic()
    for client in list(clients):
        client.check_deadlines(now)
