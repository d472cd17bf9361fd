"""Starts that got lost between the store and an agent: looked for by all processes as one, and put in line again."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headgate.core.compensation import CompensationSettings, Polling
from headgate.core.machine import Unconfirmed
from headgate.core.states import State
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.agent_starts import last_starts
from headgate.store.claim.start_queues import queue_size
from headgate.store.db.database import Database
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Row, Statement, clock, moment, moment_or_none
from headgate.store.events.audit import PERSON, record_system
from headgate.store.execution.revoke import take_away

ACTOR = "system:compensation"
PAGE = 500


@dataclass(frozen=True, slots=True)
class PollingStatus:
    """How the polling stands. `queue_size` counts what waits in agents' start queues."""

    interval_seconds: float
    multiplier: int
    queue_size: int
    skips: int  # polls in a row
    last_poll: datetime | None
    next_poll: datetime | None  # None: polling has not begun
    next_poll_in_seconds: float | None


@dataclass(frozen=True, slots=True)
class Compensated:
    """A task whose start was lost. `at_once` says that its agent's start queue lets it through at the next claim."""

    task_id: int
    waited_seconds: float
    at_once: bool


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one poll did: it was `skipped` because of what waits in the queue, or it found these."""

    queue_size: int
    skipped: bool
    found: tuple[Compensated, ...] = ()

    @property
    def more(self) -> bool:
        """Whether there may be more than fitted into one transaction."""
        return len(self.found) == PAGE


READ = Statement("SELECT multiplier, skips, since, last_poll, {now} FROM headgate_compensation WHERE one = 1")
# A row that another process has locked needs nothing more: that process polls.
HOLD = Statement(sqlite=READ.common, postgres=f"{READ.common} FOR NO KEY UPDATE SKIP LOCKED")
BEGIN = Statement(
    """
    INSERT INTO headgate_compensation (one, multiplier, skips, since) VALUES (1, 1, 0, {now})
    ON CONFLICT (one) DO UPDATE SET multiplier = 1
    """
)
WRITE = Statement(
    """
    UPDATE headgate_compensation
       SET multiplier = :multiplier, skips = :skips, since = {now},
           last_poll = CASE WHEN :skips = 0 THEN {now} ELSE last_poll END
     WHERE one = 1
    """
)
# Handed over too long ago; or, after the clock was set back, too far in the future to tell.
LOST = Statement(
    f"""
    SELECT id, exec_id, tenant_id, agent_id FROM headgate_task
     WHERE status IN {HELD_STATES} AND status = 'scheduling' AND agent_id IS NOT NULL
       AND (scheduling_time < {{now - :seconds}} OR scheduling_time > {{now + :seconds}})
     ORDER BY scheduling_time, id LIMIT :limit
    """
)


class Compensation:
    """What is assigned to an agent, was handed over, and has not been confirmed as started.

    When to look is kept in one row, so that any number of processes poll as one would.
    """

    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._database = database
        self._catalog = catalog

    def begin(self) -> None:
        """Begin polling at the base interval: while no process polled, a start may have been lost."""
        self._database.write(lambda db: db.rows(BEGIN))

    def wait(self, figures: CompensationSettings) -> float:
        """Seconds until it is time to `poll`; 0: now."""
        return self._database.read(lambda db: _wait(db.rows(READ), figures))

    def poll(self, figures: CompensationSettings) -> PollResult | None:
        """Put a page of lost starts in line again; None if it is not yet time, or another process is polling."""

        def poll(db: Db) -> PollResult | None:
            catalog, rows = self._catalog.fresh(db), db.rows(HOLD)
            if not rows or _wait(rows, figures):
                return None
            polling = _polling(rows[0])
            waiting = queue_size(db, catalog)
            if waiting and polling.may_skip(figures):
                _write(db, polling.skipped())
                return PollResult(waiting, skipped=True)
            done = _look(db, catalog, figures)
            _write(db, polling.polled(len(done.found), figures))
            return done

        return self._database.write(poll)

    def poll_on(self, figures: CompensationSettings) -> PollResult:
        """The next page of a poll that found more than one; a page that is not fetched is found by a later poll."""
        return self._database.write(lambda db: _look(db, self._catalog.fresh(db), figures))

    def trigger(self, figures: CompensationSettings, *, actor: str = PERSON) -> PollResult:
        """Poll at once, even if the queue holds work, and restart at the base interval."""

        def trigger(db: Db) -> PollResult:
            record_system(db, "compensation_triggered", actor, "{}")
            db.send(BEGIN)
            done = _look(db, self._catalog.fresh(db), figures)
            _write(db, Polling())
            return done

        return self._database.write(trigger)

    def status(self, figures: CompensationSettings, tenant_id: int | None = None) -> PollingStatus:
        """How the polling stands; of a tenant, with the size of its own start queues."""

        def look(db: Db) -> PollingStatus:
            waiting, rows = queue_size(db, self._catalog.fresh(db), tenant_id), db.rows(READ)
            if not rows:
                return PollingStatus(Polling().interval(figures), 1, waiting, 0, None, None, None)
            polling, left = _polling(rows[0]), _wait(rows, figures)
            last_poll, now = rows[0][3:]
            next_poll = moment(now) + timedelta(seconds=left)
            interval, last = polling.interval(figures), moment_or_none(last_poll)
            return PollingStatus(interval, polling.multiplier, waiting, polling.skips, last, next_poll, left)

        return self._database.read(look)


def _look(db: Db, catalog: Catalog, figures: CompensationSettings) -> PollResult:
    """Put a page of lost starts in line again, whenever that is."""
    waiting, lost = queue_size(db, catalog), db.rows(LOST, seconds=figures.threshold, limit=PAGE)
    now = clock(db)
    agents = {(tenant_id, agent_id) for _, _, tenant_id, agent_id in lost}
    passes = {agent for agent in agents if _lets_through(db, catalog, *agent, now)}
    taken = take_away(db, catalog, [row[:2] for row in lost], Unconfirmed(), ACTOR, State.SCHEDULING)
    found = []
    for task in sorted(taken, key=lambda task: (task.priority, task.id)):
        agent = (task.tenant_id, task.agent_id or "")
        waited = now - (task.scheduling_time or now)
        found.append(Compensated(task.id, waited.total_seconds(), agent in passes))
        passes.discard(agent)  # one at a time
    return PollResult(waiting, False, tuple(found))


def _lets_through(db: Db, catalog: Catalog, tenant_id: int, agent_id: str, now: datetime) -> bool:
    """Whether the agent's next claim gets what is put in line now: nothing is before it, and nothing holds it up."""
    last = last_starts(db, agent_id).get(tenant_id)
    return queue_size(db, catalog, tenant_id, agent_id) == 0 and (last is None or last.holds_until(now) is None)


def _polling(row: Row) -> Polling:
    return Polling(row[0], row[1])


def _wait(rows: list[Row], figures: CompensationSettings) -> float:
    """Seconds until the next poll. A clock that was set back does not hold it up: what counts from ahead is due."""
    if not rows:
        return figures.base
    since, now = moment(rows[0][2]), moment(rows[0][4])
    at = since + timedelta(seconds=_polling(rows[0]).wait(figures))
    return (at - now).total_seconds() if since <= now < at else 0.0


def _write(db: Db, polling: Polling) -> None:
    db.send(WRITE, multiplier=polling.multiplier, skips=polling.skips)
