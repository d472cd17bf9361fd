"""Acts are found along their own index."""

import sqlite3
from contextlib import closing

import psycopg

from headgate.store.db.postgres import _SET_ONCE
from headgate.store.events.acts import BACKWARDS
from headgate.store.store import open_store
from tests.plans.test_plans import nodes
from tests.plans.test_sqlite import plan_of as sqlite_plan_of

VALUES = {"at": "now()", "id": "9", "since": "now() - interval '1 day'", "limit": "500", "now": "NULL"}


def test_acts_are_found_by_their_own_index(postgres, tmp_path):
    """Spec: A12"""
    with psycopg.connect(postgres, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(_SET_ONCE)
        connection.execute(f"PREPARE planned AS {BACKWARDS.postgres}")
        values = ", ".join(VALUES[name] for name in BACKWARDS.order)
        [[plan]] = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE planned({values})").fetchall()
    used = {node["Index Name"] for node in nodes(plan[0]["Plan"]) if "Index Name" in node}
    assert used
    assert all(name.endswith("_at_id_idx") for name in used), used
    assert not any(node["Node Type"] == "Sort" for node in nodes(plan[0]["Plan"]))
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        store.migrate()
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        found = sqlite_plan_of(connection, BACKWARDS.sqlite)
    assert any(line.startswith("SEARCH") and "headgate_task_event_act" in line for line in found), found
    assert not any("TEMP B-TREE" in line for line in found), found
