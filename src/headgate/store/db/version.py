"""What the database says of itself: for a person who looks for what is wrong."""

from dataclasses import dataclass
from datetime import datetime

from headgate.store.db.statement import Db, Statement, clock

# SQLite's STRICT tables came with 3.37; PostgreSQL 14 is the oldest that its makers still look after.
OLDEST = {"SQLite": (3, 37), "PostgreSQL": (14, 0)}
VERSION = Statement(
    sqlite="SELECT 'SQLite', sqlite_version()", postgres="SELECT 'PostgreSQL', current_setting('server_version')"
)


@dataclass(frozen=True, slots=True)
class DatabaseVersion:
    """A database: what it is, and what time it has."""

    name: str
    version: str
    now: datetime

    @property
    def oldest(self) -> str:
        """The oldest version that will do."""
        return ".".join(map(str, OLDEST[self.name]))

    @property
    def supported(self) -> bool:
        """Whether it is new enough."""
        numbers = [int(part) for part in self.version.split()[0].split(".")[:2] if part.isdigit()]
        return tuple(numbers) >= OLDEST[self.name]


def version_of(db: Db) -> DatabaseVersion:
    """What a database is, and what time it has."""
    [(name, version)] = db.rows(VERSION)
    return DatabaseVersion(name, version, clock(db))
