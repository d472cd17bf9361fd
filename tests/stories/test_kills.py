"""Workers are killed at any moment; nothing is lost, done twice or too much at once.

Ten of them in the suite; HEADGATE_STORY_KILLS=30 is the long story, as `make crash` has it.
"""

import os
from pathlib import Path
from typing import Any

import psutil

from headgate.client import Call, Task
from headgate.core.states import State
from headgate.simulation.checker import check
from headgate.store.reading.lists import Filter
from headgate.task_function import TaskFunction
from tests.stories import bodies
from tests.stories.bodies import bound_to
from tests.stories.crew import Crew, crew, until
from tests.stories.evidence import collected, made, rows

KILLS = int(os.environ.get("HEADGATE_STORY_KILLS", "10"))
TASKS = 2_000 * KILLS // 30
WORKERS = 4
MUTEXES = 50
IN_PROCESSES = 2 * KILLS // 3
CAPACITY = {"narrow": 4, "middling": 6, "wide": 8}
LOST_TOO_OFTEN = 3


def calls(members: Crew, first: int, count: int) -> list[Call[None]]:
    """Short tasks of every kind; one in ten fails at first."""
    made = []
    for number in range(first, first + count):
        function: TaskFunction[..., Any, None] = members.dice.choice(
            [bodies.step, bodies.step, bodies.step_in_a_thread]
        )
        if number % (TASKS // IN_PROCESSES) == 0:
            function = bodies.step_in_a_process
        mutex = f"key {members.dice.randrange(MUTEXES)}" if members.dice.random() < 0.25 else None
        function = function.using(lane=list(CAPACITY)[number % 3], mutex=mutex)
        made.append(function.call(members.dice.uniform(0.001, 0.02), members.dice.random() < 0.1))
    return made


def executions_that_counted(url: str) -> set[str]:
    """Those whose success was taken down."""
    return {str(row[0]) for row in rows(url, "SELECT exec_id FROM headgate_task_event WHERE after = 'succeeded'")}


def test_nothing_is_lost_or_done_twice_while_workers_are_killed_at_any_moment(url: str, tmp_path: Path):
    """Spec: A9, A11, B3"""
    app = bound_to(url)
    for lane, capacity in CAPACITY.items():
        app.store.lanes.set_capacity(lane, capacity)
    with crew(url, tmp_path) as members:
        for _ in range(WORKERS):
            members.start()
        portion = TASKS // KILLS
        submitted: list[Task[None]] = []
        for _ in range(KILLS):
            submitted += app.submit_many_sync(calls(members, len(submitted), portion))
            members.await_starts(members.dice.randrange(portion))
            members.all_alive()
            members.kill(members.by_chance())
            members.start()
        submitted += app.submit_many_sync(calls(members, len(submitted), TASKS - len(submitted)))
        until(lambda: not rows(url, "SELECT 1 FROM headgate_task WHERE finished_at IS NULL LIMIT 1"), "all tasks end")
        members.all_alive()
    ends = {task_id: (status, lost, error) for task_id, status, lost, error in rows(url, ENDS)}
    assert len(ends) == TASKS
    assert check(collected(url, members.ledger, [made([task.id for task in submitted])])) == []
    taken_for_poison = {task_id for task_id, (_, lost, _) in ends.items() if lost == LOST_TOO_OFTEN}
    for task_id, (status, _, error) in ends.items():
        if task_id in taken_for_poison:
            assert (status, "poison" in error) == (State.FAILED, True)
        else:
            assert status == State.SUCCEEDED, (task_id, status, error)
    assert len(taken_for_poison) < TASKS // 20
    the_ledger_agrees(url, members, set(ends) - taken_for_poison)


ENDS = "SELECT id, status, lost_count, coalesce(error_info, '') FROM headgate_task"


def the_ledger_agrees(url: str, members: Crew, succeeded: set[int]) -> None:
    """What the store took down was done, by one execution each."""
    counted = executions_that_counted(url)
    done = [entry for entry in members.ledger.entries("end") if entry.exec_id in counted]
    assert sorted(entry.task_id for entry in done) == sorted(succeeded)


def gone(pid: int) -> bool:
    """Whether nothing runs there; whoever inherited it may not have reaped it yet."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_task_in_a_process_of_its_own_dies_with_its_worker(url: str, tmp_path: Path):
    """Spec: A11"""
    app = bound_to(url)
    with crew(url, tmp_path) as members:
        task = bodies.linger_in_a_process.submit_sync(str(tmp_path / "gate"))
        worker = members.start()
        until(lambda: members.lines_of(task.id, "start"), "it begins")
        [begun] = members.lines_of(task.id, "start")
        assert begun.pid != worker.pid
        members.kill(worker)
        until(lambda: gone(begun.pid), "its process is gone")
        members.start()
        (tmp_path / "gate").touch()
        assert task.wait_sync(60).status is State.SUCCEEDED
    assert task.record_sync().lost_count == 1
    assert app.store.tasks.find(Filter(status=(State.RUNNING,))).items == []


def test_tasks_of_a_killed_worker_whose_deadline_comes_before_the_end_of_its_lease_run_again(url: str, tmp_path: Path):
    """Spec: A6. The proportions of the default settings: a timeout of two thirds of a lease."""
    app, gate = bound_to(url), str(tmp_path / "gate")
    lingering = bodies.linger.using(timeout_seconds=6.0)  # a busy machine takes a while to start a process
    with crew(url, tmp_path, lease=9.0) as members:
        tasks = app.submit_many_sync([lingering.call(gate) for _ in range(20)])
        worker = members.start()
        until(lambda: all(members.lines_of(task.id, "start") for task in tasks), "they begin")
        members.kill(worker)
        members.start()
        (tmp_path / "gate").touch()
        assert {task.wait_sync(60).status for task in tasks} == {State.SUCCEEDED}
    assert {task.record_sync().error_count for task in tasks} == {0}
    assert check(collected(url, members.ledger, [made([task.id for task in tasks])])) == []
