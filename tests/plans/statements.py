"""Every statement that runs all day, found where it stands."""

import inspect
import re
from importlib import import_module
from pkgutil import walk_packages

import headgate.store
import headgate.store.tasks.dead_letters as dead_letters
from headgate.store.db.statement import Statement

# Lists and counts for people, and what runs once.
_NOT_HOT = {
    "events.audit", "store", "reading.lists", "db.migrate", "db.partitions", "db.postgres",
    "reading.statistics", "reading.samples", "db.sqlite", "reading.list_plan",
}  # fmt: skip
_PREFIX = "headgate.store."


def hot_statements(dialect: str) -> dict[str, Statement]:
    """What reads or writes tables of tasks, or goes by a task's id, in this dialect; by the name it has."""
    other = {"postgres": "claim.sqlite", "sqlite": "claim.postgres"}[dialect]
    found: dict[str, tuple[str, Statement]] = {}
    for module in walk_packages(headgate.store.__path__, _PREFIX):
        module_name = module.name.removeprefix(_PREFIX)
        if module_name in _NOT_HOT or module_name == other:
            continue
        imported = import_module(module.name)
        source = inspect.getsource(imported)
        for name, value in vars(imported).items():
            if not re.search(rf"^{name}\b.*=", source, re.MULTILINE):  # it stands elsewhere
                continue
            values = value if isinstance(value, dict) else {"": value}
            for key, statement in values.items():
                if isinstance(statement, Statement) and re.search(" (headgate_)?task", getattr(statement, dialect)):
                    found.setdefault(getattr(statement, dialect), (f"{module_name}.{name}{key}", statement))
    letters = {
        "dead_letters.letters": dead_letters._letters(()),
        "dead_letters.letters, filtered": dead_letters._letters(tuple(dead_letters._CONDITIONS)),
        "dead_letters.groups": dead_letters._groups(()),
    }
    return dict(found.values()) | letters
