"""What the database says of itself: for a person who looks for what is wrong."""

from dataclasses import dataclass
from datetime import datetime

from headgate.store.db.statement import Db, Statement, clock

# SQLite's STRICT tables came with 3.37; PostgreSQL 14 is the oldest that its makers still look after.
OLDEST = {"sqlite": (3, 37), "postgres": (14, 0)}
VERSION = Statement(sqlite="SELECT sqlite_version()", postgres="SELECT current_setting('server_version')")


@dataclass(frozen=True, slots=True)
class DatabaseVersion:
    """A database: what it is, and what time it has."""

    dialect: str
    version: str
    now: datetime

    @property
    def supported(self) -> bool:
        """Whether it is new enough."""
        numbers = [int(part) for part in self.version.split()[0].split(".")[:2] if part.isdigit()]
        return tuple(numbers) >= OLDEST[self.dialect]


def version_of(db: Db) -> DatabaseVersion:
    """What a database is, and what time it has."""
    return DatabaseVersion(db.dialect, str(db.rows(VERSION)[0][0]), clock(db))
