"""How many calls of schedules one process makes at once: in all, for each tenant, and for each host of a tenant."""

from collections import Counter
from collections.abc import Mapping, Sequence

from headgate.store.schedules.tick_runs import CallShare

TENANT_DIVISOR = 4  # of the places that other tenants leave, one tenant gets a quarter


class CallShares:
    """A receiver that never answers holds up to `per_host` places of its tenant, and no place of another tenant.

    However many places some tenants fill, the next still gets a quarter of the rest.
    """

    def __init__(self, places: int, per_host: int) -> None:
        self._places = places
        self._per_host = per_host
        self._of_tenant: Counter[int] = Counter()
        self._to_host: Counter[tuple[int, str]] = Counter()
        self.last_hosts: dict[int, str] = {}  # of each tenant; the next turn begins after it

    @property
    def free(self) -> int:
        return self._places - self._of_tenant.total()

    def choose(self, waiting: Mapping[int, Sequence[str]]) -> list[CallShare]:
        """How many calls to take of each tenant and host that has calls waiting; the first of them come first."""
        free = self.free
        chosen: list[CallShare] = []
        for tenant_id, hosts in waiting.items():
            own = self._of_tenant[tenant_id]
            room = min(free, max((free + own) // TENANT_DIVISOR, 1) - own)
            if room <= 0:
                continue
            open_hosts = [host for host in hosts if self._to_host[tenant_id, host] < self._per_host][:room]
            self.last_hosts[tenant_id] = (open_hosts or hosts)[-1]
            for host in open_hosts:
                most = min(room // len(open_hosts), self._per_host - self._to_host[tenant_id, host])
                chosen.append(CallShare(tenant_id, host, most))
                free -= most
        return chosen

    def begin(self, tenant_id: int, host: str) -> None:
        self._of_tenant[tenant_id] += 1
        self._to_host[tenant_id, host] += 1

    def end(self, tenant_id: int, host: str) -> None:
        self._of_tenant -= Counter([tenant_id])  # which drops what is at zero
        self._to_host -= Counter([(tenant_id, host)])
