"""Types: kept as they were put, edited with effect at once, a person's edit before a program's registration."""

import pytest

from headgate.core.errors import NotFound, Unavailable, UnknownType
from headgate.core.machine import Raised, Returned
from headgate.core.retry import exponential, fixed, never, sequence
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.catalog.streams import add_streams, digest_of
from headgate.store.db.statement import Statement
from headgate.store.store import open_store
from tests.factories import running, settle, sql, start, submit, together

KINDS = [
    TaskType("a"),
    TaskType("b", "a name", "cat", "lane", ("disk-writer", "net"), need_manual=True, unknown_errors="fail"),
    TaskType("c", retry=fixed(2.5, retries=3), timeout_seconds=0.1),
    TaskType("d", retry=sequence([60, 120, 240]), timeout_seconds=1800),
    TaskType("e", retry=exponential(5, factor=3, cap=60, jitter=0.25, retries=7)),
    TaskType("f", retry=never, callback={"success": {"url": 'https://x/?a=1&b="2"', "method": "PUT"}, "error": {}}),
    TaskType('类型 "g" \\ {h}', '名字 \\ "', "类, 别"),
]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.code for kind in KINDS])
def test_a_type_is_given_back_as_it_was_put(store, url, clock, kind):
    """Spec: B5"""
    store.types.put(kind)
    with open_store(url, clock) as other:
        assert store.types.by_code()[kind.code] == other.types.by_code()[kind.code] == kind


@pytest.mark.parametrize("seconds", [1, 7, 29, 35, 57.1, 113, 199, 3599, 86399.9])
def test_a_timeout_is_kept_to_the_second_it_was_given_in(store, seconds):
    """Spec: B5"""
    store.types.put(TaskType("timed", timeout_seconds=seconds))
    assert store.types.by_code()["timed"].timeout_seconds == seconds


def test_a_registration_adds_the_lanes_and_resources_it_names(store):
    """Spec: A11"""
    store.resources.set("net", 4)
    store.types.put(TaskType("fetch", lane="far", uses=("net", "gpu")))
    assert "far" in {room.name for room in store.lanes.all()}
    assert {room.name: room.capacity for room in store.resources.all()} == {"disk-writer": 1, "gpu": 1, "net": 4}


def test_a_type_code_is_unique_and_put_again_it_is_replaced(store):
    """Spec: B5"""
    store.types.put(TaskType("a", "one"))
    store.types.put(TaskType("a", "two"))
    assert store.types.by_code()["a"].name == "two"


def test_what_a_person_edited_no_registration_overwrites_but_another_edit_does(store, url, clock):
    """Spec: B5"""
    store.types.put(TaskType("a", "registered"))
    store.types.put(TaskType("a", "edited"), edited=True, actor="user:1")
    with open_store(url, clock) as restarted:
        restarted.types.put(TaskType("a", "registered"))
        assert restarted.types.by_code()["a"].name == "edited"
    store.types.put(TaskType("a", "edited again"), edited=True)
    assert store.types.by_code()["a"].name == "edited again"


@pytest.mark.parametrize("by", ["this process", "another process"])
def test_an_edit_is_effective_at_once_for_waiting_and_running_tasks_too(store, url, clock, by):
    """Spec: B5"""
    execution = running(store)
    submit(store)
    with open_store(url, clock) as other:
        editor = store if by == "this process" else other
        editor.types.put(TaskType("plain", timeout_seconds=7, callback={"success": {}}), edited=True)
    assert settle(store, execution, Returned()) is State.NOTIFYING
    [waiting] = start(store)
    assert (waiting.executing_deadline - clock()).total_seconds() == 7


def test_a_type_that_moves_to_another_lane_takes_new_tasks_along(store):
    """Spec: B5"""
    there = submit(store)
    store.types.put(TaskType("plain", lane="far"))
    assert submit(store).lane == "far"
    assert store.tasks.get(there.id) == there


def test_a_removed_type_takes_on_nothing_and_what_is_there_still_runs(store):
    """Spec: B5"""
    submit(store, "manual")
    store.types.remove("manual")
    with pytest.raises(UnknownType):
        store.tasks.submit(NewTask("manual"))
    [execution] = start(store)
    assert settle(store, execution, Raised("no")) is State.FAILED
    with pytest.raises(NotFound):
        store.types.remove("manual")


def test_a_type_removed_by_another_process_is_not_taken_on_a_second_later(store, url, clock):
    """Spec: B5"""
    with open_store(url, clock) as other:
        other.tasks.submit(NewTask("manual"))
        store.types.remove("manual")
        clock.advance(1)
        with pytest.raises(UnknownType):
            other.tasks.submit(NewTask("manual"))


def test_a_type_put_by_many_at_once_is_there_once(store, url, clock):
    """Spec: B5"""
    with open_store(url, clock) as other:
        results = together(*[
            lambda s=s, n=n: s.types.put(TaskType("same", lane=f"l{n}", uses=(f"r{n % 3}",)))
            for n, s in enumerate((store, other) * 4)
        ])  # fmt: skip
    assert results == [None] * 8
    assert [code for code in store.types.by_code() if code == "same"] == ["same"]


def test_tasks_of_every_combination_can_be_submitted_at_once_by_many(store, url, clock):
    with open_store(url, clock) as other:
        wishes = [NewTask("plain", tenant_id=n % 3, lane=f"l{n % 5}", rate_key=f"k{n % 2}") for n in range(30)]
        made = together(*[lambda s=s: s.tasks.submit_many(wishes) for s in (store, other) * 3])
    assert sum(len(part) for part in made) == 180
    assert [limit.name for limit in store.rate_limits.all()] == ["key:*"]
    buckets = store.database.read(lambda db: db.rows(Statement("SELECT tenant_id FROM headgate_rate_limit")))
    assert sorted(tenant_id for (tenant_id,) in buckets if tenant_id is not None) == [0, 0, 1, 1, 2, 2]


FAR = (1, "far", "plain", "", "", "")


def test_a_task_of_a_stream_that_came_about_behind_our_back_is_refused_with_a_reason(store, url):
    """Spec: X4. As after a restore under a running process: ids that it knows are given to others."""
    submit(store)
    given = "OVERRIDING SYSTEM VALUE" if store.database.dialect == "postgres" else ""
    sql(
        url,
        f"""
        INSERT INTO headgate_stream (id, tenant_id, lane, type, category, rate_key, agent_id, digest) {given}
        VALUES (0, 1, 'far', 'plain', '', '', '', '{digest_of(FAR)}')
        """,
    )
    with pytest.raises(Unavailable, match="restored"):
        store.tasks.submit(NewTask("plain", tenant_id=1, lane="far"))


def test_the_catalog_is_not_read_in_a_transaction_that_edits_it(store):
    """Spec: X4. What may still be undone is not to be known."""

    def edit_and_read(db):
        add_streams(db, [FAR])
        store.catalog.fresh(db)

    with pytest.raises(AssertionError):
        store.database.write(edit_and_read)
    assert FAR not in store.catalog.ids
    assert submit(store, tenant_id=1, lane="far").lane == "far"


def test_whoever_learns_of_a_stream_knows_it_whole_while_others_read_the_catalog_again(store, url, clock):

    def learn():
        seen = []
        for _ in range(30):
            store.catalog.reload()
            ids = store.catalog.ids
            seen.append(all(store.catalog.streams[stream_id].id == stream_id for stream_id in ids.values()))
        return all(seen)

    with open_store(url, clock) as other:
        make = [lambda n=n: bool(other.tasks.submit(NewTask("plain", lane=f"l{n}"))) for n in range(8)]
        assert together(*[learn] * 4, *make) == [True] * 12
    store.catalog.reload()
    assert {lane for _, lane, *_ in store.catalog.ids} == {f"l{n}" for n in range(8)}
