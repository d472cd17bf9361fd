"""The tasks of the pack, and what its handlers share."""

from typing import TypedDict

from headgate.packs import Tasks, context, read_settings
from headgate.packs.media.items import Items
from headgate.packs.media.library import Library
from headgate.packs.media.settings import MediaSettings

MEMORY_MEGABYTES = 500.0  # for a handler, and all that it starts

tasks = Tasks()


class Execution(TypedDict):
    """The fence of a write: it happens only while the task runs under this execution."""

    task_id: int
    exec_id: str


def execution() -> Execution:
    """The current execution."""
    return {"task_id": context().task_id, "exec_id": context().exec_id}


def items() -> Items:
    return Items(tasks.store.database)


def library() -> Library:
    """The files of the current task's tenant."""
    return Library(read_settings(MediaSettings).media_library, context().tenant_id)
