"""`headgate doctor`: what is right, what is wrong, and what to do about it."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from headgate.cli.exits import message_of
from headgate.cli.formatting import format_duration
from headgate.cli.stores import sqlite_file
from headgate.core.errors import HeadgateError
from headgate.core.states import State
from headgate.environment import utc_now
from headgate.outward.callback import secret_of
from headgate.outward.sealing import Seals, Unopened
from headgate.settings import load
from headgate.store.db.version import OLDEST, DatabaseVersion, version_of
from headgate.store.store import Store, open_store

OLD_TASK = timedelta(hours=1)
OLD_SAMPLE = timedelta(minutes=1)
OLD_CALLBACK = timedelta(hours=1)
LATE_TICK_SECONDS = 10.0
CLOCK_OFF = timedelta(seconds=2)
LITTLE_DISK_BYTES = 1 << 30
NO_DISK_BYTES = 100 << 20


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `ok`, `warn` or `fail`, what was found, and what to do."""

    name: str
    state: str
    found: str
    advice: str = ""


def run_checks(url: str | None) -> list[Check]:
    """Every check, each after those it depends on; what cannot be checked is left out."""
    try:
        settings = load({"url": url})
    except HeadgateError as error:
        return [Check("settings", "fail", str(error), "mend headgate.toml, .env or the HEADGATE_… variables")]
    checks = [Check("settings", "ok", f"lease {settings.lease_seconds:g} s, beat {settings.beat_seconds:g} s")]
    file = sqlite_file(settings.url)
    if file is not None and not file.exists():
        checks.append(Check("store", "fail", f"there is no {file}", "`headgate up` or `headgate migrate` makes it"))
        return checks
    try:
        with open_store(settings.url, schema=settings.schema) as store:
            checks += _store_checks(store, file, settings.secrets)
    except HeadgateError as error:
        checks.append(Check("store", "fail", message_of(error), "check the URL, and that the database is up"))
    return checks


def _store_checks(store: Store, file: Path | None, secrets: Sequence[str]) -> Iterator[Check]:
    database = store.database.read(version_of)
    yield Check("store", "ok", str(file) if file else "PostgreSQL answers")
    yield _version(database)
    yield _clock(database)
    yield _disk(file)
    missing = store.migration_plan()
    if missing:
        names = ", ".join(step.name for step in missing)
        yield Check("schema", "fail", f"not taken: {names}", "run `headgate migrate`")
        return
    yield Check("schema", "ok", "up to date")
    yield _workers(store, database)
    yield _served(store, database)
    yield _paused(store)
    yield _lost(store)
    yield _duties(store, database)
    yield _schedules(store)
    yield _oldest(store, database)
    yield _dead(store)
    yield _callbacks(store, database)
    yield _secrets(store, secrets)


def _version(database: DatabaseVersion) -> Check:
    oldest = ".".join(map(str, OLDEST[database.dialect]))
    name = "SQLite" if database.dialect == "sqlite" else "PostgreSQL"
    if database.supported:
        return Check("version", "ok", f"{name} {database.version}")
    return Check("version", "fail", f"{name} {database.version}", f"it needs {oldest} or newer")


def _clock(database: DatabaseVersion) -> Check:
    difference = abs(utc_now() - database.now)
    if difference <= CLOCK_OFF:
        return Check("clock", "ok", f"{format_duration(difference)} from the database's")
    return Check(
        "clock", "warn", f"{format_duration(difference)} from the database's", "let both machines keep time (NTP)"
    )


def _disk(file: Path | None) -> Check:
    if file is None:
        return Check("disk", "ok", "the database server's")
    free = shutil.disk_usage(file.resolve().parent).free
    found = f"{free / (1 << 30):.1f} GB free"
    if free >= LITTLE_DISK_BYTES:
        return Check("disk", "ok", found)
    state = "fail" if free < NO_DISK_BYTES else "warn"
    return Check("disk", state, found, "make room, or `headgate purge` old history")


def _workers(store: Store, database: DatabaseVersion) -> Check:
    workers = store.workers.all()
    alive = [worker.name for worker in workers if worker.lease_until >= database.now]
    stuck = [task_id for worker in workers for task_id in json.loads(worker.detail or "{}").get("stuck", [])]
    if stuck:
        found = f"handlers that do not end: of task {', '.join(map(str, stuck))}"
        return Check("workers", "warn", found, "their workers claim nothing; restart those that have no parent process")
    if alive:
        return Check("workers", "ok", f"{len(alive)} alive: {', '.join(alive)}")
    return Check("workers", "warn", "none is alive", "start one: `headgate up` or `headgate work MODULE`")


def _served(store: Store, database: DatabaseVersion) -> Check:
    alive = [worker for worker in store.workers.all() if worker.lease_until >= database.now]
    waiting = {stream.type for stream in store.agents.ready_streams()}
    unserved = sorted(
        code for code in waiting if not any(worker.types is None or code in worker.types for worker in alive)
    )
    if not unserved:
        return Check("served", "ok", "somebody serves whatever waits")
    return Check("served", "warn", f"nobody serves {', '.join(unserved)}", "start a worker or an agent that does")


def _paused(store: Store) -> Check:
    if store.lanes.everything_paused():
        return Check("paused", "warn", "everything is paused", "`headgate resume --all`")
    lanes = [lane.name for lane in store.lanes.all() if lane.paused]
    if not lanes:
        return Check("paused", "ok", "nothing is paused")
    return Check("paused", "warn", f"paused: {', '.join(lanes)}", "`headgate resume --lane NAME`")


def _lost(store: Store) -> Check:
    lost = store.workers.lost_holders()
    if not lost:
        return Check("lost", "ok", "no lost worker holds a task")
    named = ", ".join(map(str, lost))
    return Check("lost", "warn", f"lost workers hold tasks: {named}", "any `headgate work` or `duties` gives them back")


def _duties(store: Store, database: DatabaseVersion) -> Check:
    sampled = max((count.as_of for count in store.statistics.counts() if count.as_of), default=None)
    if sampled is None:
        return Check("duties", "ok", "nothing that waits has been counted yet")
    age = database.now - sampled
    if age <= OLD_SAMPLE:
        return Check("duties", "ok", f"counted what waits {format_duration(age)} ago")
    return Check(
        "duties", "warn", f"counted what waits {format_duration(age)} ago", "run `headgate up` or `headgate duties`"
    )


def _schedules(store: Store) -> Check:
    ahead = store.schedules.next_due()
    if ahead is None:
        return Check("schedules", "ok", "no schedule is online")
    if -ahead <= LATE_TICK_SECONDS:
        found = f"the next tick comes in {format_duration(ahead)}" if ahead > 0 else "a tick is just due"
        return Check("schedules", "ok", found)
    return Check(
        "schedules", "warn", f"a tick is late by {format_duration(-ahead)}", "run `headgate up` or `headgate duties`"
    )


def _oldest(store: Store, database: DatabaseVersion) -> Check:
    queued = [count.oldest for count in store.statistics.counts() if count.status is State.QUEUED and count.oldest]
    if not queued:
        return Check("queue", "ok", "nothing is known to be queued")
    age = database.now - min(queued)
    if age <= OLD_TASK:
        return Check("queue", "ok", f"the oldest queued task is {format_duration(age)} old")
    return Check(
        "queue",
        "warn",
        f"the oldest queued task is {format_duration(age)} old",
        "`headgate list --status queued`, `headgate why ID`",
    )


def _dead(store: Store) -> Check:
    dead = sum(count.count for count in store.statistics.counts() if count.status is State.DEAD)
    if not dead:
        return Check("dead", "ok", "no task waits for a person")
    return Check(
        "dead", "warn", f"{dead} wait for a person", "`headgate dead-letters`, then replay, resolve or discard"
    )


def _callbacks(store: Store, database: DatabaseVersion) -> Check:
    callbacks = store.deliveries.deliverables()
    if callbacks.undeliverable:
        return Check(
            "callbacks",
            "warn",
            f"{callbacks.undeliverable} cannot be delivered",
            "`headgate callbacks --status undeliverable`, then redeliver, or resolve the task",
        )
    if callbacks.oldest is not None and database.now - callbacks.oldest > OLD_CALLBACK:
        found = f"the oldest that is pending is {format_duration(database.now - callbacks.oldest)} old"
        return Check("callbacks", "warn", found, "`headgate callbacks --status pending`; does `headgate duties` run?")
    return Check("callbacks", "ok", f"{callbacks.pending} pending, none undeliverable")


def _secrets(store: Store, secrets: Sequence[str]) -> Check:
    seals, unreadable = Seals(secrets), []
    for task_type in store.types.by_code().values():
        try:
            secret_of(task_type.callback, task_type.code, seals)
        except Unopened:
            unreadable.append(task_type.code)
    if not unreadable:
        return Check("secrets", "ok", "every callback's secret can be opened")
    if not secrets:
        found = f"sealed, and no HEADGATE_SECRET is set here: {', '.join(unreadable)}"
        return Check("secrets", "fail", found, "set the one that the server has, to look here as it does")
    return Check(
        "secrets", "fail", f"sealed under another HEADGATE_SECRET: {', '.join(unreadable)}",
        "set the one they were sealed under, behind the new one and a comma; or put them again",
    )  # fmt: skip
