"""In a database of the user's own: whatever is there stays as it is, and nothing of it is taken for ours."""

import re
from contextlib import closing
from typing import Any

import pytest

from headgate.core.errors import Unavailable
from headgate.core.task import NewTask, TaskType
from headgate.store.db.migrate import earlier, migrations
from headgate.store.store import open_store
from tests.factories import drain, sql
from tests.store.earlier import connected, dump, make_earlier

THEIRS = (
    "task", "worker", "session", "resource", "migration", "lane", "event", "stream", "catalog", "sample", "series",
    "checkpoint", "compensation", "nonce", "task_event", "task_log", "api_key", "claim_no", "task_ready",
)  # fmt: skip

TAKEN = {  # the beginnings of the checksums that stores from before the prefix hold
    "sqlite": "e3fdedca 77e732cb b9efdc25 3b149be6 a722441d 6319d568 34d1bbc2 7a9003e1 36407005",
    "postgres": "e4b84b4c 5de952f3 b9efdc25 36b3737d e2bff468 a8e08bea 865fb675 d3e2cb3e bdb50a44",
}


def their_tables(url: str) -> None:
    for name in THEIRS:
        sql(url, f"CREATE TABLE {name} (id integer PRIMARY KEY, said text)", f"INSERT INTO {name} VALUES (1, '{name}')")
        sql(url, f"CREATE INDEX {name}_by_said ON {name} (said)")


def what_is_theirs(url: str) -> dict[str, Any]:
    """Rows and definitions of everything that has not our prefix."""
    defined = {
        kind: [row for row in rows if not any(str(word).startswith(("headgate_", "_headgate_")) for word in row)]
        for kind, rows in dump(url).items()
    }
    defined = {
        kind: [row for row in rows if not re.search(r"sqlite_(autoindex_headgate|sequence)", repr(row))]
        for kind, rows in defined.items()
    }
    with closing(connected(url)) as connection:
        return defined | {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in THEIRS}


def test_tables_of_the_users_with_our_old_names_are_left_alone(places):
    """Spec: X13"""
    url = places.new("theirs")
    their_tables(url)
    before = what_is_theirs(url)
    with open_store(url) as store:
        assert store.migrate()
        store.types.put(TaskType("any"))
        task = store.tasks.submit(NewTask("any", mutex="m"))
        assert drain(store) == [task.id]
        assert store.history.archive() == 1
        assert store.migrate() == []
    assert what_is_theirs(url) == before
    assert [len(before[name]) for name in THEIRS] == [1] * len(THEIRS)


@pytest.mark.parametrize(
    "columns", ["version integer, name text, checksum text, applied_at integer", "version integer, dirty integer"]
)
def test_a_ledger_of_the_users_own_migrations_is_not_taken_for_ours(places, columns):
    """Spec: X13"""
    url = places.new("theirs")
    values = ", ".join(["1", "'0001_engine.sql'", "'abc'", "1"] if "name" in columns else ["1", "0"])
    sql(url, f"CREATE TABLE migration ({columns})", f"INSERT INTO migration VALUES ({values})")
    with open_store(url) as store:
        assert [step.version for step in store.migration_plan()] == [
            step.version for step in migrations(store.database.dialect)
        ]
        store.migrate()
    assert len(sql(url, "SELECT * FROM migration")) == 1


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE headgate_task (id integer)",
        "CREATE TABLE headgate_migration (id integer)",
        "CREATE VIEW headgate_lane AS SELECT 1 AS name",
    ],
)
@pytest.mark.parametrize("old", [False, True], ids=["a new store", "an old store"])
def test_a_table_of_the_users_with_a_name_of_ours_is_told_of_in_one_line_and_nothing_changes(places, theirs, old):
    """Spec: X13"""
    url = places.new("theirs")
    sql(url, theirs)
    if old:
        make_earlier(url)
    before = dump(url)
    with open_store(url) as store:
        for ask in (store.migrate, store.migration_plan):
            with pytest.raises(Unavailable, match=r"^the database has a headgate_\w+ that is not Headgate's: [^\n]+$"):
                ask()
    assert dump(url) == before


def test_names_of_ours_are_the_same_on_both_databases_and_all_have_the_prefix():
    """Spec: X13"""
    sqlite, postgres = ([name for step in migrations(kind) for name in step.makes] for kind in ("sqlite", "postgres"))
    assert set(sqlite) < set(postgres)
    assert all(name.startswith("headgate_") for name in postgres)


def test_steps_that_stores_have_taken_are_as_they_were():
    """Spec: C12"""
    assert {kind: " ".join(step.checksum[:8] for step in earlier(kind)) for kind in TAKEN} == TAKEN
