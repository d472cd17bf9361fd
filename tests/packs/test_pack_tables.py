"""The tables of a pack: who makes them, and under which names."""

import pytest

from headgate.core.errors import Invalid, Unavailable
from headgate.pack import Pack
from headgate.pack_setup import migrate_packs, pack_plan, set_up
from headgate.store.db.migrate import NOT_OURS
from headgate.store.db.postgres import PostgresDb
from headgate.store.store import open_store


@pytest.fixture
def letters(tmp_path, monkeypatch):
    """A pack that has this step, of this name, on both databases."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(text="CREATE TABLE headgate_letters_letter (id integer);", name="0001_letters.sql"):
        for dialect in ("sqlite", "postgres"):
            folder = tmp_path / tmp_path.name / "migrations" / dialect
            folder.mkdir(parents=True)
            (folder / name).write_text(text)
        return Pack(name="letters", migrations=tmp_path.name)

    return make


@pytest.mark.parametrize("name", ["api", "callback", "agent", "periodic", "rate", "sample", "claim", "run", "pack"])
def test_a_pack_is_not_named_like_the_engines_own_tables(name):
    """Spec: X11, X13"""
    with pytest.raises(Invalid, match=f"headgate_{name}_"):
        Pack(name=name)


@pytest.mark.parametrize(
    "text",
    [
        "create table letter (id integer);",
        "CREATE TABLE IF NOT EXISTS letter (id integer);",
        'Create Table "letter" (id integer);',
        "CREATE TABLE headgate_letters_letter (id integer); create unique index\n if not exists letter ON x (id);",
    ],
)
def test_a_name_without_the_prefix_is_refused_however_it_is_written(letters, text):
    """Spec: X11, X13"""
    packs = [letters(text)]
    with open_store("sqlite://") as store:
        store.migrate()
        with pytest.raises(Invalid, match="creates letter; its tables must begin with headgate_letters_"):
            migrate_packs(store, packs)


def test_a_table_of_somebody_else_is_not_taken_over_by_if_not_exists(letters):
    """Spec: X11, X13"""
    packs = [
        letters("-- Not to create table or index twice.\ncreate table if not exists headgate_letters_letter (a int);")
    ]
    with open_store("sqlite://") as store:
        store.migrate()
        store.database.write(lambda db: db.define("CREATE TABLE headgate_letters_letter (theirs integer)"))
        with pytest.raises(Unavailable, match="headgate_letters_letter that pack letters did not make"):
            migrate_packs(store, packs)


def test_the_steps_of_a_pack_begin_with_1(letters):
    """Spec: X11"""
    packs = [letters(name="0000_letters.sql")]
    with open_store("sqlite://") as store:
        store.migrate()
        with pytest.raises(Invalid, match=r"0000_letters\.sql: number the steps from 0001"):
            migrate_packs(store, packs)


def before_the_last_look(monkeypatch, happens):
    """Have something happen just before somebody who plans looks for tables that are not ours."""
    rows, events = PostgresDb.rows, [happens]

    def interrupted(db, statement, **parameters):
        if statement is NOT_OURS and events:
            events.pop()()
        return rows(db, statement, **parameters)

    monkeypatch.setattr(PostgresDb, "rows", interrupted)
    return events


def test_of_two_that_start_with_a_pack_at_once_neither_takes_the_others_tables_for_a_strangers(
    postgres_server, schemas, monkeypatch, letters
):
    """Spec: X11, C12"""
    packs = [letters()]
    with open_store(postgres_server, schema=schemas[0]) as one, open_store(postgres_server, schema=schemas[0]) as other:
        one.migrate()
        waiting = before_the_last_look(monkeypatch, lambda: migrate_packs(one, packs))
        set_up(other, packs, {}, migrate=True)
        assert waiting == []
        assert pack_plan(other, packs) == []


def test_who_plans_while_another_makes_the_store_does_not_take_it_for_a_strangers(
    postgres_server, schemas, monkeypatch
):
    """Spec: C12"""
    with open_store(postgres_server, schema=schemas[0]) as one, open_store(postgres_server, schema=schemas[0]) as other:
        waiting = before_the_last_look(monkeypatch, one.migrate)
        other.migration_plan()
        assert waiting == []
        assert other.migration_plan() == []
