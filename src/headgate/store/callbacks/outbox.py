"""Callbacks that transitions ask for: written with the transition, called off when they are no longer wanted."""

from collections.abc import Collection

from headgate.core.callbacks import CallbackKind
from headgate.environment import new_ids
from headgate.store.db.statement import Db, Statement

_OWE_NAMES = ("id", "webhook_id")
# The ids are sorted: `width_bucket` finds an id's place by halving, as in FINISH.
OWE = Statement(
    sqlite="""
    INSERT INTO headgate_callback_delivery (webhook_id, task_id, tenant_id, type, kind, seq, status, due_at, error_info,
                                   created_at, update_date)
    SELECT :webhook_id, id, tenant_id, type, :kind, seq, 'pending', :now,
           CASE WHEN :kind = 'error' THEN error_info END, :now, :now
      FROM headgate_task WHERE id = :id
    """,
    postgres="""
    INSERT INTO headgate_callback_delivery (webhook_id, task_id, tenant_id, type, kind, seq, status, due_at, error_info,
                                   created_at, update_date)
    SELECT (:webhook_id::text[])[width_bucket(t.id, :id::bigint[])], t.id, t.tenant_id, t.type, :kind::text, t.seq,
           'pending', {now}, CASE WHEN :kind::text = 'error' THEN t.error_info END, {now}, {now}
      FROM headgate_task t WHERE t.id = ANY(:id::bigint[])
    """,
)
# The status is written so that no index on it applies: only the task's own rows are to be read.
CALL_OFF = Statement(
    """
    UPDATE headgate_callback_delivery SET status = 'dropped', lease = NULL, update_date = {now}
     WHERE task_id {in ids} AND kind = 'success' AND coalesce(status, '') IN ('pending', 'undeliverable')
    """
)


def owe(db: Db, kind: CallbackKind, ids: Collection[int]) -> None:
    """Have a callback of this kind sent for each of these tasks, as they are in this transaction."""
    if not ids:
        return
    names = [f"msg_{name.replace('-', '')}" for name in new_ids(len(ids))]
    db.many(OWE, _OWE_NAMES, list(zip(sorted(ids), names, strict=True)), kind=kind.value)
    db.news.callbacks_due = True


def call_off(db: Db, ids: Collection[int]) -> None:
    """These tasks no longer wait for their success callback: one that is not delivered yet is dropped."""
    db.send(CALL_OFF, ids=sorted(ids))
