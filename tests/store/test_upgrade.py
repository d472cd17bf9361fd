"""A store whose tables have no prefix gets it, and goes on as it was."""

import pytest

from headgate.core.errors import Refused, Unavailable
from headgate.core.limits import DeclaredLimits, LimitSource, Rate
from headgate.core.machine import Raised, Returned
from headgate.core.schedule import NewSchedule, ScheduleStatus
from headgate.core.states import State
from headgate.core.task import Execution, NewTask
from headgate.store.db.migrate import migrations
from headgate.store.store import Store, open_store
from tests.factories import TYPES, Clock, drain, kinds, record, running, settle, sql, submit, together
from tests.store.earlier import copy_into_earlier, dump, make_earlier

DAY = 86400.0


def since_the_baseline(store: Store) -> list[int]:
    return [step.version for step in migrations(store.database.dialect)]


@pytest.mark.parametrize("up_to", [1, 5, 9])
def test_a_store_from_before_the_prefix_becomes_the_same_as_a_new_one(places, clock, up_to):
    """Spec: X13, C12"""
    old, new = places.new("old"), places.new("new")
    make_earlier(old, up_to=up_to)
    with open_store(new, clock) as store:
        store.migrate()
    with open_store(old, clock) as store:
        steps = [step.version for step in store.migration_plan()]
        assert steps == [*range(up_to + 1, 10), *since_the_baseline(store)]
        assert [step.version for step in store.migrate()] == steps
        assert store.migration_plan() == []
        assert store.migrate() == []
    assert dump(old) == dump(new)
    taken = "SELECT version, name, checksum FROM headgate_migration"
    assert sql(old, taken) == sql(new, taken)


def filled(url: str, clock: Clock) -> tuple[dict[str, int], Execution]:
    """A store in the middle of its life: the ids of its tasks, and an execution that goes on."""
    with open_store(url, clock) as store:
        store.migrate()
        for kind in TYPES:
            store.types.put(kind)
        ended = running(store)
        settle(store, ended, Returned("1"))
        store.history.archive()
        clock.advance(DAY)
        store.events.make_partitions()
        called_back, dead = running(store, "called-back"), running(store, "manual")
        settle(store, called_back, Returned())
        settle(store, dead, Raised("no"))
        clock.advance(DAY)
        store.events.make_partitions()
        store.schedules.add(NewSchedule(NewTask("plain"), "0 0 * * *"), status=ScheduleStatus.ONLINE)
        executing = running(store, timeout_seconds=10 * DAY)
        ids = {
            "ended": ended.id, "called back": called_back.id, "dead": dead.id, "executing": executing.id,
            "pending": submit(store, delay_seconds=10).id, "queued": submit(store, mutex="m").id,
            "blocked": submit(store, mutex="m").id,
        }  # fmt: skip
        return ids, executing


def test_whatever_a_store_held_is_there_after_the_upgrade_and_goes_on(places, clock):
    """Spec: X13"""
    today, old = places.new("today"), places.new("old")
    ids, executing = filled(today, clock)
    make_earlier(old)
    copy_into_earlier(today, old)
    with open_store(today, clock) as store:
        before = {name: record(store, task_id) for name, task_id in ids.items()}
    clock.advance(60)  # every lease is over
    with open_store(old, clock) as store:
        store.migrate()
        assert {name: record(store, task_id) for name, task_id in ids.items()} == before
        assert dump(old) == dump(today)
        assert settle(store, executing, Returned("2")) is State.SUCCEEDED
        assert store.due.bring() == 1
        assert sorted(drain(store)) == sorted([ids["queued"], ids["blocked"], ids["pending"]])
        assert kinds(store, ids["queued"])[-1] == "completed"
        assert submit(store).id == max(ids.values()) + 1
        assert store.deliveries.deliverables().pending == 1
        assert store.tasks.retry(ids["dead"]).status is State.QUEUED
        assert store.history.archive() == 4
        assert store.tasks.get(ids["executing"]).result == "2"
        clock.advance(DAY)
        assert len(store.events.make_partitions()) == (0 if store.database.dialect == "sqlite" else 1)
        due = store.schedules.next_due()
        assert due is not None
        assert due < 0


def test_an_upgrade_is_refused_while_somebody_works_on_the_store(places, clock):
    """Spec: X13, C12"""
    today, old = places.new("today"), places.new("old")
    with open_store(today, clock) as store:
        store.migrate()
        left, *_ = [store.workers.register(name) for name in ("left", "first", "second")]
        store.workers.leave(left)
    make_earlier(old)
    copy_into_earlier(today, old)
    before = dump(old)
    with open_store(old, clock) as store:
        with pytest.raises(Refused, match=r"^2 workers are running on this store, [^\n]+: stop every process"):
            store.migrate()
        assert dump(old) == before
        clock.advance(60)
        assert store.migrate()


def test_two_who_upgrade_at_once_do_it_once(places):
    """Spec: X13, C12"""
    old = places.new("old")
    make_earlier(old)
    stores = [open_store(old) for _ in range(4)]
    taken = together(*[store.migrate for store in stores])
    for store in stores:
        store.close()
    assert sorted(map(len, taken)) == [0, 0, 0, len(since_the_baseline(stores[0]))]


def test_an_upgrade_finds_an_old_store_that_this_program_does_not_know(places):
    """Spec: C12"""
    old = places.new("old")
    make_earlier(old)
    sql(old, "UPDATE migration SET checksum = 'another' WHERE version = 5")
    before = dump(old)
    with open_store(old) as store, pytest.raises(Unavailable, match="not the one"):
        store.migrate()
    assert dump(old) == before


def test_a_file_that_cannot_be_upgraded_says_why_and_stays_as_it_was(tmp_path):
    """Spec: X13. SQLite renames nothing while a view of the user's is broken."""
    old = f"sqlite:///{tmp_path}/old.db"
    make_earlier(old)
    sql(old, "CREATE VIEW broken AS SELECT * FROM nowhere")
    before = dump(old)
    with (
        open_store(old) as store,
        pytest.raises(Unavailable, match="the schema cannot be changed: error in view broken"),
    ):
        store.migrate()
    assert dump(old) == before


def test_what_people_added_to_an_old_store_keeps_its_name(places):
    """Spec: X13"""
    old = places.new("old")
    make_earlier(old)
    sql(old, "CREATE TABLE orders (id integer PRIMARY KEY)", "CREATE INDEX my_own ON task (remark)")
    with open_store(old) as store:
        store.migrate()
    if old.startswith("sqlite"):
        names = {name for (name,) in sql(old, "SELECT name FROM sqlite_master")}
    else:
        names = {name for name, *_ in dump(old)["tables"]}
    assert {"orders", "my_own"} <= names
    assert {name for name in names if not name.startswith(("headgate_", "sqlite_"))} - {"orders_pkey"} == {
        "orders", "my_own",
    }  # fmt: skip


def test_limits_from_before_they_had_a_source_are_taken_for_a_persons(places, clock):
    """Spec: D8, X10"""
    old = places.new("old")
    make_earlier(old)
    for text in (
        "UPDATE lane SET capacity = 3 WHERE name = 'default'",
        "INSERT INTO rate_limit (name, rate, burst) VALUES ('key:openai', 5, 10), ('key:other', 10, 20)",
        "INSERT INTO stream (tenant_id, lane, type, category, rate_key, agent_id, digest)"
        " VALUES (7, 'default', 'plain', '', 'other', '', 'd'), (8, 'default', 'plain', '', 'openai', '', 'e')",
    ):
        sql(old, text)
    with open_store(old, clock) as store:
        store.migrate()
        limits = {each.name: (each.limit, each.source) for each in store.rate_limits.all()}
        assert limits == {"key:*": (Rate(10, 20), "default"), "key:openai": (Rate(5, 10), "person")}
        buckets = sql(old, "SELECT name FROM headgate_rate_limit WHERE tenant_id IS NOT NULL ORDER BY name")
        assert [name for (name,) in buckets] == ["tenant:7 key:other", "tenant:8 key:openai"]
        declared = DeclaredLimits()
        declared.lane("default", 9)
        assert store.limits.declare(declared, LimitSource.PROGRAM) == {"lane default": "person"}
