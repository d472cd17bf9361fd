"""Behind a real PgBouncer in transaction mode: everything works, and nothing is left on connections others share."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from headgate.core.errors import Invalid
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.settings import Pooler, load
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import open_store
from lab.pgbouncer import PgBouncer
from tests.conftest import own_schema
from tests.store.ears import Ears


@pytest.fixture(scope="module")
def pooler(postgres_server: str) -> Iterator[PgBouncer]:
    with PgBouncer(postgres_server, schema=own_schema(), connections=2) as started:
        yield started


def test_a_pooler_is_found_out_and_tasks_run_behind_it(postgres, pooler):
    """More threads than connections: each transaction may be on another one."""
    with open_store(pooler.url) as store, ThreadPoolExecutor(8) as threads:
        store.types.put(TaskType("plain"))
        made = list(threads.map(lambda _: store.tasks.submit(NewTask("plain")).id, range(40)))
        worker_id = store.workers.register("w")
        claims = threads.map(lambda _: store.claims.take(ClaimRequest(worker_id, 5)).executions, range(8))
        executions = [execution for claimed in claims for execution in claimed]
        executions += store.claims.take(ClaimRequest(worker_id, 40)).executions
        assert sorted(execution.id for execution in executions) == sorted(made)
        ends = store.executions.settle([Outcome(execution, Returned()) for execution in executions])
        assert set(ends) == {State.SUCCEEDED}


def test_nothing_that_we_set_reaches_other_programs_on_the_pooler(postgres, pooler):
    with open_store(pooler.url) as store:
        store.types.put(TaskType("plain"))
        store.wakeups.listen()
        store.tasks.submit(NewTask("plain"))
        store.tasks.find()
        with psycopg.connect(pooler.url, autocommit=True) as other:
            for name in ("enable_seqscan", "enable_hashjoin", "jit", "plan_cache_mode", "synchronous_commit"):
                with psycopg.connect(postgres, autocommit=True) as direct:
                    expected = direct.execute(f"SHOW {name}").fetchone()
                assert other.execute(f"SHOW {name}").fetchone() == expected, name
            assert other.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_without_a_pooler_nothing_changes(postgres):
    """Wake-ups cross processes at once, which takes a LISTEN."""
    with open_store(postgres) as store, open_store(postgres) as listening:
        store.types.put(TaskType("plain"))
        heard = Ears(listening).listening()
        made = store.tasks.submit(NewTask("plain"))
        assert [task_id for _, task_id in heard.next_wake().values()] == [made.id]


def test_a_pooler_can_be_set_and_only_by_its_names(tmp_path):
    assert load({}, folder=tmp_path, environment={}).pooler is Pooler.AUTO
    environment = {"HEADGATE_POOLER": "transaction"}
    assert load({}, folder=tmp_path, environment=environment).pooler is Pooler.TRANSACTION
    with pytest.raises(Invalid, match=r"the setting pooler \(HEADGATE_POOLER\)"):
        load({}, folder=tmp_path, environment={"HEADGATE_POOLER": "session"})
