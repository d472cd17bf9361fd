"""`headgate doctor`: what is right, what is wrong, and what to do about it."""

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

import typer

from headgate.broker.address import place_of
from headgate.broker.connection import probe_broker
from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.exits import FAILED, message_of
from headgate.cli.formatting import format_duration, format_run_time
from headgate.cli.lanes import pause_text
from headgate.cli.output import print_json, print_table
from headgate.cli.stores import sqlite_file
from headgate.core.callbacks import SENDER_SILENT_SECONDS, SETTING
from headgate.core.errors import HeadgateError
from headgate.core.states import State
from headgate.environment import utc_now
from headgate.outward.callback import secret_of
from headgate.outward.sealing import Seals, Unopened
from headgate.settings import Settings, broker_urls, load
from headgate.store.db import wal
from headgate.store.db.version import DatabaseVersion
from headgate.store.execution.workers import WorkerRecord
from headgate.store.reading.statistics import Count
from headgate.store.store import Store, configured_store

OLD_TASK = timedelta(hours=1)
OLD_SAMPLE = timedelta(minutes=1)
OLD_CALLBACK = timedelta(hours=1)
LATE_TICK_SECONDS = 10.0
CLOCK_OFF = timedelta(seconds=2)
LITTLE_DISK_BYTES = 1 << 30
NO_DISK_BYTES = 100 << 20
SENDER_SILENT = timedelta(seconds=SENDER_SILENT_SECONDS)
RUN_DUTIES = "run `headgate up`, `headgate serve` or `headgate duties`"
RUN_DISPATCHER = f"workers claim from the store meanwhile; {RUN_DUTIES} with HEADGATE_BROKER set"
commands = CommandGroup()


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `ok`, `warn` or `fail`, what was found, and what to do."""

    name: str
    state: str
    found: str
    advice: str = ""


@commands.add("doctor")
def doctor(command: Command) -> None:
    """Check the store and its processes, and suggest what to do.

    The exit code is 1 if a check fails.

    \b
    headgate doctor
    """  # fmt: skip
    checks = run_checks(command.url)
    failed = any(check.state == "fail" for check in checks)
    if command.as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    else:
        rows = [(check.state, check.name, check.found, check.advice) for check in checks]
        print_table(("", "", "", ""), rows, below=True)
    if failed:
        raise typer.Exit(FAILED)


def run_checks(url: str | None) -> list[Check]:
    """Every check, each after those it depends on; what cannot be checked is left out."""
    try:
        settings = load({"url": url})
    except HeadgateError as error:
        return [Check("settings", "fail", str(error), "correct headgate.toml, .env or the HEADGATE_… variables")]
    checks = [
        Check("settings", "ok", f"lease {settings.lease_seconds:g} s, heartbeat every {settings.beat_seconds:g} s")
    ]
    if settings.broker:
        checks += map(_broker, broker_urls(settings.broker))
    file = sqlite_file(settings.url)
    if file is not None and not file.exists():
        checks.append(
            Check("store", "fail", f"{file} does not exist", "create it: `headgate up` or `headgate migrate`")
        )
        return checks
    try:
        with configured_store(settings) as store:
            checks += _store_checks(store, file, settings)
    except HeadgateError as error:
        checks.append(Check("store", "fail", message_of(error), "check the URL, and that the database is up"))
    return checks


def _store_checks(store: Store, file: Path | None, settings: Settings) -> Iterator[Check]:
    database = store.version()
    yield Check("store", "ok", str(file) if file else "PostgreSQL answers")
    yield _version(database)
    yield _clock(database.now)
    yield _disk(file)
    yield _log(file)
    missing = store.migration_plan()
    if missing:
        names = ", ".join(step.name for step in missing)
        yield Check("schema", "fail", f"missing steps: {names}", "run `headgate migrate`")
        return
    yield Check("schema", "ok", "up to date")
    alive = [
        worker for worker in store.workers.all() if worker.lease_until >= database.now and worker.kind != "dispatcher"
    ]
    counts = store.statistics.counts()
    yield _workers(alive)
    yield _served(store, alive)
    yield _paused(store)
    yield _lost(store)
    yield _duties(counts, database.now)
    yield _schedules(store)
    yield _oldest(counts, database.now)
    yield _dead(counts)
    yield _callbacks(store, database.now)
    yield _secrets(store, settings.secrets)
    if settings.broker:
        yield _dispatcher(store)


def _broker(url: str) -> Check:
    try:
        found = asyncio.run(probe_broker(url))
    except HeadgateError as error:
        return Check(
            "broker", "warn", str(error), "start it, or correct HEADGATE_BROKER; workers claim from the store meanwhile"
        )
    return Check("broker", "ok", f"{found} at {place_of(url)} takes messages")


def _dispatcher(store: Store) -> Check:
    live = store.dispatch.is_live()
    found = "a process hands tasks to the broker" if live else "no process hands tasks to the broker"
    return _warn_if(not live, "dispatcher", found, RUN_DISPATCHER)


def _warn_if(wrong: bool, name: str, found: str, advice: str) -> Check:
    return Check(name, "warn", found, advice) if wrong else Check(name, "ok", found)


def _version(database: DatabaseVersion) -> Check:
    found = f"{database.name} {database.version}"
    if database.supported:
        return Check("version", "ok", found)
    return Check("version", "fail", found, f"upgrade to {database.oldest} or newer")


def _clock(now: datetime) -> Check:
    difference = abs(utc_now() - now)
    found = f"differs from the database's by {format_run_time(difference)}"
    return _warn_if(difference > CLOCK_OFF, "clock", found, "synchronize both clocks (NTP)")


def _disk(file: Path | None) -> Check:
    if file is None:
        return Check("disk", "ok", "managed by the database server")
    free = shutil.disk_usage(file.resolve().parent).free
    found = f"{free / (1 << 30):.1f} GB free"
    if free >= LITTLE_DISK_BYTES:
        return Check("disk", "ok", found)
    state = "fail" if free < NO_DISK_BYTES else "warn"
    return Check("disk", state, found, "free some space, or `headgate purge` old history")


def _log(file: Path | None) -> Check:
    if file is None:
        return Check("log", "ok", "managed by the database server")
    size = wal.wal_bytes(str(file.resolve()))
    return _warn_if(size > wal.LONG_BYTES, "log", f"{size >> 20} MB of write-ahead log", wal.ADVICE)


def _workers(alive: list[WorkerRecord]) -> Check:
    stuck = [f"{worker.name} (task {', '.join(map(str, worker.stuck))})" for worker in alive if worker.stuck]
    if stuck:
        found = f"workers that claim nothing because a handler does not stop: {', '.join(stuck)}"
        return Check(
            "workers",
            "warn",
            found,
            "`headgate up` and `headgate work` replace them; restart any that you run yourself",
        )
    found = f"{len(alive)} running: {', '.join(worker.name for worker in alive)}" if alive else "no worker is running"
    return _warn_if(not alive, "workers", found, "start one: `headgate up` or `headgate work MODULE`")


def _served(store: Store, alive: list[WorkerRecord]) -> Check:
    waiting = {stream.type for stream in store.agents.ready_streams()}
    unserved = sorted(
        code for code in waiting if not any(worker.types is None or code in worker.types for worker in alive)
    )
    found = f"no worker for {', '.join(unserved)}" if unserved else "every type with waiting tasks has a worker"
    return _warn_if(bool(unserved), "served", found, "start a worker or an agent for it")


def _paused(store: Store) -> Check:
    pauses = [pause_text(pause) for pause in store.pauses.active()]
    found = "; ".join(pauses) or "nothing is paused"
    return _warn_if(bool(pauses), "paused", found, "`headgate pauses`, `headgate resume`")


def _lost(store: Store) -> Check:
    lost = store.workers.lost_holders()
    found = f"lost workers hold tasks: {', '.join(map(str, lost))}" if lost else "no lost worker holds a task"
    return _warn_if(bool(lost), "lost", found, "start a worker or `headgate duties` to recover them")


def _duties(counts: list[Count], now: datetime) -> Check:
    sampled = max((count.as_of for count in counts if count.as_of), default=None)
    if sampled is None:
        return Check("duties", "ok", "no tasks to count yet")
    age = now - sampled
    return _warn_if(age > OLD_SAMPLE, "duties", f"last counted tasks {format_duration(age)} ago", RUN_DUTIES)


def _schedules(store: Store) -> Check:
    ahead = store.schedules.next_due()
    if ahead is None:
        return Check("schedules", "ok", "no schedule is online")
    if -ahead > LATE_TICK_SECONDS:
        return Check("schedules", "warn", f"a tick is {format_duration(-ahead)} late", RUN_DUTIES)
    return Check("schedules", "ok", f"next tick in {format_duration(ahead)}" if ahead > 0 else "a tick is due now")


def _oldest(counts: list[Count], now: datetime) -> Check:
    queued = [count.oldest for count in counts if count.status is State.QUEUED and count.oldest]
    if not queued:
        return Check("queue", "ok", "no task is queued")
    age = now - min(queued)
    found = f"the oldest queued task is {format_duration(age)} old"
    return _warn_if(age > OLD_TASK, "queue", found, "`headgate list --status queued`, `headgate why ID`")


def _dead(counts: list[Count]) -> Check:
    dead = sum(count.count for count in counts if count.status is State.DEAD)
    found = f"dead letters: {dead}" if dead else "no dead letters"
    return _warn_if(dead > 0, "dead", found, "`headgate dead-letters`, then replay, resolve or discard")


def _callbacks(store: Store, now: datetime) -> Check:
    callbacks = store.deliveries.deliverables()
    seen = callbacks.sender_seen
    problems: list[tuple[str, str]] = []
    if callbacks.pending and (seen is None or now - seen > SENDER_SILENT):
        problems.append((f"{callbacks.pending} pending, and no process sends them", RUN_DUTIES))
    elif callbacks.oldest is not None and now - callbacks.oldest > OLD_CALLBACK:
        age = format_duration(now - callbacks.oldest)
        problems.append((f"the oldest pending one is {age} old", "`headgate callbacks --status pending`"))
    if callbacks.blocked:
        hosts = ", ".join(callbacks.blocked_hosts)
        advice = "allow it there and restart `headgate up`, `serve` or `duties`; or change the callback of its types"
        problems.append((f"{callbacks.blocked} blocked: {SETTING} does not allow {hosts}", advice))
    if callbacks.undeliverable:
        advice = "`headgate callbacks --status undeliverable`, then redeliver, or resolve the task"
        problems.append((f"{callbacks.undeliverable} undeliverable", advice))
    if not problems:
        return Check("callbacks", "ok", f"{callbacks.pending} pending, none undeliverable")
    found, advice = ("; ".join(texts) for texts in zip(*problems, strict=True))
    return Check("callbacks", "warn", found, advice)


def _secrets(store: Store, secrets: Sequence[str]) -> Check:
    seals, unreadable = Seals(secrets), []
    for task_type in store.types.by_code().values():
        try:
            secret_of(task_type.callback, task_type.code, seals)
        except Unopened:
            unreadable.append(task_type.code)
    if not unreadable:
        return Check("secrets", "ok", "every callback secret can be read")
    if not secrets:
        found = f"sealed, and HEADGATE_SECRET is not set here: {', '.join(unreadable)}"
        return Check("secrets", "fail", found, "set HEADGATE_SECRET to the server's value")
    return Check(
        "secrets", "fail", f"sealed with another HEADGATE_SECRET: {', '.join(unreadable)}",
        "append the old secret to HEADGATE_SECRET after a comma, or set the callbacks again",
    )  # fmt: skip
