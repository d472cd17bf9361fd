"""Submits that go to the store together: what becomes of one is no other's fate, and nothing is made twice."""

import asyncio

import psycopg
import pytest

from headgate.api.submits import Submits
from headgate.core.errors import Busy, Unavailable, UnknownType
from headgate.core.task import NewTask, TaskType
from headgate.store.store import open_store

CALLERS = 5
PATIENCE = 8.0  # less than a wait for a lock may take


@pytest.fixture
def known(store):
    store.types.put(TaskType("plain"))
    return store


def together(store, *wishes: NewTask):
    """What each of them is answered, all asked at once."""

    async def ask():
        submits = Submits(store, asyncio.to_thread, asyncio.to_thread)
        return await asyncio.gather(*(submits.submit([new], "me", None) for new in wishes), return_exceptions=True)

    return asyncio.run(ask())


def test_of_submits_that_go_together_one_that_breaks_a_rule_fails_alone(known):
    answers = together(known, NewTask("plain"), NewTask("nobody-knows"), NewTask("plain"))
    assert isinstance(answers[1], UnknownType)
    assert [made[0].new.type for made in (answers[0], answers[2])] == ["plain", "plain"]
    assert len(known.tasks.find().items) == 2


def test_submits_whose_answer_was_lost_are_told_so_and_not_made_again(known, monkeypatch):
    """Spec: D1"""
    write = known.database.write

    def lost(operation, timeout=None):
        write(operation, timeout)
        raise Unavailable("the store did not answer")

    together(known, NewTask("plain"))  # its stream is there
    monkeypatch.setattr(known.database, "write", lost)
    answers = together(known, *[NewTask("plain")] * CALLERS)
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert len(known.tasks.find().items) == 1 + CALLERS


@pytest.fixture
def held(postgres):
    """A store whose unique key `held` is in somebody's open transaction; and that transaction."""
    with open_store(postgres) as store, psycopg.connect(postgres) as rival:
        store.types.put(TaskType("plain"))
        store.types.put(TaskType("keyed", unique_key="{key}"))
        ended = store.tasks.submit(NewTask("plain", unique_key="held"))
        store.tasks.cancel(ended.id)
        rival.execute("UPDATE headgate_task SET status = 'queued', finished_at = NULL WHERE id = %s", [ended.id])
        yield store, rival


@pytest.mark.parametrize("before", [0, 5, 30], ids=lambda count: f"behind {count}")
@pytest.mark.parametrize("waiting", [1, 20], ids=lambda count: f"{count} that wait")
def test_a_submit_that_waits_for_a_lock_keeps_no_other_waiting(held, before, waiting):
    """Whatever it went to the store with, and however many wait for the same."""
    store, rival = held

    async def ask():
        submits = Submits(store, asyncio.to_thread, asyncio.to_thread)

        def submit(key: str | None = None, **more):
            return asyncio.ensure_future(submits.submit([NewTask("plain", unique_key=key, **more)], "me", None))

        others = [submit(f"before {number}") for number in range(before)]
        stuck = [submit("held") for _ in range(waiting)]
        others += [submit(f"behind {number}") for number in range(30)]
        others += [submit() for _ in range(30)]
        others += [submit(mutex=f"m {number}") for number in range(10)]
        others.append(asyncio.ensure_future(submits.submit([NewTask("plain")], "me", "once")))
        keyed = NewTask("keyed", ext='{"key": "of its type"}')
        others.append(asyncio.ensure_future(submits.submit([keyed], "me", None)))
        async with asyncio.timeout(PATIENCE):
            made = await asyncio.gather(*others)
            assert not any(each.done() for each in stuck)
            rival.rollback()
            return made, await asyncio.gather(*stuck)

    made, answers = asyncio.run(ask())
    assert all(answer[0].done.created for answer in made)
    assert len({answer[0].done.id for answer in made}) == len(made)
    assert [answer[0].done.created for answer in answers] == [True] + [False] * (waiting - 1)
    assert len({answer[0].done.id for answer in answers}) == 1


@pytest.fixture
def held_keys(postgres):
    """A store whose unique keys `0` to `9` are in one open transaction and `last` in another; and both transactions."""
    with open_store(postgres) as store, psycopg.connect(postgres) as many, psycopg.connect(postgres) as last:
        store.types.put(TaskType("plain"))
        for key, rival in [*((str(number), many) for number in range(10)), ("last", last)]:
            ended = store.tasks.submit(NewTask("plain", unique_key=key))
            store.tasks.cancel(ended.id)
            rival.execute("UPDATE headgate_task SET status = 'queued', finished_at = NULL WHERE id = %s", [ended.id])
        yield store, many, last


@pytest.mark.parametrize("repeatable", [True, False], ids=["with idempotency keys", "without"])
def test_however_many_submits_wait_for_locks_one_whose_lock_is_free_goes_past_them(held_keys, repeatable):
    """Spec: D1"""
    store, many, last = held_keys

    async def ask():
        submits = Submits(store, asyncio.to_thread, asyncio.to_thread)

        def submit(key: str | None, once: str | None):
            return asyncio.ensure_future(submits.submit([NewTask("plain", unique_key=key)], "me", once))

        stuck = [submit(str(number), f"once {number}" if repeatable else None) for number in range(10)]
        behind = submit("last", "once last" if repeatable else None)
        async with asyncio.timeout(PATIENCE):
            free = [submit(None, "once"), submit("free", "once more"), submit("as free", None), submit(None, None)]
            made = await asyncio.gather(*free)
            assert not behind.done()
            last.rollback()
            made.append(await behind)
            assert not any(each.done() for each in stuck)
            many.rollback()
            return made + await asyncio.gather(*stuck)

    answers = asyncio.run(ask())
    assert all(answer[0].done.created for answer in answers)
    assert len({answer[0].done.id for answer in answers}) == len(answers)


def test_a_submit_that_waited_too_long_for_a_lock_is_told_so_and_makes_nothing(held, monkeypatch):
    monkeypatch.setattr("headgate.api.submits.MOST_WAIT_SECONDS", 0.2)
    store, rival = held

    async def ask():
        submits = Submits(store, asyncio.to_thread, asyncio.to_thread)
        wish = NewTask("plain", unique_key="held")
        with pytest.raises(Busy):
            await submits.submit([wish], "me", "once")
        rival.rollback()
        [again] = await submits.submit([wish], "me", "once")
        return again

    assert asyncio.run(ask()).done.created


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"ext": {"a": [1, 2.5, None, "ä"]}, "name": "N", "priority": -3, "creator": 7, "correlation_id": "c"},
        {"lane": "l", "category": "c", "rate_key": "k", "agent_id": "a", "on_child_failure": "cancel"},
        {"delay_seconds": 60, "max_error_count": 2, "timeout_seconds": 30},
        {"start_time": "2001-02-03T04:05:06.789+02:00"},
        {"start_time": "2101-02-03T04:05:06Z"},
        {"mutex": "m"},
        {"unique_key": "u"},
    ],
    ids=lambda asked: ", ".join(asked) or "nothing",
)
def test_the_answer_to_a_submit_is_the_task_as_it_is_then_looked_up(client, store, asked):
    """Spec: B1. Though it need not be read for that."""
    store.types.put(TaskType("of a lane", category="of the type", lane="of the type"))
    parent = store.tasks.submit(NewTask("plain", delay_seconds=10**6)).id
    one = client.post("/api/tasks", json={"type": "of a lane", **asked}).json()
    children = [{"type": type_code, "parent_id": parent, **asked} for type_code in ("plain", "manual")]
    many = client.post("/api/tasks/bulk", json={"tasks": children}).json()["tasks"]
    for made in (one, *many):
        assert made.pop("created") is True
        assert made == client.get(f"/api/tasks/{made['id']}").json()


def test_however_much_one_tenant_submits_another_waits_for_one_batch_of_it(known):
    """Spec: X12"""

    async def ask():
        submits = Submits(known, asyncio.to_thread, asyncio.to_thread)
        of_many_keys = [submits.submit([NewTask("plain", tenant_id=1)], f"key {each}", None) for each in range(CALLERS)]
        return await asyncio.gather(*of_many_keys, submits.submit([NewTask("plain", tenant_id=2)], "another", None))

    *others, another = asyncio.run(ask())
    assert sorted(made[0].done.id for made in [*others, another]).index(another[0].done.id) == 1
