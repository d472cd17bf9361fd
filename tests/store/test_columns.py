"""The columns of a task are written down once, and that is what the databases have."""

import re
import sqlite3

import psycopg
import pytest

from headgate.core.machine import Change, birth
from headgate.core.task import Execution, NewTask, Task
from headgate.store.db.columns import CHANGED, CLAIMED, RECORD, SUBMITTED, TASK, row_of, rows_of
from headgate.store.db.indexes import HELD_STATES, LINE_STATES, TIMED_STATES
from headgate.store.db.migrate import migrations
from headgate.store.tasks.rows import task_of
from headgate.store.tasks.unique import OPEN

_SQLITE_TYPES = {"bigint": "integer", "int": "integer", "bool": "integer", "timestamptz": "integer", "float8": "real",
                 "text": "text", "uuid": "text"}  # fmt: skip
_POSTGRES_TYPES = {"bigint": "bigint", "int": "integer", "bool": "boolean", "timestamptz": "timestamp with time zone",
                   "float8": "double precision", "text": "text", "uuid": "uuid"}  # fmt: skip
_OF_TABLE = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
 WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""


@pytest.mark.parametrize("table", ["headgate_task", "headgate_task_his"])
def test_both_tables_of_tasks_have_the_columns_that_are_written_down(table, url):
    """Spec: B1, B4"""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            found = dict(connection.execute("SELECT name, lower(type) FROM pragma_table_info(?)", [table]))
        names = _SQLITE_TYPES
    else:
        with psycopg.connect(url) as postgres:
            found = dict(postgres.execute(_OF_TABLE, [table]).fetchall())
        names = _POSTGRES_TYPES
    assert found == {column.name: names[column.type] for column in TASK.values()}


def test_what_a_caller_an_executor_and_a_change_say_are_columns():
    """Spec: B1"""
    no_columns = {"start_time", "delay_seconds", "unique_seconds", "debounce_seconds", "debounce_longest_seconds",
                  "debounce_replace"}  # fmt: skip
    assert set(SUBMITTED) == set(NewTask._fields) - no_columns
    assert set(CHANGED) == Change.__dataclass_fields__.keys() - {
        "status", "kind", "delay", "start_time", "callback", "reason",
    }  # fmt: skip
    assert {*SUBMITTED, *CHANGED, *RECORD, *CLAIMED, *Execution._fields} <= TASK.keys()
    assert set(RECORD) == set(Task.__dataclass_fields__)


def test_parameters_become_rows_with_the_types_of_their_columns():
    """Spec: B1"""
    assert rows_of(["id", "ext"], "o") == "unnest(:id::bigint[], :ext::text[]) AS o(id, ext)"
    assert row_of(["id", "ext"], "o") == "(SELECT :id::bigint AS id, :ext::text AS ext) AS o"


def test_a_row_that_lacks_a_column_makes_no_task():
    """Spec: B1"""
    with pytest.raises(ValueError, match="zip"):
        task_of((1, 2, 3))


@pytest.mark.parametrize("delay", [0.0, 60.0])
@pytest.mark.parametrize("mutex", [None, "key"])
@pytest.mark.parametrize("together", [1, 3])
def test_a_task_is_born_in_the_state_that_the_machine_says(store, mutex, delay, together):
    """Spec: A2"""
    made = store.tasks.submit_many([NewTask("plain", mutex=mutex, delay_seconds=delay)] * together)
    expected = birth(mutex, due=not delay)
    born = [store.events.of(task.id)[0].after for task in made]
    assert born == [expected.value] * together


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    ("index", "states"),
    [
        ("headgate_task_held", HELD_STATES),
        ("headgate_task_using", HELD_STATES),
        ("headgate_task_line", LINE_STATES),
        ("headgate_task_timed", TIMED_STATES),
        ("headgate_task_unique", OPEN),
    ],
)
def test_the_states_of_a_partial_index_are_those_of_the_schema(dialect, index, states):
    """Spec: X4"""
    schema = " ".join(" ".join(step.text for step in migrations(dialect)).split())
    defined = re.findall(rf"INDEX {index} ON .*?;", schema)
    assert defined
    assert all(definition.endswith(f"status IN {states};") for definition in defined)
