"""What a person may change about a dead task before it runs again."""

import json
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import Invalid
from headgate.core.task import KEYS, NewTask, Task, TaskType, check_new_task
from headgate.core.type_defaults import key_of

PLAIN_COLUMNS = ("priority", "lane", "timeout_seconds", "max_error_count")


@dataclass(frozen=True, slots=True)
class Edit:
    """None leaves a field as it is. `ext` takes the place of the task's own; `merge` sets some of its arguments, and
    removes those it sets to null."""

    ext: str | None = None
    merge: dict[str, Any] | None = None
    priority: int | None = None
    lane: str | None = None
    timeout_seconds: float | None = None
    max_error_count: int | None = None

    def __post_init__(self) -> None:
        if self.ext is not None and self.merge is not None:
            raise Invalid("give ext or merge, not both")


Changes = dict[str, tuple[Any, Any]]  # by column: what it was, and what it is to be


def changes_of(task: Task, edit: Edit, task_type: TaskType) -> Changes:
    """What an edit changes of a task; `Invalid`, naming the field, if it may not be stored so.

    A mutex, rate key or unique key that its type made of the old arguments is made anew of the new ones.
    """
    wanted: dict[str, Any] = {name: getattr(edit, name) for name in PLAIN_COLUMNS if getattr(edit, name) is not None}
    ext = _ext(task, edit)
    check_new_task(NewTask(task.type, ext, **wanted))
    wanted["ext"] = ext
    for label in KEYS:
        key = getattr(task, label)
        if key is not None and key == _made_key(label, task_type, task.ext):
            wanted[label] = key_of(label, task_type, ext)
    check_new_task(NewTask(task.type, **{label: wanted[label] for label in KEYS if label in wanted}))
    return {name: (getattr(task, name), value) for name, value in wanted.items() if value != getattr(task, name)}


def _ext(task: Task, edit: Edit) -> str:
    if edit.merge is None:
        return task.ext if edit.ext is None else edit.ext
    own = json.loads(task.ext)
    if not isinstance(own, dict):
        raise Invalid(f"the ext of task {task.id} is not an object, so nothing can be merged into it")
    merged = {name: value for name, value in (own | edit.merge).items() if value is not None or name not in edit.merge}
    return task.ext if merged == own else json.dumps(merged, ensure_ascii=False)


def _made_key(label: str, task_type: TaskType, ext: str) -> str | None:
    try:
        return key_of(label, task_type, ext)
    except Invalid:
        return None


def changes_as_json(changes: Changes) -> dict[str, Any]:
    """The changes for the audit: what each field was, and what it is. Of ext, the arguments that differ."""
    detail: dict[str, Any] = {}
    for name, (old, new) in sorted(changes.items()):
        if name == "ext":
            detail |= _argument_changes(json.loads(old), json.loads(new))
        else:
            detail[name] = {"old": old, "new": new}
    return detail


def _argument_changes(old: Any, new: Any) -> dict[str, Any]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return {"ext": {"old": old, "new": new}}
    return {
        f"ext.{name}": {side: value[name] for side, value in (("old", old), ("new", new)) if name in value}
        for name in sorted({*old, *new})
        if (name in old, old.get(name)) != (name in new, new.get(name))
    }
