"""Runs made by hand, a row at a time, for the checker to judge."""

from typing import Any

from headgate.core.states import FINAL, HELD
from headgate.simulation.evidence import Evidence, LedgerEntry, Row, Submission, TaskRecord


class Run:
    """A run in which a second passes with each row, by both clocks. What it is given it writes down, right or wrong."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.tasks: dict[int, TaskRecord] = {}
        self.ledger: list[LedgerEntry] = []
        self.submissions: list[Submission] = []
        self.now = self.wall = 1000.0
        self._worker = 1

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    def step(self, task_id: int, kind: str, after: str, exec_id: str | None = None, **wrong: Any) -> Row:
        """One transition; `wrong` goes over what would be right."""
        known = self.tasks[task_id]
        right = {"seq": known.seq + 1, "before": known.status or None}
        row = self._write(task_id, kind, **{**right, "after": after, "exec_id": exec_id, **wrong})
        starts = after in HELD and known.status not in HELD
        self.tasks[task_id] = known._replace(
            status=after,
            seq=row.seq,
            attempt=known.attempt + starts,
            exec_id=exec_id if starts else known.exec_id if after in HELD else None,
            worker_id=self._worker if after in HELD else None,
            finished=row.wall if after in FINAL else None,
        )
        return row

    def note(self, task_id: int | None, kind: str, exec_id: str | None = None, detail: str | None = None) -> Row:
        """A row that is no transition."""
        return self._write(task_id, kind, seq=0, before=None, after=None, exec_id=exec_id, detail=detail)

    def _write(self, task_id: int | None, kind: str, *, detail: str | None = None, **fields: Any) -> Row:
        self.wait(1.0)
        columns = {
            "id": len(self.rows) + 1, "task_id": task_id, "at": self.now, "wall": self.wall, "kind": kind,
            "actor": "somebody", "detail": detail, **fields,
        }  # fmt: skip
        self.rows.append(Row(**columns))
        return self.rows[-1]

    def submit(self, task_id: int, state: str = "queued", **fields: Any) -> None:
        """A task that somebody submitted, unless it is a child."""
        blank = TaskRecord(task_id, 0, "plain", "", "default", None, None, None, None, 0, 0, None, None, None)
        self.tasks[task_id] = blank._replace(**fields)
        self.step(task_id, "submitted", state)
        if self.tasks[task_id].parent_id is None:
            self.submissions.append(Submission(None, "made", (task_id,)))

    def start(self, task_id: int, exec_id: str) -> None:
        """In the audit and in the ledger."""
        self.step(task_id, "started", "running", exec_id)
        self.record("start", task_id, exec_id)

    def end(self, task_id: int, kind: str = "completed", after: str = "succeeded") -> None:
        exec_id = self.tasks[task_id].exec_id
        assert exec_id is not None
        self.record("effect", task_id, exec_id)
        self.record("end", task_id, exec_id)
        self.step(task_id, kind, after, exec_id)

    def record(self, what: str, task_id: int, exec_id: str, attempt: int | None = None, accepted: bool = True) -> None:
        self.now += 0.01
        number = self.tasks[task_id].attempt if attempt is None else attempt
        self.ledger.append(LedgerEntry(self.now, what, task_id, exec_id, number, accepted))

    def do(self, *task_ids: int, **fields: Any) -> None:
        """Whole tasks, one after the other."""
        for task_id in task_ids:
            self.submit(task_id, **fields)
            self.start(task_id, f"x{task_id}")
            self.end(task_id)

    def change(self, task_id: int, **wrong: Any) -> None:
        """What the task's own row says, against its audit."""
        self.tasks[task_id] = self.tasks[task_id]._replace(**wrong)

    def evidence(self, **more: Any) -> Evidence:
        fields: dict[str, Any] = {
            "rows": self.rows,
            "tasks": list(self.tasks.values()),
            "ledger": self.ledger,
            "submissions": self.submissions,
            "ended_at": self.wall,
        }
        return Evidence(**{**fields, **more})
