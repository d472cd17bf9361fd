"""Every statement that runs all day, found where it stands."""

import inspect
import re
from importlib import import_module
from pkgutil import iter_modules

import headgate.store
import headgate.store.desk as desk
from headgate.store.sql import Statement

# Lists and counts for people, and what runs once.
_NOT_HOT = {
    "__main__", "audit", "base", "lists", "migrate", "open", "partitions", "postgres", "reports", "samples", "sqlite",
    "ways",
}  # fmt: skip


def hot_statements(dialect: str) -> dict[str, Statement]:
    """What reads or writes the task table in this dialect, by the name it has."""
    other = {"postgres": "claim_sqlite", "sqlite": "claim_postgres"}[dialect]
    found: dict[str, tuple[str, Statement]] = {}
    for module in iter_modules(headgate.store.__path__):
        if module.name in _NOT_HOT or module.name == other:
            continue
        room = import_module(f"headgate.store.{module.name}")
        source = inspect.getsource(room)
        for name, value in vars(room).items():
            if not re.search(rf"^{name}\b.*=", source, re.MULTILINE):  # it stands elsewhere
                continue
            values = value if isinstance(value, dict) else {"": value}
            for key, statement in values.items():
                if isinstance(statement, Statement) and " headgate_task" in getattr(statement, dialect):
                    found.setdefault(getattr(statement, dialect), (f"{module.name}.{name}{key}", statement))
    letters = {"desk.letters": desk._letters(()), "desk.letters, filtered": desk._letters(tuple(desk._CONDITIONS))}
    return dict(found.values()) | letters
