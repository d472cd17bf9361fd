"""The pack of the guide, through the public door alone: its table, handler, lane, settings, routes and event field."""

import sqlite3
import time
from urllib.parse import quote

import psycopg
import pytest

from headgate.core.keys import Role
from headgate.store.store import open_store
from tests.docs.guides import Guide
from tests.events.listening import Listener
from tests.packs.conftest import PATIENCE, serving, started

SHOP = """
import sys
import headgate

app = headgate.Headgate()

@app.task
async def loaded() -> list[str]:
    return sorted(sys.modules)
"""


IN_A_SCHEMA = """
import headgate
from headgate.settings import Settings

app = headgate.Headgate(settings=Settings(url={url!r}, schema={schema!r}), packs=["parcels"])
"""


def where(server, number, key=""):
    """Where a parcel is, as soon as somebody has looked."""
    end = time.monotonic() + PATIENCE
    while True:
        status, found = server.ask("GET", "/api/parcels", key=key)
        assert status == 200, found
        place = {parcel["number"]: parcel["place"] for parcel in found["items"]}.get(number)
        if place is not None:
            return place
        assert time.monotonic() < end, found
        time.sleep(0.05)


def test_the_guide_shows_what_happens(environment, tmp_path):
    """Spec: X11"""
    assert Guide("packs.md").tried(tmp_path) >= 8


def test_a_pack_of_somebody_else_runs_on_what_the_door_exports(place, environment):
    """Spec: X11"""
    environment.setenv("PARCELS_DEPOT", "Porto")
    environment.setenv("PARCELS_CONCURRENCY", "2")
    with serving("up", "--pack", "parcels") as server:
        with Listener(server.address, "/api/parcels/B/events") as listener:
            for number in ("A", "B"):
                assert server.ask("POST", "/api/parcels", {"number": number})[0] == 201
            heard = listener.until(lambda event: event["to"] == "succeeded")
        assert where(server, "B") == "Porto"
        assert len({event["task_id"] for event in heard}) == 1
        assert {event["type"] for event in heard} == {"locate_parcel"}
        stats = server.ask("GET", "/api/queue/stats")[1]
        assert stats["capacity"] == {"default": None, "parcels": 2}
        assert stats["counts_by_channel"] == {"queued_parcels": 0}
        assert server.ask("POST", "/api/parcels", {"number": "C", "colour": "red"})[0] == 422
        paths = server.ask("GET", "/api/openapi.json")[1]["paths"]
        roles = {method: operation["x-role"] for method, operation in paths["/api/parcels"].items()}
        assert roles == {"get": "read", "post": "submit"}
        assert "/api/requests" not in paths


def test_roles_and_tenants_hold_for_the_routes_of_a_pack(place):
    """Spec: X11, B11"""
    with serving("up", "--pack", "parcels") as server:
        with open_store(place) as store:
            keys = {
                (tenant, role): store.keys.add(f"{role.word} {tenant}", role, tenant_id=tenant)[1]
                for tenant in (7, 8)
                for role in (Role.READ, Role.SUBMIT)
            }
        assert server.ask("POST", "/api/parcels", {"number": "A"}, keys[7, Role.READ])[0] == 403
        assert server.ask("POST", "/api/parcels", {"number": "A"})[0] == 401
        assert server.ask("POST", "/api/parcels", {"number": "A"}, keys[7, Role.SUBMIT])[0] == 201
        assert where(server, "A", keys[7, Role.READ]) == "Lisbon"
        assert server.ask("GET", "/api/parcels", key=keys[8, Role.READ]) == (200, {"items": []})


def test_a_worker_with_a_pack_loads_no_web_framework(place, run, tmp_path):
    """Spec: X11"""
    (tmp_path / "shop.py").write_text(SHOP)
    run("migrate", "--pack", "parcels", "--pack", "media")
    with started("work", "shop", "--pack", "parcels", "--pack", "media", until=" serves .*, loaded, locate_parcel, "):
        task_id = run("submit", "-m", "shop", "loaded", "--wait", "30", "--json").json["id"]
        modules = run("show", str(task_id), "--json").json["result"]
    assert {"parcels.handlers", "headgate.packs.media.handlers"} <= set(modules)
    assert [name for name in modules if name.startswith(("starlette", "uvicorn", "headgate.api"))] == []
    assert {"headgate.packs.web", "parcels.routes", "headgate.packs.media.requests"} & set(modules) == set()


def test_a_worker_executes_the_tasks_of_a_pack_alone(place, run, environment):
    """Spec: X11"""
    environment.setenv("HEADGATE_PACKS", "parcels")
    assert run("migrate").code == 0
    with started("work", "--processes", "2", until=" serves locate_parcel"):
        submitted = run("submit", "locate_parcel", "number=A", "--wait", "30", "--json").json
    assert (submitted["status"], submitted["result"]) == ("succeeded", "Lisbon")


def test_what_a_pack_lacks_is_said_in_one_line(place, run):
    """Spec: X11"""
    assert run("work", "--pack", "parcel").err == (
        "error: no pack 'parcel'; installed are media, parcels; did you mean 'parcels'?\n"
    )
    assert "name a module" in run("work").err


@pytest.mark.parametrize(("variable", "value"), [("PARCELS_DAYS", "three"), ("PARCELS_CONCURRENCY", "-1")])
def test_a_setting_that_cannot_be_right_is_refused_by_its_name_and_nothing_is_made(
    place, run, environment, variable, value
):
    """Spec: X11"""
    environment.setenv(variable, value)
    up = run("up", "--pack", "parcels")
    assert up.code == 2
    assert variable in up.err
    with open_store(place) as store:
        assert store.types.by_code() == {}
        assert [lane.name for lane in store.lanes.all()] == ["default"]


def test_a_restart_leaves_to_people_what_they_changed(place, run, environment):
    """Spec: X11"""
    environment.setenv("HEADGATE_PACKS", "parcels")
    with serving("up") as server:
        assert server.ask("POST", "/api/queue/capacity?parcels=9")[0] == 200
        assert run("types", "set", "locate_parcel", "timeout=5").code == 0
        server.ask("POST", "/api/queue/pause?scope=parcels")
    environment.setenv("PARCELS_CONCURRENCY", "2")
    with serving("serve") as server:
        stats = server.ask("GET", "/api/queue/stats")[1]
        assert (stats["capacity"]["parcels"], stats["paused"]["parcels"]) == (9, True)
        assert run("types", "show", "locate_parcel", "--json").json["timeout"] == 5
        assert server.ask("POST", "/api/queue/resume?scope=all")[1]["paused"]["parcels"] is False
        assert run("lanes", "set", "parcels", "--capacity", "none").code == 0
    with serving("serve") as server:
        assert server.ask("GET", "/api/queue/stats")[1]["capacity"]["parcels"] is None


def test_a_program_without_the_pack_runs_on_the_same_store(place, run):
    """Spec: X11"""
    with serving("up", "--pack", "parcels") as server:
        server.ask("POST", "/api/parcels", {"number": "A"})
        assert where(server, "A") == "Lisbon"
    assert run("migrate").out == "up to date\n"
    with serving("up") as server:
        assert server.ask("GET", "/api/parcels")[0] == 404
        assert server.ask("GET", "/api/queue/stats")[1]["counts_by_channel"] == {}
        assert [task["type"] for task in server.ask("GET", "/api/tasks")[1]["items"]] == ["locate_parcel"]
    with serving("up", "--pack", "parcels") as server:
        assert where(server, "A") == "Lisbon"


def test_the_owner_of_a_server_makes_the_tables(postgres_server, run, schemas, environment):
    """Spec: X11, X13"""
    environment.setenv("HEADGATE_URL", postgres_server)
    environment.setenv("HEADGATE_SCHEMA", schemas[0])
    run("migrate")
    refused = run("work", "--pack", "parcels")
    assert "run `headgate migrate --pack parcels` first" in refused.err
    plan = run("migrate", "--plan", "--pack", "parcels").out
    assert "would apply the ledger of packs" in plan
    assert "would apply parcels/0001_parcels.sql" in plan
    assert run("migrate", "--pack", "parcels").out == "applied the ledger of packs\napplied parcels/0001_parcels.sql\n"
    assert run("migrate", "--pack", "parcels").out == "up to date\n"
    with started("work", "--pack", "parcels", until=" serves locate_parcel"):
        assert run("submit", "locate_parcel", "number=A", "--wait", "30").code == 0


def test_a_handler_in_its_own_process_works_in_the_schema_that_the_program_names(
    postgres_server, run, schemas, environment, tmp_path
):
    """Spec: X11, X13"""
    url = f"{postgres_server}?options={quote(f'-csearch_path={schemas[1]}')}"
    environment.setenv("HEADGATE_URL", url)
    places = "SELECT place FROM {}.headgate_parcels_parcel"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for schema in schemas:
            environment.setenv("HEADGATE_SCHEMA", schema)
            assert run("migrate", "--pack", "parcels").code == 0
            connection.execute(f"""INSERT INTO "{schema}".headgate_parcels_parcel VALUES (0, 'A', NULL)""")
        environment.delenv("HEADGATE_SCHEMA")
        (tmp_path / "shop.py").write_text(IN_A_SCHEMA.format(url=url, schema=schemas[0]))
        with started("work", "shop", until=" serves locate_parcel"):
            environment.setenv("HEADGATE_SCHEMA", schemas[0])
            assert run("submit", "locate_parcel", "number=A", "--wait", "30").code == 0
        assert [connection.execute(places.format(f'"{schema}"')).fetchall() for schema in schemas] == [
            [("Lisbon",)],
            [(None,)],
        ]


def test_a_store_that_a_newer_pack_has_been_at_is_refused(run, environment, tmp_path):
    """Spec: X11"""
    environment.setenv("HEADGATE_PACKS", "parcels")
    run("migrate")
    with sqlite3.connect(tmp_path / "headgate.db") as file:
        file.execute("INSERT INTO headgate_pack_ledger VALUES ('parcels', 'parcels/0002_more.sql', 'x', 0)")
    assert "pack parcels is newer than this program: it has migration parcels/0002_more.sql" in run("migrate").err
    with sqlite3.connect(tmp_path / "headgate.db") as file:
        file.execute("DELETE FROM headgate_pack_ledger WHERE item = 'parcels/0002_more.sql'")
        file.execute("UPDATE headgate_pack_ledger SET checksum = 'x' WHERE checksum <> ''")
    assert "migration parcels/0001_parcels.sql in pack parcels is not the one" in run("migrate").err
    environment.delenv("HEADGATE_PACKS")
    assert run("migrate").out == "up to date\n"


def test_a_table_that_the_pack_did_not_make_is_left_alone(run, tmp_path):
    """Spec: X11, X13"""
    run("migrate")
    with sqlite3.connect(tmp_path / "headgate.db") as file:
        file.execute("CREATE TABLE headgate_parcels_parcel (theirs integer)")
    refused = run("migrate", "--pack", "parcels")
    assert "the database has a headgate_parcels_parcel that pack parcels did not make" in refused.err
