"""The store: what the rest of Headgate may rely on, noun by noun, on either database.

Each method of a noun is one transaction, on disk when it returns; where it takes more than one it says so. Whatever
raises has changed nothing.
"""

import importlib
from collections.abc import Callable
from datetime import datetime
from typing import Self
from urllib.parse import urlsplit

from headgate.core.errors import Invalid, Unavailable
from headgate.core.limits import MostNames
from headgate.environment import monotonic, utc_now
from headgate.settings import Pooler, Settings, check_schema
from headgate.store.access.keys import Keys
from headgate.store.access.sessions import Sessions
from headgate.store.callbacks.deliveries import Deliveries
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.lanes import Lanes
from headgate.store.catalog.limits import Limits
from headgate.store.catalog.names import Names
from headgate.store.catalog.pauses import Pauses
from headgate.store.catalog.rate_limits import RateLimits
from headgate.store.catalog.resources import Resources
from headgate.store.catalog.tenants import Tenants
from headgate.store.catalog.types import TaskTypes
from headgate.store.catalog.unused_names import UnusedNames
from headgate.store.catalog.unused_streams import Streams
from headgate.store.catalog.version import touch
from headgate.store.claim.contract import Claims
from headgate.store.claim.cursors import Cursors
from headgate.store.claim.postgres import PostgresClaims
from headgate.store.claim.sqlite import SqliteClaims
from headgate.store.claim.start_queues import StartQueues
from headgate.store.db.database import Database
from headgate.store.db.migrate import Migration, migrate, plan
from headgate.store.db.version import DatabaseVersion, version_of
from headgate.store.events.acts import Acts
from headgate.store.events.counting import Counting
from headgate.store.events.feed import Events
from headgate.store.events.subscriptions import Subscriptions
from headgate.store.execution.agents import Agents
from headgate.store.execution.attempts import Attempts
from headgate.store.execution.compensation import Compensation
from headgate.store.execution.dispatch import Dispatch
from headgate.store.execution.executions import Executions
from headgate.store.execution.holds import Holds
from headgate.store.execution.usage import Usages
from headgate.store.execution.workers import Workers
from headgate.store.history.history import History
from headgate.store.reading.broker_report import BrokerReports
from headgate.store.reading.forecasts import Forecasts
from headgate.store.reading.lane_report import LaneReports
from headgate.store.reading.series import Series
from headgate.store.reading.statistics import Statistics
from headgate.store.schedules.schedules import Schedules
from headgate.store.tasks.dead_letters import DeadLetters
from headgate.store.tasks.due import DueTasks
from headgate.store.tasks.families import Families
from headgate.store.tasks.family_progress import FamilyProgress
from headgate.store.tasks.mutex_queue import Mutexes
from headgate.store.tasks.tasks import Tasks
from headgate.store.wakeup.wakeups import Wakeups

MIGRATE_SECONDS = 3600.0
USUAL = MostNames()


class Store:
    """Tasks, and all that decides when they run, on SQLite or PostgreSQL."""

    def __init__(
        self, database: Database, monotonic: Callable[[], float] = monotonic, most_names: MostNames = USUAL
    ) -> None:
        catalog, cursors = Catalog(database, monotonic, most_names), Cursors(monotonic)
        self.database = database
        self.catalog = catalog
        self.wakeups = Wakeups(database.listen, first=cursors.hear)
        database.on_news = self.wakeups.hear
        self.events = Events(database)
        self.acts = Acts(database)
        self.subscriptions = Subscriptions(database)
        # what is known of work
        self.types = TaskTypes(database, catalog)
        self.lanes = Lanes(database)
        self.pauses = Pauses(database)
        self.resources = Resources(database)
        self.rate_limits = RateLimits(database)
        self.limits = Limits(database)
        self.names = Names(database, catalog)
        self.tenants = Tenants(database, catalog)
        self.streams = Streams(database)
        self.unused_names = UnusedNames(database)
        self.schedules = Schedules(database, catalog)
        # tasks
        self.families = Families(database, catalog)
        self.family_progress = FamilyProgress(database)
        self.tasks = Tasks(database, catalog, self.families)
        self.due = DueTasks(database, catalog)
        self.mutexes = Mutexes(database)
        self.dead_letters = DeadLetters(database, catalog, self.families)
        self.deliveries = Deliveries(database, catalog, self.families)
        self.history = History(database)
        # who executes them
        self.workers = Workers(database, self.wakeups)
        claims = SqliteClaims if database.dialect == "sqlite" else PostgresClaims
        self.claims: Claims = claims(database, catalog, cursors)
        self.executions = Executions(database, catalog, self.claims, self.families)
        self.holds = Holds(database, catalog)
        self.attempts = Attempts(database)
        self.usages = Usages(database)
        self.agents = Agents(database, catalog, self.claims)
        self.dispatch = Dispatch(database, catalog, self.claims)
        self.start_queues = StartQueues(database, catalog)
        self.compensation = Compensation(database, catalog)
        # what people look at
        self.forecasts = Forecasts(database, catalog)
        self.statistics = Statistics(database, catalog)
        self.broker_reports = BrokerReports(database, catalog)
        self.lane_reports = LaneReports(self.lanes, self.names, self.pauses, self.statistics, self.forecasts)
        self.series = Series(database)
        self.counting = Counting(database, self.events, self.deliveries)
        self.keys = Keys(database)
        self.sessions = Sessions(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    def migrate(self) -> list[Migration]:
        """Bring the schema up to date; the steps taken. Any number of processes may call it at once."""
        taken = self.database.write(migrate, MIGRATE_SECONDS)
        self.events.make_partitions()
        return taken

    def migration_plan(self) -> list[Migration]:
        """The steps `migrate` would take."""
        return self.database.snapshot(plan)

    def bring_up_to_date(self) -> None:
        """Take the missing steps on a file of ours; a server has an owner, who is asked to: `Unavailable`."""
        missing = self.migration_plan()
        if missing and not self.database.one_writer:
            steps = "1 step" if len(missing) == 1 else f"{len(missing)} steps"
            raise Unavailable(f"the store's schema is {steps} behind: run `headgate migrate` first")
        if missing:
            self.migrate()

    def version(self) -> DatabaseVersion:
        """Which database this is, and what time it has."""
        return self.database.read(version_of)

    def check_writable(self) -> None:
        """Write something that changes nothing; whatever stands in the way is raised."""
        self.database.write(touch)


def open_store(
    url: str = "sqlite:///headgate.db",
    clock: Callable[[], datetime] | None = None,
    *,
    pooler: Pooler = Pooler.AUTO,
    schema: str = "",
    most_names: MostNames = USUAL,
) -> Store:
    """The store at `url`: `sqlite:///FILE`, `sqlite://` (in memory) or `postgresql://…`.

    `Unavailable` for a file that cannot be opened. `clock` replaces the wall clock, and on PostgreSQL the database's,
    for tests and simulations. Behind a `pooler` in transaction mode nothing is kept on a connection to PostgreSQL
    from one transaction to the next. `schema` is the PostgreSQL schema of its tables, whatever the
    search_path; without one they are where the search_path finds them. `most_names` is what the tasks of one tenant may
    make up.
    """
    check_schema(schema)
    scheme = urlsplit(url).scheme
    steady = monotonic if clock is None else lambda: clock().timestamp()
    if scheme == "sqlite":
        if schema:
            raise Invalid("a SQLite file has no schema: unset HEADGATE_SCHEMA")
        path = url.removeprefix("sqlite://").removeprefix("/") or ":memory:"
        sqlite = importlib.import_module("headgate.store.db.sqlite")  # a process pays for one driver, not for both
        try:
            return Store(sqlite.Sqlite(path, clock or utc_now), steady, most_names)
        except (OSError, sqlite.sqlite3.Error) as error:
            raise Unavailable(f"the store {path} cannot be opened: {error}") from error
    if scheme in ("postgresql", "postgres"):
        postgres = importlib.import_module("headgate.store.db.postgres")
        return Store(postgres.Postgres(url, clock, pooler=pooler, schema=schema), steady, most_names)
    raise Invalid("a store's URL must begin with sqlite:// or postgresql://")


def configured_store(settings: Settings) -> Store:
    """The store that the settings name."""
    return open_store(settings.url, pooler=settings.pooler, schema=settings.schema, most_names=settings.most_names)
