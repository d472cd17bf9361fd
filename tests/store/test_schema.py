"""A schema of its own: names are qualified, so that no search_path matters, and two stores do not meet."""

import re
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pkgutil import walk_packages

import psycopg
import pytest

import headgate.store
from headgate.core.errors import Invalid, Unavailable
from headgate.core.machine import Raised, Returned
from headgate.core.schedule import NewSchedule, ScheduleStatus
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.db.migrate import migrations
from headgate.store.db.packs import migrate_pack
from headgate.store.db.statement import SPACE, Statement, qualified
from headgate.store.reading.lists import Filter
from headgate.store.store import Store, open_store
from tests.factories import TYPES, drain, kinds, running, settle, sql, start, submit, worker
from tests.store.earlier import dump, make_earlier
from tests.store.ears import Ears

DAY = 86400.0


@pytest.fixture
def apart(hostile, schemas, clock) -> Iterator[Store]:
    """A store in a schema of its own, behind a search_path that finds somebody else's tables under every name."""
    with open_store(hostile, clock, schema=schemas[0]) as store:
        store.migrate()
        for kind in TYPES:
            store.types.put(kind)
        yield store


def there(url: str, schema: str) -> str:
    """The URL with the schema on the search_path, to look at it past the store."""
    return f"{url.partition('?')[0]}?options=-csearch_path%3D{schema}"


def test_migrate_makes_the_schema_and_touches_nothing_else(hostile, schemas):
    """Spec: X13"""
    before = dump(hostile)
    with open_store(hostile, schema=schemas[0]) as store:
        assert store.migration_plan() == list(migrations("postgres"))
        assert store.migrate() == list(migrations("postgres"))
        assert store.migrate() == []
    assert dump(hostile) == before
    made = {name for name, *_ in dump(there(hostile, schemas[0]))["tables"]}
    assert made >= {name for step in migrations("postgres") for name in step.makes}


def test_a_task_goes_its_way_whatever_the_search_path(apart, clock):
    """Spec: X13"""
    first, second = submit(apart, mutex="m"), submit(apart, mutex="m")
    [execution] = start(apart)
    assert (execution.id, apart.tasks.get(second.id).status) == (first.id, State.BLOCKED)
    apart.executions.progress(first.id, execution.exec_id, "0.5")
    apart.executions.save_checkpoint(first.id, execution.exec_id, "page", "7")
    assert settle(apart, execution, Raised("again", 60.0)) is State.RETRYING
    assert drain(apart) == [second.id]
    clock.advance(61)
    assert apart.due.bring() == 1
    assert drain(apart) == [first.id]
    assert kinds(apart, first.id)[-1] == "completed"
    assert [task.id for task in apart.tasks.find(Filter(mutex="m")).items] == [second.id, first.id]
    assert apart.history.archive() == 2
    assert apart.history.purge([State.SUCCEEDED], seconds=0) == 2
    assert apart.tasks.find().items == []


def test_limits_schedules_callbacks_and_duties_work_there(apart, clock):
    """Spec: X13"""
    apart.lanes.set_capacity("default", 1)
    held = running(apart)
    submit(apart)
    assert start(apart) == []
    assert [gate.name for gate in apart.tasks.why(submit(apart).id) if not gate.open] == ["lane"]
    settle(apart, held, Returned())
    apart.schedules.add(NewSchedule(NewTask("plain"), "* * * * *"), status=ScheduleStatus.ONLINE)
    assert apart.schedules.next_due() is not None
    apart.lanes.set_capacity("default", None)
    settle(apart, running(apart, "called-back"), Returned())
    assert apart.deliveries.deliverables().pending == 1
    lost = worker(apart)
    clock.advance(3600)
    assert lost in {one.id for one in apart.workers.all()}
    assert apart.workers.mark_lost(lost, next(one.lease_until for one in apart.workers.all() if one.id == lost))


def test_days_of_the_audit_are_made_and_dropped_there(apart, clock, hostile, schemas):
    """Spec: X13, A12"""
    assert apart.events.make_partitions() == []
    clock.advance(2 * DAY)
    made = apart.events.make_partitions()
    assert len(made) == 2
    assert set(made) <= {name for name, *_ in dump(there(hostile, schemas[0]))["tables"]}
    clock.advance(40 * DAY)
    dropped = []
    while gone := apart.events.drop_partitions(clock.now - timedelta(days=30)):
        dropped += gone
    assert set(made) < set(dropped)


def test_two_stores_in_two_schemas_do_not_hear_each_other(hostile, schemas):
    """Spec: X13"""
    with (
        open_store(hostile, schema=schemas[0]) as mine,
        open_store(hostile, schema=schemas[0]) as also_mine,
        open_store(hostile, schema=schemas[1]) as other,
        open_store(hostile, schema=schemas[1]) as also_other,
    ):
        for store in (mine, other):
            store.migrate()
            for kind in TYPES:
                store.types.put(kind)
        ears, others = Ears(also_mine).listening(), Ears(also_other).listening()
        submit(other)
        task = submit(mine)
        ears.wake_for(task.id)
        others.next_wake()
        assert others.silent
        assert ears.silent


def test_two_stores_in_two_schemas_do_not_lock_each_other(hostile, schemas, clock):
    """Spec: X13, A10"""
    with open_store(hostile, clock, schema=schemas[0]) as mine, open_store(hostile, clock, schema=schemas[1]) as other:
        for store in (mine, other):
            store.migrate()
            for kind in TYPES:
                store.types.put(kind)
        with psycopg.connect(there(hostile, schemas[0])) as rival:  # every lock by number that the first store knows
            rival.execute(f"SELECT pg_advisory_xact_lock({SPACE}, n) FROM generate_series(-3, 1023) n")
            task = submit(other, mutex="m")
            assert drain(other) == [task.id]


def test_a_store_from_before_the_prefix_is_upgraded_in_its_schema(hostile, schemas, clock):
    """Spec: X13, C12"""
    for name in schemas:
        sql(hostile, f'CREATE SCHEMA "{name}"')
    make_earlier(there(hostile, schemas[0]))
    for name in schemas:
        with open_store(hostile, clock, schema=name) as store:
            store.migrate()
    assert dump(there(hostile, schemas[0])) == dump(there(hostile, schemas[1]))


def test_a_user_who_may_make_no_schema_can_use_one_that_is_there(hostile, schemas, postgres_server):
    """Spec: X13"""
    role, name = f"plain_{schemas[0]}", schemas[0]
    own = re.sub(r"//[^@]+@", f"//{role}@", postgres_server)
    sql(hostile, f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} LOGIN")
    with (
        open_store(own, schema=name) as store,
        pytest.raises(Unavailable, match=r"lacks the permission: permission denied"),
    ):
        store.migrate()
    sql(hostile, f'CREATE SCHEMA "{name}" AUTHORIZATION {role}')
    with open_store(own, schema=name) as store:
        store.migrate()
        store.types.put(TYPES[0])
        assert drain(store) == [] != [submit(store).id]
    sql(hostile, f'DROP SCHEMA "{name}" CASCADE', f"DROP ROLE {role}")


@pytest.mark.parametrize("name", ["Jobs", "my jobs", "a.b", 'a"b', "1st", "x" * 64, "pg_mine", "a-b", "ü"])
def test_a_name_that_is_not_plain_is_refused(name, postgres_server):
    """Spec: X13"""
    with pytest.raises(Invalid, match=r"^schema .*: use at most 63 of a-z, 0-9 and _"):
        open_store(postgres_server, schema=name)


def test_a_file_has_no_schema(tmp_path):
    """Spec: X13"""
    with pytest.raises(Invalid, match="a SQLite file has no schema"):
        open_store(f"sqlite:///{tmp_path}/store.db", schema="jobs")
    assert list(tmp_path.iterdir()) == []


NOT_HERE = ("renaming", "claim_sqlite", "claim.sqlite")  # for tables without a prefix, for SQLite alone


def every_statement() -> dict[str, Statement]:
    """What the store says to PostgreSQL, by the name it has, wherever in the package it stands."""
    found: dict[str, Statement] = {}
    for module in walk_packages(headgate.store.__path__, "headgate.store."):
        if module.name.endswith(NOT_HERE):
            continue
        for name, value in vars(import_module(module.name)).items():
            values = value if isinstance(value, dict) else {"": value}
            found |= {f"{module.name}.{name}{key}": each for key, each in values.items() if isinstance(each, Statement)}
    return found


def test_no_statement_depends_on_the_search_path(apart, hostile, schemas):
    """Spec: X13. Each is understood where the search_path finds other tables under our names."""
    made = apart.database.write(lambda db: migrate_pack(db, "any", ""))
    relations = {name for step in (*migrations("postgres"), *made) for name in step.makes}
    statements = {name: statement for name, statement in every_statement().items() if statement.postgres}
    assert len(statements) > 200
    with psycopg.connect(hostile) as connection:
        for name, statement in statements.items():
            assert set(re.findall(r"headgate_[a-z0-9_]+", statement.postgres)) <= relations, name
            connection.execute(f"PREPARE looked_at AS {qualified(statement.postgres, schemas[0])}".encode())
            connection.execute("DEALLOCATE looked_at")
