"""The agents of one server: under which row each holds its tasks, and when its lease was last renewed."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from headgate.core.errors import WorkerLost
from headgate.core.gates import ASKING_SECONDS
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.environment import monotonic
from headgate.settings import Settings
from headgate.store.claim.contract import Claimed, ClaimRequest
from headgate.store.execution.agents import AgentRecord, Holding
from headgate.store.store import Store

MOST_KNOWN = 10_000
FRESH_SECONDS = 1.0  # a lease renewed within this time is fresh, so not every call is a write
DEADLINE_GRACE_SECONDS = 60.0  # an implicit lease outlives every task that is held under it
AgentIdentity = tuple[int | None, str, str]  # the key's tenant, the agent's own name, and which process of it


class AgentCache:
    """What this server remembers of agents. It blocks, so it is for threads; the store is the truth."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._default = settings.lease_seconds
        self._start_seconds = settings.compensation_start_interval
        self._lock = threading.Lock()
        self._known: OrderedDict[AgentIdentity, AgentRecord] = OrderedDict()
        self._renewed: OrderedDict[int, float] = OrderedDict()
        self._asked: OrderedDict[int, float] = OrderedDict()  # when it was put on record that an agent asks
        self._handed: OrderedDict[int, float] = OrderedDict()  # when one got something
        self._holdings: OrderedDict[str, Holding] = OrderedDict()  # by exec_id

    def claim(self, identity: AgentIdentity, request: ClaimRequest, lease: float | None) -> Claimed:
        """Hand tasks over to an agent, whose lease is renewed; one whose lease was over begins anew."""
        try:
            return self._claim(self.sign_on(identity, request.types, lease), request, lease)
        except WorkerLost:
            self._forget_agent(identity)
            return self._claim(self.sign_on(identity, request.types, lease), request, lease)

    def _claim(self, agent: AgentRecord, request: ClaimRequest, lease: float | None) -> Claimed:
        grace = DEADLINE_GRACE_SECONDS if lease is None else None
        request = replace(request, worker_id=agent.worker_id, start_seconds=self._start_seconds)
        claimed = self._store.agents.hand_over(request, beyond_the_deadline=grace)
        self._remember(agent, request.agent_id, claimed.executions)
        return claimed

    def _remember(self, agent: AgentRecord, agent_id: str | None, executions: Sequence[Execution]) -> None:
        with self._lock:
            if executions:
                _note_time(self._handed, agent.worker_id)
            for execution in executions:
                if execution.status is State.RUNNING:  # a start that is confirmed changes the others
                    trimmed = execution._replace(ext="{}")
                    self._holdings[execution.exec_id] = Holding(
                        trimmed, False, False, agent.worker_id, agent_id, agent.lease_seconds
                    )
            _trim(self._holdings)

    def holding_of(self, agent_id: str, exec_id: str) -> Holding | None:
        """What this server gave to the agent, as it was then; only the store knows whether the agent still has it."""
        with self._lock:
            holding = self._holdings.get(exec_id)
        return holding if holding is not None and holding.agent_id == agent_id else None

    def forget_executions(self, exec_ids: Iterable[str]) -> None:
        """No more reports on these will come."""
        with self._lock:
            for exec_id in exec_ids:
                self._holdings.pop(exec_id, None)

    def sign_on(self, identity: AgentIdentity, types: Collection[str] | None, lease: float | None) -> AgentRecord:
        """An agent's row, its lease fresh enough."""
        wanted = self._default if lease is None else lease
        with self._lock:
            agent = self._known.get(identity)
        known = agent is not None and (agent.types is None or (types is not None and agent.types.issuperset(types)))
        if agent is not None and known and (lease is None or lease == agent.lease_seconds):
            self.renew(agent.worker_id, agent.lease_seconds, asks=True)
            return agent
        tenant_id, agent_id, instance = identity
        agent = self._store.agents.sign_on(
            agent_id, tenant_id=tenant_id, types=types, lease_seconds=wanted, instance=instance
        )
        with self._lock:
            self._known[identity] = agent
            _trim(self._known)
        self._note_renewal(agent.worker_id, asks=True)
        return agent

    def renew(self, worker_id: int, lease: float, *, asks: bool = False) -> None:
        """Renew a lease, unless that was done a moment ago; `WorkerLost` if it was over. The agent may ask for work."""
        with self._lock:
            renewed = (self._asked if asks else self._renewed).get(worker_id, -1e18)
        if monotonic() - renewed >= min(FRESH_SECONDS, lease / 10):
            self._store.workers.beat(worker_id, asks=asks)
            self._note_renewal(worker_id, asks=asks)

    def try_renew(self, holding: Holding) -> None:
        """Renew the lease of an agent that reports the end of a task; a lease that is over stays over."""
        try:
            if holding.worker_id is not None:
                self.renew(holding.worker_id, holding.lease_seconds)
        except WorkerLost:
            pass

    def renew_waiting(self, waiting: Collection[tuple[AgentIdentity, float | None]]) -> None:
        """Renew the leases of agents that wait for work, those that have used up a third of theirs; and have it on
        record that they ask, once more after they were handed something."""
        due: dict[float, list[int]] = {}
        for identity, lease in waiting:
            wanted = self._default if lease is None else lease
            with self._lock:
                agent = self._known.get(identity)
                asked_at = -1e18 if agent is None else self._asked.get(agent.worker_id, -1e18)
                handed_at = -1e18 if agent is None else self._handed.get(agent.worker_id, -1e18)
            pause = FRESH_SECONDS if handed_at > asked_at else min(wanted, ASKING_SECONDS) / 3
            if agent is not None and monotonic() - max(asked_at, handed_at) >= pause:
                due.setdefault(wanted, []).append(agent.worker_id)
        for wanted, ids in due.items():
            for worker_id in self._store.agents.renew(ids, wanted):
                self._note_renewal(worker_id, asks=True)

    def _note_renewal(self, worker_id: int, *, asks: bool) -> None:
        with self._lock:
            _note_time(self._renewed, worker_id)
            if asks:
                _note_time(self._asked, worker_id)

    def _forget_agent(self, identity: AgentIdentity) -> None:
        with self._lock:
            self._known.pop(identity, None)


def _note_time(times: OrderedDict[int, float], worker_id: int) -> None:
    times[worker_id] = monotonic()
    times.move_to_end(worker_id)
    _trim(times)


def _trim(cache: "OrderedDict[Any, Any]") -> None:
    while len(cache) > MOST_KNOWN:
        cache.popitem(last=False)
