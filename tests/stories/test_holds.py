"""Handlers of many processes that hold one resource: never more of them than it has room for, whoever is killed."""

from headgate.core.states import State
from tests.stories import bodies
from tests.stories.crew import crew, until
from tests.stories.ledger import Entry

CAPACITY = 2


def most_inside(entries: list[Entry]) -> int:
    """How many were inside at once, at most; whoever dies inside is out."""
    inside: set[str] = set()
    most = 0
    for entry in sorted(entries):
        if entry.what == "in":
            inside.add(entry.exec_id)
            most = max(most, len(inside))
        else:
            inside.discard(entry.exec_id)
    return most


def test_no_more_processes_hold_and_use_a_resource_than_it_has_room_and_a_killed_one_s_is_free_with_its_lease(
    url, tmp_path
):
    """Spec: C3, B3"""
    app = bodies.bound_to(url)
    app.store.resources.set("press", CAPACITY)
    with crew(url, tmp_path) as members:
        victim = members.start()
        kept = bodies.keep.submit_sync()
        until(lambda: members.lines_of(kept.id, "in"), "it is held")
        for _ in range(2):
            members.start()
        tasks = [bodies.share.submit_sync(4) for _ in range(9)] + [bodies.print_all.submit_sync() for _ in range(9)]
        until(lambda: len(members.ledger.entries("out")) > 5, "some were inside")
        members.kill(victim)
        ended = [kept, *tasks]
        until(lambda: all(app.store.tasks.get(task.id).status is State.SUCCEEDED for task in ended), "all end")
        entries = members.ledger.entries("in", "out", "died")
    assert most_inside(entries) == CAPACITY
    assert app.store.holds.uses()["press"].line == ()
