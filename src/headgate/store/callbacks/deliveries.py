"""Callbacks on their way: leased before they are sent, put on record afterwards, sent again by hand.

Locks: task rows first, then rows of deliveries, as the transitions that write them do.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import headgate.store.callbacks.holds as holds
import headgate.store.callbacks.report as reports
from headgate.core.callbacks import (
    SENDER_SILENT_SECONDS,
    Attempt,
    CallbackKind,
    Delivery,
    Hold,
    error_body,
    even_shares,
    in_turn,
    success_body,
)
from headgate.core.errors import NotFound, Refused
from headgate.core.machine import Delivered, decide
from headgate.core.states import State
from headgate.core.task import Task, TaskType
from headgate.environment import new_ids
from headgate.store.callbacks.report import AttemptTiming, CallbackRecord, Deliverables, DeliveryFilter
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.type_rows import swap_callback
from headgate.store.db.database import Database, Noun, reads, writes
from headgate.store.db.pages import Page
from headgate.store.db.statement import Db, Row, Statement, insert_rows, moment
from headgate.store.events.audit import PERSON, address_of
from headgate.store.tasks.families import Families
from headgate.store.tasks.rows import hold, read, read_many
from headgate.store.tasks.transitions import Write, apply

ACTOR = "system:callbacks"


class DeliveryQueue(NamedTuple):
    """Callbacks of one kind of one type, which all go to the same place, and seconds until the first is due."""

    type: str
    kind: CallbackKind
    due_in: float
    hold: Hold | None = None


Share = tuple[str, CallbackKind, int]  # of a line: its type, its kind, and how many of it


class Leased(NamedTuple):
    """A callback that is this process's to send; `attempts` counts this attempt too."""

    id: int
    lease: str
    webhook_id: str
    task_id: int
    tenant_id: int
    type: str
    kind: CallbackKind
    attempts: int
    body: bytes
    at: datetime  # by the store's clock


class DeliveryOutcome(NamedTuple):
    """What came of sending one, and what it is from now on."""

    leased: Leased
    host: str | None  # None: it was not sent at all
    attempt: Attempt
    status: Delivery
    delay: float = 0.0


class Deliveries(Noun):
    """Callbacks that are due to receivers. A sender holds a lease: if it is killed, one is sent twice, with one id."""

    def __init__(self, database: Database, catalog: Catalog, families: Families) -> None:
        super().__init__(database)
        self._catalog = catalog
        self._families = families

    # sending

    @reads
    def lines(self, db: Db) -> list[DeliveryQueue]:
        """What waits to be sent; `type_of` says what its types are now."""
        self._catalog.fresh(db)
        lines, held = db.send(LINES), db.send(holds.HOLDS)
        found = holds.holds_of(held.rows())
        return [
            DeliveryQueue(type_code, CallbackKind(kind), due_in, found.get((type_code, CallbackKind(kind))))
            for type_code, kind, due_in in lines.rows()
        ]

    def record(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Record the outcomes of sending. A delivered success ends its task's `notifying`.

        A failure counts only under its lease; a delivery counts however late it is reported. Reported twice, it changes
        nothing.
        """
        self.record_and_lease(outcomes, [], 0.0)

    def record_and_lease(
        self,
        outcomes: Sequence[DeliveryOutcome],
        wanted: Sequence[Share],
        seconds: float,
        last_tenants: Mapping[holds.Queue, int] | None = None,
    ) -> list[Leased]:
        """`record`, and take each line's share of due callbacks, oldest first; no two processes get the same. The
        tenants of a line get the same number each, in turn, beginning behind the line's last tenant.

        A callback not recorded within `seconds` is free for another process to take. Closes families afterwards.
        """

        def exchange(db: Db) -> tuple[list[Task], list[Leased]]:
            ended = _record(db, self._catalog.fresh(db), outcomes) if outcomes else []
            return ended, _lease(db, wanted, seconds, last_tenants or {}) if wanted else []

        ended, leased = self._database.write(exchange)
        self._families.look_after(task.parent_id for task in ended)
        return leased

    @writes
    def give_back(self, db: Db, leased: Sequence[Leased]) -> None:
        """Let go of callbacks that were not sent: due at once, nothing counted."""
        db.send(GIVE_BACK, ids=[each.id for each in leased], leases=sorted({each.lease for each in leased}))

    @writes
    def hold(self, db: Db, held: Sequence[holds.NewHold]) -> None:
        """Hold these queues from now on."""
        for each in held:
            type_code, kind = each.queue
            db.send(
                holds.HOLD,
                type=type_code, kind=kind.value, host=each.host, seconds=each.seconds, blocked=each.blocked,
                reason=each.reason,
            )  # fmt: skip

    @writes
    def release(self, db: Db, queues: Sequence[DeliveryQueue]) -> None:
        """Release these queues, unless another hold has replaced the one that was read."""
        for queue in queues:
            if queue.hold is not None:
                db.send(holds.RELEASE, type=queue.type, kind=queue.kind.value, host=queue.hold.host)

    @writes
    def say_alive(self, db: Db) -> None:
        """Record that this process sends callbacks."""
        db.send(holds.SAY_ALIVE, name=holds.DUTY)

    @writes
    def reseal(self, db: Db, kind: TaskType, callback: dict[str, Any]) -> bool:
        """Replace a type's callback, unless the type was edited meanwhile."""
        return swap_callback(db, kind, callback)

    # people

    @writes
    def redeliver(
        self,
        db: Db,
        task_id: int,
        *,
        delivery_id: int | None = None,
        actor: str = PERSON,
        tenant_id: int | None = None,
    ) -> CallbackRecord:
        """Send a task's last callback, or the one named, again: now, under the same id, as often as a new one."""
        catalog = self._catalog.fresh(db)
        db.rows(LOCK_TASK, task_id=task_id)
        task = read(db, task_id, tenant_id)
        known = [sent for sent in reports.of_task(db, task_id) if delivery_id in (None, sent.id)]
        if not known and delivery_id is not None:
            raise NotFound.of("no-callback", callback_id=delivery_id, task_id=task_id)
        if not known:
            raise Refused.of("no-callback-owed", task_id=task_id)
        sent = known[0]
        if sent.kind not in catalog.type(task.type).callback:
            raise Refused.of("callback-removed", type=task.type, kind=str(sent.kind))
        if task.status is State.CANCELLED:
            raise Refused.of("callback-of-cancelled", task_id=task_id)
        db.send(AGAIN, id=sent.id)
        detail = json.dumps({"callback": sent.id, "callback_kind": sent.kind} | address_of(actor))
        db.send(NOTE, id=sent.id, kind="redelivery_asked", actor=actor, detail=detail)
        db.news.callbacks_due = True
        return reports.of_task(db, task_id, sent.id)[0]

    @reads
    def of_task(self, db: Db, task_id: int, tenant_id: int | None = None) -> list[CallbackRecord]:
        """A task's callbacks, the newest first, each with its last attempts; `NotFound`, also for another tenant's."""
        read(db, task_id, tenant_id)
        return reports.of_task(db, task_id)

    @reads
    def find(
        self, db: Db, wanted: DeliveryFilter, *, cursor: int | None = None, limit: int = 50
    ) -> Page[CallbackRecord]:
        """A page of callbacks over all tasks, newest first, without their attempts."""
        return reports.find(db, wanted, cursor, limit)

    @reads
    def deliverables(self, db: Db) -> Deliverables:
        """How many callbacks are pending, blocked and undeliverable, up to 10,001 of each, and who sends them."""
        return reports.deliverables(db)

    @reads
    def unsent(self, db: Db) -> bool:
        """Whether a callback is owed and no process has said lately that it sends them."""
        return bool(db.rows(holds.UNSENT, name=holds.DUTY, seconds=SENDER_SILENT_SECONDS))

    @reads
    def undeliverable(self, db: Db, tenant_id: int | None = None) -> tuple[int, bool]:
        """How many callbacks cannot be delivered, and whether those are all: no more than 10,000 are looked at."""
        return reports.undeliverable(db, tenant_id)

    @reads
    def attempts_after(self, db: Db, attempt_id: int, limit: int) -> list[AttemptTiming]:
        """What came of attempts behind this one, oldest first; the last few seconds are left for the next time."""
        rows = db.rows(reports.ATTEMPTS, after=attempt_id, seconds=reports.SETTLED_SECONDS, limit=limit)
        return [AttemptTiming(*row) for row in rows]

    @reads
    def last_attempt(self, db: Db) -> int:
        """The highest id of an attempt; 0 if there was none."""
        return int(db.rows(reports.LAST_ATTEMPT)[0][0])


# Types that have something pending, hopping from one to the next; of each, when the first of each kind is due.
LINES = Statement(
    sqlite="""
    WITH RECURSIVE kinds(kind) AS (VALUES ('success'), ('error')), hop(type) AS (
        SELECT min(type) FROM headgate_callback_delivery WHERE status = 'pending'
        UNION ALL
        SELECT (SELECT min(d.type) FROM headgate_callback_delivery d WHERE d.status = 'pending' AND d.type > hop.type)
          FROM hop WHERE hop.type IS NOT NULL)
    SELECT type, kind, (due_at - :now) / 1e6 FROM (
        SELECT hop.type, kinds.kind, (SELECT d.due_at FROM headgate_callback_delivery d
                                       WHERE d.status = 'pending' AND d.type = hop.type AND d.kind = kinds.kind
                                       ORDER BY d.due_at LIMIT 1) AS due_at
          FROM hop CROSS JOIN kinds WHERE hop.type IS NOT NULL)
     WHERE due_at IS NOT NULL
    """,
    postgres="""
    WITH RECURSIVE hop(type) AS (
        SELECT min(type) FROM headgate_callback_delivery WHERE status = 'pending'
        UNION ALL
        SELECT (SELECT min(d.type) FROM headgate_callback_delivery d WHERE d.status = 'pending' AND d.type > hop.type)
          FROM hop WHERE hop.type IS NOT NULL)
    SELECT hop.type, k.kind, extract(epoch FROM d.due_at - {now})::float8
      FROM hop CROSS JOIN (VALUES ('success'), ('error')) AS k(kind)
      CROSS JOIN LATERAL (SELECT due_at FROM headgate_callback_delivery d
                           WHERE d.status = 'pending' AND d.type = hop.type AND d.kind = k.kind
                           ORDER BY d.due_at LIMIT 1) d
     WHERE hop.type IS NOT NULL
    """,
)
_QUEUE = "d.status = 'pending' AND d.type = :type AND d.kind = :kind"
# The tenants that have something due in a queue, hopping from one to the next.
TURNS = Statement(
    sqlite=f"""
    WITH RECURSIVE hop(tenant_id) AS (
        SELECT (SELECT d.tenant_id FROM headgate_callback_delivery d WHERE {_QUEUE} ORDER BY d.tenant_id LIMIT 1)
        UNION ALL
        SELECT (SELECT d.tenant_id FROM headgate_callback_delivery d
                 WHERE {_QUEUE} AND d.tenant_id > hop.tenant_id ORDER BY d.tenant_id LIMIT 1)
          FROM hop WHERE hop.tenant_id IS NOT NULL)
    SELECT hop.tenant_id FROM hop
     WHERE hop.tenant_id IS NOT NULL
       AND (SELECT d.due_at FROM headgate_callback_delivery d
             WHERE {_QUEUE} AND d.tenant_id = hop.tenant_id ORDER BY d.due_at LIMIT 1) <= :now
    """,
    postgres=f"""
    WITH RECURSIVE hop(tenant_id, due_at) AS (
        (SELECT d.tenant_id, d.due_at FROM headgate_callback_delivery d
          WHERE {_QUEUE} ORDER BY d.tenant_id, d.due_at LIMIT 1)
        UNION ALL
        SELECT next.* FROM hop CROSS JOIN LATERAL (
               SELECT d.tenant_id, d.due_at FROM headgate_callback_delivery d
                WHERE {_QUEUE} AND d.tenant_id > hop.tenant_id ORDER BY d.tenant_id, d.due_at LIMIT 1) next)
    SELECT tenant_id FROM hop WHERE due_at <= {{now}}
    """,
)
LEASE = Statement(
    sqlite="""
    UPDATE headgate_callback_delivery
       SET lease = :lease, due_at = {now + :seconds}, attempts = attempts + 1, update_date = :now
     WHERE id IN (SELECT id FROM headgate_callback_delivery
                   WHERE status = 'pending' AND type = :type AND kind = :kind AND tenant_id = :tenant_id
                     AND due_at <= :now
                   ORDER BY due_at, id LIMIT :count)
    RETURNING id, lease, webhook_id, task_id, type, kind, attempts, error_info, update_date
    """,
    postgres="""
    WITH due AS MATERIALIZED (
        SELECT id FROM headgate_callback_delivery
         WHERE status = 'pending' AND type = :type AND kind = :kind AND tenant_id = :tenant_id AND due_at <= {now}
         ORDER BY due_at, id LIMIT :count FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE headgate_callback_delivery d
       SET lease = :lease, due_at = {now + :seconds}, attempts = d.attempts + 1, update_date = {now}
      FROM due WHERE d.id = due.id
    RETURNING d.id, d.lease, d.webhook_id, d.task_id, d.type, d.kind, d.attempts, d.error_info, d.update_date
    """,
)


def _lease(db: Db, wanted: Sequence[Share], seconds: float, last_tenants: Mapping[holds.Queue, int]) -> list[Leased]:
    [lease] = new_ids(1)
    due = [db.send(TURNS, type=type_code, kind=kind.value) for type_code, kind, _ in wanted]
    turns = [
        in_turn((tenant_id for (tenant_id,) in tenants.rows()), last_tenants.get((type_code, kind)))
        for (type_code, kind, _), tenants in zip(wanted, due, strict=True)
    ]
    answers = [
        db.send(
            LEASE, type=type_code, kind=kind.value, tenant_id=tenant_id, count=most, lease=lease, seconds=seconds
        )
        for (type_code, kind, count), tenants in zip(wanted, turns, strict=True)
        for tenant_id, most in zip(tenants, even_shares(count, len(tenants)), strict=False)
    ]  # fmt: skip
    rows = [row for answer in answers for row in answer.rows()]
    tasks = read_many(db, [row[3] for row in rows]) if rows else {}
    return [_leased(row, tasks[row[3]]) for row in rows]


def _leased(row: Row, task: Task) -> Leased:
    delivery_id, lease, webhook_id, task_id, type_code, kind, attempts, error_info, at = row
    if kind == CallbackKind.SUCCESS:
        body = success_body(task.ext, task.result)
    else:
        body = error_body(task_id, error_info, task.ext)
    return Leased(
        delivery_id, lease, webhook_id, task_id, task.tenant_id, type_code, CallbackKind(kind), attempts, body,
        moment(at),
    )  # fmt: skip


_RECORD_NAMES = ("id", "lease", "status", "delay", "host", "last_status", "last_error", "uncounted")
RECORD = Statement(
    sqlite="""
    UPDATE headgate_callback_delivery
       SET status = :status, lease = NULL, due_at = {now + :delay}, host = coalesce(:host, host),
           last_status = :last_status, last_error = :last_error, update_date = :now, attempts = attempts - :uncounted,
           delivered_at = CASE WHEN :status = 'delivered' THEN :now ELSE delivered_at END
     WHERE id = :id AND CASE WHEN :status = 'delivered' THEN status IN ('pending', 'undeliverable')
                             ELSE status = 'pending' AND lease = :lease END
    RETURNING id
    """,
    postgres="""
    UPDATE headgate_callback_delivery d
       SET status = o.status, lease = NULL, due_at = {now + o.delay}, host = coalesce(o.host, d.host),
           last_status = o.last_status, last_error = o.last_error, update_date = {now},
           attempts = d.attempts - o.uncounted,
           delivered_at = CASE WHEN o.status = 'delivered' THEN {now} ELSE d.delivered_at END
      FROM unnest(:id::bigint[], :lease::text[], :status::text[], :delay::float8[], :host::text[],
                  :last_status::int[], :last_error::text[], :uncounted::int[])
           AS o(id, lease, status, delay, host, last_status, last_error, uncounted)
     WHERE d.id = ANY(:id::bigint[]) AND d.id = o.id
       AND CASE WHEN o.status = 'delivered' THEN d.status IN ('pending', 'undeliverable')
                ELSE d.status = 'pending' AND d.lease = o.lease END
    RETURNING d.id
    """,
)
# It is sent once under a lease: an outcome reported twice, after a lost answer of the store, is stored once.
_ATTEMPT = {
    "delivery_id": "bigint", "lease": "text", "task_id": "bigint", "host": "text", "status": "int",
    "seconds": "float8", "error": "text", "body": "text",
}  # fmt: skip
KEEP = insert_rows("headgate_callback_attempt", _ATTEMPT, now=["at"], end="ON CONFLICT (delivery_id, lease) DO NOTHING")
NOTE = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, detail)
    SELECT task_id, tenant_id, 0, {now}, :kind, :actor, :detail FROM headgate_callback_delivery WHERE id = :id
    """
)


def _record(db: Db, catalog: Catalog, outcomes: Sequence[DeliveryOutcome]) -> list[Task]:
    """The tasks that ended by it, as they were."""
    over = {o.leased.task_id for o in outcomes if o.status in _ENDS and o.leased.kind is CallbackKind.SUCCESS}
    held = {task.id: task for task in hold(db, sorted(over))} if over else {}
    # A sender that was slower than its lease may report one callback twice: that it was delivered counts.
    delivered = {o.leased.id for o in outcomes if o.status is Delivery.DELIVERED}
    counting = [o for o in outcomes if o.status is Delivery.DELIVERED or o.leased.id not in delivered]
    changes = sorted(
        (o.leased.id, o.leased.lease, o.status.value, o.delay, o.host, came.status, came.error, int(came.refused))
        for o in counting
        for came in [o.attempt]
    )
    written = {row[0] for row in db.each(RECORD, _RECORD_NAMES, changes).rows()}
    attempts = [
        (o.leased.id, o.leased.lease, o.leased.task_id, o.host, came.status, came.seconds, came.error, came.body)
        for o in outcomes
        for came in [o.attempt]
        if o.host is not None and not came.refused
    ]
    if attempts:
        db.many(KEEP, tuple(_ATTEMPT), attempts)
    mine = [o for o in counting if o.leased.id in written]
    for outcome in mine:
        if outcome.status is Delivery.UNDELIVERABLE:
            db.send(NOTE, id=outcome.leased.id, kind="undeliverable", actor=ACTOR, detail=_detail(outcome))
    done = [held[o.leased.task_id] for o in mine if o.status in _ENDS and o.leased.task_id in held]
    writes = [
        Write(task.id, task.status, decide(task, Delivered(), catalog.type(task.type)), task.seq)
        for task in done
        if task.status is State.NOTIFYING
    ]
    ended = apply(db, writes, ACTOR)
    return [task for task in done if task.id in ended]


_ENDS = frozenset({Delivery.DELIVERED, Delivery.DROPPED})  # of a success callback: nothing more is waited for


def _detail(outcome: DeliveryOutcome) -> str:
    last = outcome.attempt.error or f"status {outcome.attempt.status}"
    leased = outcome.leased
    return json.dumps(
        {"callback_kind": leased.kind, "host": outcome.host, "attempts": leased.attempts, "last": last},
        ensure_ascii=False,
    )


GIVE_BACK = Statement(
    """
    UPDATE headgate_callback_delivery SET lease = NULL, due_at = {now}, attempts = attempts - 1, update_date = {now}
     WHERE id {in ids} AND status = 'pending' AND lease {in leases text}
    """
)
LOCK_TASK = Statement(sqlite="SELECT 1", postgres="SELECT 1 FROM headgate_task WHERE id = :task_id FOR NO KEY UPDATE")
# A delivery that is being sent is left to its sender.
AGAIN = Statement(
    """
    UPDATE headgate_callback_delivery
       SET status = 'pending', attempts = CASE WHEN lease IS NULL THEN 0 ELSE attempts END, update_date = {now},
           due_at = CASE WHEN lease IS NULL OR due_at < {now} THEN {now} ELSE due_at END
     WHERE id = :id
    """
)
