"""Whatever is looked for among dead tasks, which nothing removes, a page reads a bounded number of them."""

from typing import Any

import pytest

from headgate.core.states import State
from headgate.store.db.statement import Statement
from headgate.store.store import open_store
from headgate.store.tasks.dead_letters import _CONDITIONS, MOST_READ, DeadLetterFilter
from lab.crowd import multiply
from tests.factories import TYPES, Clock, put

MANY = 20_000
# Each is met once to see how far a page goes, and once to see whether it is asked for.
ENTRIES = 2 * MOST_READ + 500
STEPS = 60 * MOST_READ
WANTED: dict[str, Any] = {
    "tenant_id": 9, "type": "none", "lane": "none", "category": "none", "creator": 9, "older_than": 10**6,
    "younger_than": 10**6, "error": "none of them",
}  # fmt: skip
FILTERS: list[dict[str, Any]] = [{}, *({name: value} for name, value in WANTED.items()), WANTED]


def costs(store, spent):
    """What a page of each list cost: its first, its second, and one far back."""
    found = {}
    for filters in FILTERS:
        second = store.dead_letters.find(DeadLetterFilter(**filters)).next_cursor
        for cursor in {None, second, MOST_READ}:
            before = spent()
            store.dead_letters.find(DeadLetterFilter(**filters), cursor=cursor)
            found[f"below {cursor} of {filters}"] = spent() - before
    return found


def above(limit, found):
    return {name: cost for name, cost in found.items() if cost > limit}


def test_every_thing_that_can_be_looked_for_is_looked_for():
    """Spec: X4"""
    assert WANTED.keys() == _CONDITIONS.keys()


def test_a_page_reads_a_bounded_number_of_dead_tasks_on_postgres(deep):
    """Spec: D12, X4"""
    deep.remember(put(deep.store, State.DEAD).id)

    def spent():
        read = deep._read()
        return read.entries + read.scanned

    assert above(ENTRIES, costs(deep.store, spent)) == {}
    deep.load(MANY)
    assert above(ENTRIES, costs(deep.store, spent)) == {}, "planned for few"
    deep.open_again()
    assert above(ENTRIES, costs(deep.store, spent)) == {}, "planned for many that nobody has counted"
    deep.analyze()
    assert above(ENTRIES, costs(deep.store, spent)) == {}, "planned for many"


@pytest.mark.parametrize("analyzed", [False, True], ids=["not counted", "counted"])
def test_a_page_takes_a_bounded_number_of_steps_among_dead_tasks_on_sqlite(tmp_path, analyzed):
    """Spec: D12, X4"""
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url, Clock()) as store:
        store.migrate()
        for task_type in TYPES:
            store.types.put(task_type)
        letter = put(store, State.DEAD)
        if analyzed:
            store.database.write(lambda db: db.send(Statement("ANALYZE")))
        multiply(url, MANY, after=letter.id - 1)
        assert len(store.dead_letters.find().items) == 50
        reader: Any = store.database._idle[0]  # type: ignore[attr-defined]
        steps = 0

        def tick():
            nonlocal steps
            steps += 100

        reader.set_progress_handler(tick, 100)
        assert above(STEPS, costs(store, lambda: steps)) == {}
