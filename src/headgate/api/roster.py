"""The agents of one server: under which row each holds its tasks, and when its lease was last renewed."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from headgate.core.errors import WorkerLost
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.outside import monotonic
from headgate.settings import Settings
from headgate.store.agents import Agent, Holding
from headgate.store.base import Store
from headgate.store.claims import Claimed, ClaimRequest

MOST_KNOWN = 10_000
A_MOMENT = 1.0  # a lease that was renewed so long ago is fresh: not every call is one more write
BEYOND_THE_DEADLINE = 60.0  # a lease that nobody asked for outlives every task that is held under it
Who = tuple[int | None, str, str]  # the key's tenant, the agent's own name, and which process of it


class Roster:
    """Blocking, for threads. The store is the truth: another server may know the same agents."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._default = settings.lease_seconds
        self._start_seconds = settings.compensation_start_interval
        self._lock = threading.Lock()
        self._known: OrderedDict[Who, Agent] = OrderedDict()
        self._renewed: OrderedDict[int, float] = OrderedDict()
        self._handed_out: OrderedDict[str, Holding] = OrderedDict()  # by exec_id

    def claim(self, who: Who, request: ClaimRequest, lease: float | None) -> Claimed:
        """Hand tasks over to an agent, whose lease is renewed; one whose lease was over begins anew."""
        try:
            return self._claim(self.signed_on(who, request.types, lease), request, lease)
        except WorkerLost:
            self._forget(who)
            return self._claim(self.signed_on(who, request.types, lease), request, lease)

    def _claim(self, agent: Agent, request: ClaimRequest, lease: float | None) -> Claimed:
        beyond = BEYOND_THE_DEADLINE if lease is None else None
        request = replace(request, worker_id=agent.worker_id, start_seconds=self._start_seconds)
        claimed = self._store.agents.hand_over(request, beyond_the_deadline=beyond)
        self._keep(agent, request.agent_id, claimed.executions)
        return claimed

    def _keep(self, agent: Agent, agent_id: str | None, executions: Sequence[Execution]) -> None:
        with self._lock:
            for execution in executions:
                if execution.status is State.RUNNING:  # a start that is confirmed changes the others
                    kept = execution._replace(ext="{}")
                    self._handed_out[execution.exec_id] = Holding(
                        kept, False, False, agent.worker_id, agent_id, agent.lease_seconds
                    )
            _bound(self._handed_out)

    def handed_out(self, agent_id: str, exec_id: str) -> Holding | None:
        """What this agent was handed out here, as it was then; whether it still has it only the store knows."""
        with self._lock:
            holding = self._handed_out.get(exec_id)
        return holding if holding is not None and holding.agent_id == agent_id else None

    def forget(self, exec_ids: Iterable[str]) -> None:
        """Nobody will report on these any more."""
        with self._lock:
            for exec_id in exec_ids:
                self._handed_out.pop(exec_id, None)

    def signed_on(self, who: Who, types: Collection[str] | None, lease: float | None) -> Agent:
        """An agent's row, its lease fresh enough."""
        wanted = self._default if lease is None else lease
        with self._lock:
            agent = self._known.get(who)
        known = agent is not None and (agent.types is None or (types is not None and agent.types.issuperset(types)))
        if agent is not None and known and (lease is None or lease == agent.lease_seconds):
            self.renew(agent.worker_id, agent.lease_seconds)
            return agent
        tenant_id, agent_id, instance = who
        agent = self._store.agents.sign_on(
            agent_id, tenant_id=tenant_id, types=types, lease_seconds=wanted, instance=instance
        )
        with self._lock:
            self._known[who] = agent
            _bound(self._known)
        self._note(agent.worker_id)
        return agent

    def renew(self, worker_id: int, lease: float) -> None:
        """Renew a lease, unless that was done a moment ago; `WorkerLost` if it was over."""
        with self._lock:
            renewed = self._renewed.get(worker_id, -1e18)
        if monotonic() - renewed >= min(A_MOMENT, lease / 10):
            self._store.beat(worker_id)
            self._note(worker_id)

    def heard(self, holding: Holding) -> None:
        """An agent that ends a task lives, whatever became of its lease meanwhile."""
        try:
            if holding.worker_id is not None:
                self.renew(holding.worker_id, holding.lease_seconds)
        except WorkerLost:
            pass

    def renew_waiting(self, waiting: Collection[tuple[Who, float | None]]) -> None:
        """Renew the leases of agents that wait for work, those that have used up a third of theirs."""
        due: dict[float, list[int]] = {}
        for who, lease in waiting:
            wanted = self._default if lease is None else lease
            with self._lock:
                agent = self._known.get(who)
                last = -1e18 if agent is None else self._renewed.get(agent.worker_id, -1e18)
            if agent is not None and monotonic() - last >= wanted / 3:
                due.setdefault(wanted, []).append(agent.worker_id)
        for wanted, ids in due.items():
            for worker_id in self._store.agents.renew(ids, wanted):
                self._note(worker_id)

    def _note(self, worker_id: int) -> None:
        with self._lock:
            self._renewed[worker_id] = monotonic()
            self._renewed.move_to_end(worker_id)
            _bound(self._renewed)

    def _forget(self, who: Who) -> None:
        with self._lock:
            self._known.pop(who, None)


def _bound(known: "OrderedDict[Any, Any]") -> None:
    while len(known) > MOST_KNOWN:
        known.popitem(last=False)
