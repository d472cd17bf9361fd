"""The rows of task types: read, declared, edited, removed, each edit with its audit row."""

import json
from operator import attrgetter
from typing import Any

from headgate.core.errors import Invalid, NotFound
from headgate.core.retry import RetryPolicy, Strategy
from headgate.core.task import TaskType, check_key_templates
from headgate.core.task_types import changes_of, minutes_to_seconds
from headgate.store.catalog.lanes import ADD_LANE
from headgate.store.catalog.resources import ADD_RESOURCE, ONE_TYPE_EDIT_AT_A_TIME
from headgate.store.catalog.version import bump
from headgate.store.db.statement import Db, Statement
from headgate.store.events.audit import record_system

SEALED = "sealed:"  # how a secret begins that may be stored

PUT_TYPE = Statement(
    """
    INSERT INTO headgate_task_metadata (code, name, category, config, edited, create_date, update_date)
    VALUES (:code, :name, :category, :config, :edited, {now}, {now})
    ON CONFLICT (code) DO UPDATE
       SET name = excluded.name, category = excluded.category, config = excluded.config, edited = excluded.edited,
           update_date = excluded.update_date
     WHERE (excluded.edited OR NOT headgate_task_metadata.edited)
       AND (headgate_task_metadata.name, headgate_task_metadata.category,
            headgate_task_metadata.config, headgate_task_metadata.edited)
        <> (excluded.name, excluded.category, excluded.config, excluded.edited)
    RETURNING code
    """
)
REMOVE_TYPE = Statement("DELETE FROM headgate_task_metadata WHERE code = :code RETURNING code")
HOLD_TYPE = Statement(
    "SELECT code, name, category, config FROM headgate_task_metadata WHERE code = :code {lock FOR NO KEY UPDATE}"
)


def hold_type(db: Db, code: str) -> TaskType | None:
    """The type as it stands, nobody else's to edit until the commit; None if there is none."""
    db.send(ONE_TYPE_EDIT_AT_A_TIME)  # there may be no row to lock yet
    rows = db.rows(HOLD_TYPE, code=code)
    return type_of(*rows[0]) if rows else None


def put_type(db: Db, kind: TaskType, *, before: TaskType | None, edited: bool, actor: str) -> None:
    """Add a type, or replace what it was `before`. A program's registration (`edited` False) never overwrites what a
    person edited."""
    check_key_templates(kind)
    sealed = kind.callback.get("security", {}).get("sk")
    if sealed is not None and not sealed.startswith(SEALED):
        raise Invalid("the sk of a callback is stored sealed")  # whoever gets here with an open one has made a mistake
    config = json.dumps(_config_of(kind))
    if db.rows(PUT_TYPE, code=kind.code, name=kind.name, category=kind.category, config=config, edited=edited):
        _record(db, "type_changed", actor, kind.code, changes_of(before, kind), by=kind.declared_by)
        bump(db)
    db.send(ADD_LANE, name=kind.lane)
    for name in kind.uses:
        db.send(ADD_RESOURCE, name=name)


def _record(db: Db, kind: str, actor: str, code: str, changes: dict[str, Any], by: str) -> None:
    detail = {"type": code, "changes": changes} | ({"declared_by": by} if by else {})
    record_system(db, kind, actor, json.dumps(detail, ensure_ascii=False))


SET_CONFIG = Statement("UPDATE headgate_task_metadata SET config = :config WHERE code = :code")


def swap_callback(db: Db, kind: TaskType, callback: dict[str, Any]) -> bool:
    """Give a type another callback, whoever edited it last; False if it is not as it was any more.

    What else is stored of it stays, in the words of whichever version wrote it.
    """
    rows = db.rows(HOLD_TYPE, code=kind.code)
    if not rows or type_of(*rows[0]) != kind:
        return False
    db.send(SET_CONFIG, code=kind.code, config=json.dumps(json.loads(rows[0][3]) | {"callback": callback}))
    bump(db)
    return True


def remove_type(db: Db, code: str, actor: str) -> None:
    before = hold_type(db, code)
    if before is None or not db.rows(REMOVE_TYPE, code=code):
        raise NotFound.of("no-type", type=code)
    _record(db, "type_removed", actor, code, changes_of(before, None), by=before.declared_by)
    bump(db)


# How a type's config is written: each key, and the field of the type, or of its retry policy, that it stands for. The
# order is that of the stored text, which is compared as a text.
_FIELDS = {
    "lane": "lane", "uses": "uses", "retry_strategy": "retry.strategy", "max_error_count": "retry.retries",
    "retry_interval": "retry.interval", "retry_sequence": "retry.sequence", "initial_delay": "retry.initial",
    "factor": "retry.factor", "cap": "retry.cap", "jitter": "retry.jitter", "timeout": "timeout_seconds",
    "need_manual": "need_manual", "unknown_errors": "unknown_errors", "callback": "callback",
    "on_child_failure": "on_child_failure", "priority": "priority", "mutex": "mutex", "rate_key": "rate_key",
    "unique_key": "unique_key", "defaults": "defaults", "retry_on": "retry_on", "fatal": "fatal",
    "declared_by": "declared_by",
}  # fmt: skip
_IF_THERE = ("retry_on", "fatal", "declared_by")  # left out of the text where they say nothing


def _config_of(kind: TaskType) -> dict[str, Any]:
    config = {
        key: value for key, field in _FIELDS.items() if (value := attrgetter(field)(kind)) or field not in _IF_THERE
    }
    return config | {"timeout": kind.timeout_seconds / 60}


def type_of(code: str, name: str, category: str, config: str) -> TaskType:
    """A type as it is stored; what is not, because it was stored before there was such a field, is as by default."""
    values = {_FIELDS[key]: value for key, value in json.loads(config).items() if key in _FIELDS}
    values["retry.strategy"] = Strategy(values["retry.strategy"])
    values["retry.sequence"] = tuple(values["retry.sequence"])
    values["timeout_seconds"] = minutes_to_seconds(values["timeout_seconds"])
    values |= {name: tuple(values.get(name, ())) for name in ("uses", "retry_on", "fatal")}
    retry = {field.removeprefix("retry."): value for field, value in values.items() if field.startswith("retry.")}
    own = {field: value for field, value in values.items() if not field.startswith("retry.")}
    return TaskType(code, name, category, retry=RetryPolicy(**retry), **own)
