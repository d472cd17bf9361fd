"""A commit that fails: its caller hears of it, nothing of it stays, and nobody is woken."""

import psycopg
import pytest

from headgate.core.task import NewTask, TaskType
from headgate.settings import Pooler
from headgate.store.store import open_store
from tests.factories import sql
from tests.store.ears import Ears

_REFUSE_AT_THE_COMMIT = (
    """
    CREATE FUNCTION refuse_at_the_commit() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN RAISE EXCEPTION ''not now''; END'
    """,
    """
    CREATE CONSTRAINT TRIGGER refuse_at_the_commit AFTER INSERT ON headgate_task
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_at_the_commit()
    """,
)


@pytest.fixture
def refusing(postgres):
    """A database in which no commit of a new task goes through, until it is told otherwise."""
    with open_store(postgres) as store:
        store.types.put(TaskType("plain"))
    sql(postgres, *_REFUSE_AT_THE_COMMIT)
    yield postgres
    sql(postgres, "DROP FUNCTION IF EXISTS refuse_at_the_commit CASCADE")


@pytest.mark.parametrize("fields", [{}, {"mutex": "key"}], ids=["one exchange", "several"])
@pytest.mark.parametrize("pooler", [Pooler.OFF, Pooler.TRANSACTION])
def test_a_submit_whose_commit_fails_is_not_acknowledged_and_tells_nobody(refusing, fields, pooler):
    """Spec: X4, D1. The statement had succeeded; a transaction of one exchange is committed after its answer."""
    with open_store(refusing) as listening, open_store(refusing, pooler=pooler) as store:
        ears, heard = Ears(store), Ears(listening).listening()
        with pytest.raises(psycopg.errors.RaiseException):
            store.tasks.submit(NewTask("plain", **fields))
        assert ears.silent
        assert sql(refusing, "SELECT count(*) FROM headgate_task") == [(0,)]
        sql(refusing, "DROP FUNCTION refuse_at_the_commit CASCADE")
        made = store.tasks.submit(NewTask("plain", **fields))
        assert [task_id for _, task_id in ears.next_wake().values()] == [made.id]
        if pooler is Pooler.OFF:
            assert [task_id for _, task_id in heard.next_wake().values()] == [made.id]
