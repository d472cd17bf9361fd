"""What a history leaves in the store, and what retention removed from it before the end."""

from collections.abc import Iterator, Sequence

from headgate.core.schedule import LogMode, TickLog, tick_text
from headgate.core.task import Task
from headgate.simulation.database import WallClock
from headgate.simulation.evidence import DeliveryRow, Row, ScheduleLogLine, TaskRecord
from headgate.store.callbacks.report import DeliveryFilter
from headgate.store.db.pages import every
from headgate.store.events.feed import Cursor
from headgate.store.reading.lists import Filter
from headgate.store.store import Store

PAGE = 200


class Remains:
    """Everything that was seen in a store. `look` before something is removed from it, and at the end."""

    def __init__(self, store: Store, wall: WallClock) -> None:
        self._store = store
        self._wall = wall
        self._rows: dict[int, Row] = {}
        self._tasks: dict[int, Task] = {}
        self._deliveries: dict[int, DeliveryRow] = {}
        self._last_ids: set[int] = set()  # of the rows that were there at the last look

    def look(self) -> None:
        rows = self._read_rows()
        self._last_ids = {row.id for row in rows}
        self._rows |= {row.id: row for row in rows}
        self._tasks |= {task.id: task for task in all_tasks(self._store, Filter())}
        self._deliveries |= {delivery.id: delivery for delivery in _all_deliveries(self._store)}

    @property
    def rows(self) -> list[Row]:
        """In the order of their ids, without progress that newer progress replaced."""
        rows = (row for row in self._rows.values() if row.kind != "progress" or row.id in self._last_ids)
        return sorted(rows, key=lambda row: row.id)

    @property
    def removed_ids(self) -> set[int]:
        """The rows that are gone."""
        return self._rows.keys() - self._last_ids

    @property
    def tasks(self) -> list[TaskRecord]:
        return [_task_record(self._tasks[task_id]) for task_id in sorted(self._tasks)]

    @property
    def ids_by_name(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for task in self._tasks.values():
            if task.name is not None and task.retry_of is None:
                found[task.name] = (*found.get(task.name, ()), task.id)
        return found

    @property
    def deliveries(self) -> list[DeliveryRow]:
        return list(self._deliveries.values())

    @property
    def log_lines(self) -> list[ScheduleLogLine]:
        found = sorted(all_log_lines(self._store), key=lambda pair: pair[0].id)
        times = self._wall.virtual(line.create_date for line, _ in found)
        return [
            ScheduleLogLine(
                at,
                line.periodic_task_id,
                None if line.tick is None else tick_text(line.tick),
                line.result,
                line.task_id,
                trans,
            )
            for at, (line, trans) in zip(times, found, strict=True)
        ]

    def _read_rows(self) -> Sequence[Row]:
        rows, (page, cursor) = [], self._store.events.after(Cursor(), PAGE)
        while page:
            rows += page
            page, cursor = self._store.events.after(cursor, PAGE)
        times = self._wall.virtual(row.at for row in rows)
        return [
            Row(
                row.id, row.task_id, row.seq, at, row.at.timestamp(), row.kind, row.before, row.after, row.actor,
                row.exec_id, row.detail,
            )
            for row, at in zip(rows, times, strict=True)
        ]  # fmt: skip


def all_tasks(store: Store, wanted: Filter) -> Iterator[Task]:
    return every(lambda cursor: store.tasks.find(wanted, cursor=cursor, limit=PAGE))


def all_log_lines(store: Store) -> Iterator[tuple[TickLog, bool]]:
    """Every line of every schedule's log, and whether it ends with what its tick began."""
    for schedule in store.schedules.find(limit=PAGE):
        cursor = None
        while page := store.schedules.logs(schedule.id, cursor=cursor, limit=PAGE):
            yield from ((line, schedule.definition.log is LogMode.TRANS) for line in page)
            cursor = page[-1].id


def _all_deliveries(store: Store) -> Iterator[DeliveryRow]:
    for each in every(lambda cursor: store.deliveries.find(DeliveryFilter(), cursor=cursor, limit=PAGE)):
        yield DeliveryRow(each.id, each.webhook_id, each.task_id, each.kind, each.seq, each.status, each.attempts)


def _task_record(task: Task) -> TaskRecord:
    finished = None if task.finished_at is None else task.finished_at.timestamp()
    return TaskRecord(
        task.id, task.tenant_id, task.type, task.status, task.lane, task.mutex, task.rate_key, task.parent_id,
        task.root_id, task.seq, task.attempt, task.exec_id, task.worker_id, finished, task.start_time.timestamp(),
        task.retry_of, task.agent_id, task.correlation_id, task.error_count, task.lost_count,
    )  # fmt: skip
