"""The rows of task types: read, declared, edited, removed, each edit with its audit row."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from headgate.core.errors import Invalid, NotFound
from headgate.core.retry import RetryPolicy, Strategy
from headgate.core.task import TaskType, check_key_templates
from headgate.core.task_types import changes_of, minutes_to_seconds
from headgate.store.catalog.lanes import ADD_LANE
from headgate.store.catalog.resources import ADD_RESOURCE, ONE_TYPE_EDIT_AT_A_TIME
from headgate.store.catalog.version import bump
from headgate.store.db.statement import Db, Statement, moment
from headgate.store.events.audit import record_system

SEALED = "sealed:"  # how a secret begins that may be stored


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type as it is stored; `edited` by a person: no program's declaration changes it.

    `base` is what a pack declares, and `set_fields` the fields that a program set over it: when one of the two changes,
    the other is still known. `set_fields` is None where it is not known, and then the type stands whole.
    """

    id: int
    kind: TaskType
    edited: bool
    update_date: datetime
    base: TaskType | None = None
    set_fields: frozenset[str] | None = None

    @property
    def is_packs_own(self) -> bool:
        """Whether no program has declared it since its pack did."""
        return self.base is not None and self.base.declared_by == self.kind.declared_by


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
TYPE_COLUMNS = "id, code, name, category, config, edited, update_date"
HOLD_TYPE = Statement(
    f"SELECT {TYPE_COLUMNS} FROM headgate_task_metadata WHERE code = :code {{lock FOR NO KEY UPDATE}}"
)


def hold_type(db: Db, code: str) -> StoredType | None:
    """The type as it stands, locked against other edits until the commit; None if there is none."""
    db.send(ONE_TYPE_EDIT_AT_A_TIME)  # there may be no row to lock yet
    rows = db.rows(HOLD_TYPE, code=code)
    return stored_type(*rows[0]) if rows else None


def put_type(
    db: Db,
    kind: TaskType,
    *,
    before: StoredType | None,
    edited: bool,
    actor: str,
    base: TaskType | None = None,
    set_fields: Collection[str] | None = None,
) -> None:
    """Add a type, or replace what it was `before`. A program's registration (`edited` False) never overwrites what a
    person edited."""
    for each in (kind, base):
        if each is not None:
            _check_storable(each)
    config = _config_of(kind)
    if set_fields is not None:
        config["said"] = sorted(set_fields)
    if base is not None:
        config["base"] = {"name": base.name, "category": base.category, **_config_of(base)}
    text = json.dumps(config)
    if db.rows(PUT_TYPE, code=kind.code, name=kind.name, category=kind.category, config=text, edited=edited):
        if before is None or (before.kind, before.edited) != (kind, edited):
            changes = changes_of(None if before is None else before.kind, kind)
            _record(db, "type_changed", actor, kind.code, changes, by=kind.declared_by)
        bump(db)
    db.send(ADD_LANE, name=kind.lane)
    for name in kind.uses:
        db.send(ADD_RESOURCE, name=name)


def _check_storable(kind: TaskType) -> None:
    check_key_templates(kind)
    sealed = kind.callback.get("security", {}).get("sk")
    if sealed is not None and not sealed.startswith(SEALED):
        raise Invalid("the sk of a callback must be sealed before it is stored")  # a bug in the caller


def _record(db: Db, kind: str, actor: str, code: str, changes: dict[str, Any], by: str) -> None:
    detail = {"type": code, "changes": changes} | ({"declared_by": by} if by else {})
    record_system(db, kind, actor, json.dumps(detail, ensure_ascii=False))


SET_CONFIG = Statement("UPDATE headgate_task_metadata SET config = :config WHERE code = :code")


def swap_callback(db: Db, kind: TaskType, callback: dict[str, Any]) -> bool:
    """Replace a type's callback, no matter who edited the type last; False if it has changed since it was read.

    Everything else stored of it stays as it is, whichever version wrote it.
    """
    rows = db.rows(HOLD_TYPE, code=kind.code)
    if not rows or stored_type(*rows[0]).kind != kind:
        return False
    config = json.loads(rows[0][TYPE_COLUMNS.split(", ").index("config")])
    db.send(SET_CONFIG, code=kind.code, config=json.dumps(config | {"callback": callback}))
    bump(db)
    return True


def remove_type(db: Db, code: str, actor: str) -> None:
    before = hold_type(db, code)
    if before is None or not db.rows(REMOVE_TYPE, code=code):
        raise NotFound.of("no-type", type=code)
    _record(db, "type_removed", actor, code, changes_of(before.kind, None), by=before.kind.declared_by)
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
    "unique": "unique", "unique_seconds": "unique_seconds", "debounce_seconds": "debounce_seconds",
    "debounce_longest_seconds": "debounce_longest_seconds", "debounce_replace": "debounce_replace",
    "declared_by": "declared_by",
}  # fmt: skip
# Left out of the text where they are as by default.
_UNSAID: dict[str, Any] = {
    "retry_on": (), "fatal": (), "unique": None, "unique_seconds": None, "debounce_seconds": None,
    "debounce_longest_seconds": None, "debounce_replace": True, "declared_by": "",
}  # fmt: skip
_ALWAYS = object()


def _config_of(kind: TaskType) -> dict[str, Any]:
    values = {key: attrgetter(field)(kind) for key, field in _FIELDS.items()}
    values["timeout"] = kind.timeout_seconds / 60
    return {key: value for key, value in values.items() if value != _UNSAID.get(key, _ALWAYS)}


def stored_type(
    id: int, code: str, name: str, category: str, config: str, edited: object, update_date: int | datetime
) -> StoredType:
    """A row of `TYPE_COLUMNS`."""
    values = json.loads(config)
    base, set_fields = values.get("base"), values.get("said")
    return StoredType(
        id,
        _type_of(code, name, category, values),
        bool(edited),
        moment(update_date),
        base and _type_of(code, base["name"], base["category"], base),
        None if set_fields is None else frozenset(set_fields),
    )


@lru_cache(maxsize=4096)  # the catalog is read again after every edit, and most types are as they were
def type_of(code: str, name: str, category: str, config: str) -> TaskType:
    """A type as it is stored; what is not, because it was stored before there was such a field, is as by default."""
    return _type_of(code, name, category, json.loads(config))


def _type_of(code: str, name: str, category: str, config: dict[str, Any]) -> TaskType:
    values = {_FIELDS[key]: value for key, value in config.items() if key in _FIELDS}
    values["retry.strategy"] = Strategy(values["retry.strategy"])
    values["retry.sequence"] = tuple(values["retry.sequence"])
    values["timeout_seconds"] = minutes_to_seconds(values["timeout_seconds"])
    values |= {label: tuple(values.get(label, ())) for label in ("uses", "retry_on", "fatal")}
    retry = {field.removeprefix("retry."): value for field, value in values.items() if field.startswith("retry.")}
    own = {field: value for field, value in values.items() if not field.startswith("retry.")}
    return TaskType(code, name, category, retry=RetryPolicy(**retry), **own)
