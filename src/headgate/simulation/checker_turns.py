"""I14: no tenant is passed over for more than its share.

Judged where the gates of two tenants' tasks are the same but for the tenant, so that each start of one is a start that
the other could have had: tasks of one lane and type, without a mutex, rate key, agent or resource. Each process that
claims counts turns for itself, so the more of them there were, the more starts are let pass.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from headgate.core.events import detail_of
from headgate.core.states import State
from headgate.core.turns import DEFAULT_WEIGHT
from headgate.simulation.checker_case import Case, Violation, starts_execution
from headgate.simulation.evidence import Row, TaskRecord

UNSEEN_SECONDS = 2.0  # a process that missed a wake-up looks again within this
STARTS_PER_PROCESS = 3  # of another tenant of the same weight, before a tenant that waits has its turn

Place = tuple[str, str]  # lane and type


def judge_turns(case: Case) -> Iterator[Violation]:
    walk = _Walk(case)
    for row in case.evidence.rows:
        yield from walk.read(row)


class _Walk:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._processes = len({row.actor for row in case.evidence.rows if starts_execution(row)})
        self._weights: dict[int, float] = {}
        self._paused: set[int] = set()
        # By place and tenant: tasks that could start, and since when; and the starts of others that they have seen.
        self._waiting: dict[Place, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        self._passed_by: dict[tuple[Place, int], Counter[int]] = defaultdict(Counter)

    def read(self, row: Row) -> Iterator[Violation]:
        if row.task_id is None:
            self._apply_edit(row)
            return
        task = self._case.tasks.get(row.task_id)
        if task is None or not row.seq:
            return
        place, waiting = (task.lane, task.type), self._waiting[task.lane, task.type]
        if starts_execution(row):
            self._forget(task.tenant_id)
            if self._is_plain(task):
                yield from self._count(row, task)
        if row.after == State.QUEUED and self._is_plain(task) and task.mutex is None:
            waiting[task.tenant_id].setdefault(task.id, row.at)
        else:
            waiting[task.tenant_id].pop(task.id, None)
        if not waiting[task.tenant_id]:
            self._passed_by.pop((place, task.tenant_id), None)

    def _count(self, row: Row, task: TaskRecord) -> Iterator[Violation]:
        """Count a start for every other tenant that could have had it."""
        place = (task.lane, task.type)
        for tenant_id, tasks in self._waiting[place].items():
            since = min(tasks.values(), default=row.at)
            if tenant_id in (task.tenant_id, *self._paused) or since > row.at - UNSEEN_SECONDS:
                continue
            passed_by = self._passed_by[place, tenant_id]
            passed_by[task.tenant_id] += 1
            if passed_by[task.tenant_id] == self._allowed(task.tenant_id, tenant_id) + 1:
                text = (
                    f"row {row.id} is start {passed_by[task.tenant_id]} of tenant {task.tenant_id} in lane {task.lane}"
                )
                yield Violation("I14", f"{text} while task {min(tasks)} of tenant {tenant_id} waits there", min(tasks))

    def _allowed(self, served: int, waits: int) -> int:
        weights = [self._weights.get(tenant_id, DEFAULT_WEIGHT) for tenant_id in (served, waits)]
        return self._processes * max(round(STARTS_PER_PROCESS * weights[0] / weights[1]), STARTS_PER_PROCESS)

    def _forget(self, tenant_id: int) -> None:
        """The tenant was served, here or elsewhere: which of its tasks starts is its own affair."""
        for key in [key for key in self._passed_by if key[1] == tenant_id]:
            del self._passed_by[key]

    def _is_plain(self, task: TaskRecord) -> bool:
        return task.rate_key is None and task.agent_id is None and not self._case.evidence.uses.get(task.type)

    def _apply_edit(self, row: Row) -> None:
        """A tenant that was ever paused is judged again when somebody resumes it."""
        detail = detail_of(row.detail)
        try:
            tenant_id = int(detail.get("tenant"))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return
        match row.kind:
            case "paused":
                self._paused.add(tenant_id)
            case "resumed":
                self._paused.discard(tenant_id)
                self._forget(tenant_id)
            case "weight_changed":
                self._weights[tenant_id] = _new_weight(detail.get("changes"))


def _new_weight(changes: object) -> float:
    try:
        weight = float(changes["weight"]["new"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return DEFAULT_WEIGHT
    return weight if weight > 0 else DEFAULT_WEIGHT
