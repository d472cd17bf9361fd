"""Which store a command works on, and what it says when that store is not as it should be: `migrate`, `doctor`."""

from datetime import timedelta

import pytest

from headgate.core.states import State
from headgate.environment import utc_now
from headgate.store.store import open_store
from lab.postgres import Postgres
from tests.factories import TYPES, lose, put, sql, submit, worker
from tests.schedules import online
from tests.store.earlier import copy_into_earlier, make_earlier

LOOKING = [["list"], ["show", "1"], ["why", "1"], ["cancel", "1"], ["lanes"], ["purge"], ["submit", "plain"],
           ["schedules"], ["schedules", "trigger", "1"]]  # fmt: skip


@pytest.mark.parametrize("words", LOOKING)
def test_a_command_that_looks_or_steers_makes_no_store(folder, run, words):
    answer = run(*words)
    assert answer.code == 4
    assert answer.err.startswith("error: the store headgate.db does not exist")
    assert [file.name for file in folder.iterdir() if "headgate.db" in file.name] == []


def test_options_of_a_group_hold_for_its_commands(folder, run):
    run("migrate", "--url", "sqlite:///other.db")
    assert run("limits", "--url", "sqlite:///other.db", "set", "key:a", "--rate", "1", "--burst", "2").code == 0
    assert run("keys", "--url", "sqlite:///other.db", "--json", "create", "ops", "--role", "read").json["name"] == "ops"
    assert not (folder / "headgate.db").exists()


def test_the_flag_goes_over_the_environment_and_that_over_the_file(folder, run, monkeypatch):
    """Spec: C12"""
    (folder / "headgate.toml").write_text('url = "sqlite:///file.db"\n')
    run("migrate")
    monkeypatch.setenv("HEADGATE_URL", "sqlite:///environment.db")
    run("migrate")
    run("migrate", "--url", "sqlite:///flag.db")
    assert sorted(file.name for file in folder.glob("*.db")) == ["environment.db", "file.db", "flag.db"]


def test_migrate_shows_its_plan_takes_it_and_then_has_nothing_to_do(run):
    """Spec: C12"""
    planned = run("migrate", "--plan", "--json").json["planned"]
    assert "CREATE TABLE" in run("migrate", "--plan").out
    assert run("migrate").out == "".join(f"applied {name}\n" for name in planned)
    assert run("migrate").out == "up to date\n"
    assert run("migrate", "--json").json == {"applied": []}


def test_a_server_whose_schema_is_behind_is_left_to_its_owner(run):
    """Spec: C12"""
    with Postgres() as server:
        answer = run("list", "--url", server.url)
        assert answer.code == 4
        assert "run `headgate migrate` first" in answer.err
        checks = {
            check["name"]: check["state"] for check in run("doctor", "--url", server.url, "--json").json["checks"]
        }
        assert checks["schema"] == "fail"
        assert run("migrate", "--url", server.url).code == 0
        assert run("list", "--url", server.url).code == 0


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("mysql://somewhere", 2, "begin with sqlite:// or postgresql://"),
        ("postgresql://nobody@127.0.0.1:1/nothing", 4, "the store did not answer: connection"),
        ("sqlite:///no/such/folder/x.db", 4, "does not exist"),
        ("sqlite:///shop.py", 4, "the store shop.py cannot be opened"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_clear_line(run, url, code, said):
    answer = run("list", "--url", url)
    assert answer.code == code
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_table_that_is_not_ours_in_the_way_is_one_clear_line(folder, run):
    """Spec: X13"""
    url = f"sqlite:///{folder}/app.db"
    sql(url, "CREATE TABLE headgate_task (id integer)")
    answer = run("migrate", "--url", url)
    assert answer.code == 4
    assert answer.err == (
        "error: the database has a headgate_task that is not Headgate's: rename it, or use another file\n"
    )


def test_every_command_takes_the_schema_from_the_settings(run, hostile, schemas, monkeypatch):
    """Spec: X13, C12"""
    monkeypatch.setenv("HEADGATE_SCHEMA", schemas[0])
    monkeypatch.setenv("HEADGATE_URL", hostile)
    assert "run `headgate migrate` first" in run("list").err
    assert run("migrate").code == 0
    with open_store(hostile, schema=schemas[0]) as store:
        store.types.put(TYPES[0])
    assert run("submit", "plain").code == 0
    assert "plain" in run("list").out
    checks = {check["name"]: check["state"] for check in run("doctor", "--json").json["checks"]}
    assert (checks["store"], checks["schema"]) == ("ok", "ok")
    answer = run("list", "--url", "sqlite:///headgate.db")
    assert (answer.code, len(answer.err.splitlines())) == (4, 1)
    answer = run("migrate", "--url", "sqlite:///headgate.db")
    assert (answer.code, answer.err) == (
        2, "error: a SQLite file has no schema: unset HEADGATE_SCHEMA\n",
    )  # fmt: skip


def test_an_upgrade_while_a_worker_runs_is_refused_in_one_clear_line(folder, run):
    """Spec: X13, C12"""
    today, old = f"sqlite:///{folder}/today.db", f"sqlite:///{folder}/old.db"
    with open_store(today) as store:
        store.migrate()
        worker(store)
    make_earlier(old)
    copy_into_earlier(today, old)
    for command in (["migrate"], ["list"]):
        answer = run(*command, "--url", old)
        assert answer.code == 1
        assert answer.err.startswith("error: a worker is running on this store, and its tables are about to be renamed")
        assert len(answer.err.splitlines()) == 1


def test_a_setting_that_is_wrong_is_bad_input(folder, run):
    (folder / "headgate.toml").write_text("lease_secnods = 3\n")
    answer = run("list")
    assert (answer.code, "did you mean 'lease_seconds'" in answer.err) == (2, True)
    checks = run("doctor", "--json").json["checks"]
    assert [(check["name"], check["state"]) for check in checks] == [("settings", "fail")]


def test_a_setting_of_the_wrong_kind_is_named(run, monkeypatch):
    monkeypatch.setenv("HEADGATE_PORT", "many")
    answer = run("list")
    assert (answer.code, answer.err) == (2, "error: the setting port (HEADGATE_PORT): Expected `int`, got `str`\n")


def told(run):
    answer = run("doctor", "--json")
    return answer.code, {check["name"]: (check["state"], check["found"]) for check in answer.json["checks"]}


def test_doctor_finds_nothing_wrong_where_nothing_is(anywhere, run):
    worker(anywhere)
    submit(anywhere)
    anywhere.statistics.take_sample()
    code, checks = told(run)
    assert {name for name, (state, _) in checks.items() if state != "ok"} == set()
    assert set(checks) == {
        "settings", "store", "version", "clock", "disk", "log", "schema", "workers", "lost", "duties", "queue", "dead",
        "callbacks", "secrets", "schedules", "served", "paused",
    }  # fmt: skip
    assert code == 0
    assert all(line.startswith("ok") for line in run("doctor").out.splitlines())


def test_doctor_warns_of_what_may_stand_still_and_says_what_to_do(folder, run):
    with open_store(f"sqlite:///{folder}/headgate.db", lambda: utc_now() - timedelta(days=2)) as store:
        store.migrate()
        for kind in TYPES:
            store.types.put(kind)
        put(store, State.DEAD)
        put(store, State.RUNNING)
        [holder] = [worker.id for worker in store.workers.all()][-1:]
        lose(store, holder)
        submit(store)
        online(store)
        store.statistics.take_sample()
    code, checks = told(run)
    assert {name for name, (state, _) in checks.items() if state != "ok"} == {
        "workers", "lost", "dead", "duties", "queue", "schedules", "served",
    }  # fmt: skip
    assert code == 0
    advice = {check["name"]: check["advice"] for check in run("doctor", "--json").json["checks"]}
    assert "headgate up" in advice["workers"]
    assert "headgate duties" in advice["duties"]
    assert "headgate why" in advice["queue"]
    assert "headgate dead-letters" in advice["dead"]
    assert "headgate duties" in advice["schedules"]


def test_doctor_fails_where_there_is_no_store(folder, run):
    code, checks = told(run)
    assert (code, checks["store"]) == (1, ("fail", "headgate.db does not exist"))
    answer = run("doctor", "--url", "postgresql://nobody@127.0.0.1:1/nothing")
    assert answer.code == 1
    assert "fail  store" in answer.out
    assert "Connection refused" in answer.out


def test_doctor_tells_of_a_pause_and_of_what_nobody_serves(anywhere, run):
    """Spec: A9"""
    anywhere.workers.register("w", types=["scan"], lease_seconds=60)
    submit(anywhere)
    anywhere.lanes.pause("default")
    _, checks = told(run)
    assert checks["served"] == ("warn", "no worker for plain")
    assert checks["paused"] == ("warn", "lane default is paused")
    anywhere.lanes.pause()
    assert told(run)[1]["paused"] == ("warn", "everything is paused; lane default is paused")
    anywhere.workers.register("all", lease_seconds=60)
    assert told(run)[1]["served"][0] == "ok"


def test_a_file_that_is_behind_is_brought_up_to_date_by_the_command(folder, run):
    """Spec: C12"""
    open_store(f"sqlite:///{folder}/headgate.db").close()
    assert run("list").code == 0
