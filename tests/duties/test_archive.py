"""Finished tasks go to history whole, and leave it exactly when they are old enough, once a day."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from headgate.core.errors import Invalid, NotFound
from headgate.core.machine import Returned
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask
from headgate.duties import Archive
from headgate.duties.archive import last_time_at
from headgate.duties.batch_size import BatchSize
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest
from headgate.store.reading.lists import Filter
from headgate.store.tasks.idempotency import Idempotency
from headgate.threads import inline
from tests.duties.turns import changed, settle_down, turn
from tests.factories import START, put, record, running, settle, sql, start, submit, worker

S = State
DAY = 24 * 3600
REMOVED = {S.SUCCEEDED: 7, S.PARTIAL: 7, S.RESOLVED: 7, S.FAILED: 30, S.CANCELLED: 30}


@pytest.fixture
def archive(store, clock):
    return changed(Archive(store, Settings(), inline), clock=clock)


def tables(url):
    return tuple(sql(url, f"SELECT count(*) FROM {table}")[0][0] for table in ("headgate_task", "headgate_task_his"))


def present(store, task_id):
    try:
        store.tasks.get(task_id)
    except NotFound:
        return False
    return True


def retentions(url):
    return [
        json.loads(row[0])
        for row in sql(url, "SELECT detail FROM headgate_task_event WHERE kind = 'retention' ORDER BY id")
    ]


def test_a_finished_task_stays_a_while_and_then_goes_to_history_whole(store, clock, url, archive):
    """Spec: B4"""
    execution = running(store)
    store.executions.add_log(execution.id, execution.exec_id, [("info", "kept")])
    settle(store, execution, Returned('{"bytes":1}'))
    before = record(store, execution.id)
    clock.advance(59)
    assert turn(archive) == 0
    assert tables(url) == (1, 0)
    clock.advance(1)
    assert turn(archive) == 1
    assert tables(url) == (0, 1)
    assert record(store, execution.id) == before


def test_how_long_a_finished_task_stays_can_be_chosen(store, clock, url):
    """Spec: B4"""
    put(store, S.SUCCEEDED)
    settle_down(changed(Archive(store, Settings(), inline), clock=clock, keep_seconds=0))
    assert tables(url) == (0, 1)


def test_nothing_is_lost_on_the_way_to_history(store, clock, url):
    """Spec: B4"""
    tasks = [put(store, state).id for state in State if state is not S.QUEUED]
    everything = {task.id: record(store, task.id) for task in store.tasks.find(limit=200).items}
    assert everything.keys() >= set(tasks)
    clock.advance(61)
    archive = changed(Archive(store, Settings(), inline), clock=clock, batch_size=BatchSize(3))
    assert max(settle_down(archive)) == 3
    live, history = tables(url)
    assert live + history == len(everything)
    assert {task_id: record(store, task_id) for task_id in everything} == everything
    assert {task.status for task in store.tasks.find(Filter(), limit=200).items} >= FINAL


def test_the_archive_rests_after_a_batch_as_long_as_the_batch_size_says(store, clock, archive):
    """Spec: A7"""
    put(store, S.SUCCEEDED)
    clock.advance(61)
    assert turn(archive) == 1
    assert 0 < archive.pause_after_work == archive.batch_size.rest


def test_retention_removes_exactly_what_is_old_enough(store, clock, archive):
    """Spec: A7"""
    clock.now = START.replace(hour=2)  # so that a day is a day here
    tasks = {state: put(store, state) for state in State if state is not S.QUEUED}
    ended = {state: task.finished_at for state, task in tasks.items()}
    for day in range(32):
        settle_down(archive)
        for state, task in tasks.items():
            old = state in REMOVED and clock.now - ended[state] >= timedelta(days=REMOVED[state])
            assert present(store, task.id) is not old, f"{state} on day {day}"
        clock.advance(DAY)


def test_dead_tasks_stay_for_ever(store, clock, archive):
    """Spec: A7"""
    task = put(store, S.DEAD)
    clock.advance(1000 * DAY)
    settle_down(archive)
    assert store.tasks.get(task.id).status is S.DEAD
    assert store.events.of(task.id)


def test_retention_comes_at_its_hour_and_not_before(store, clock, url):
    """Spec: A7"""
    settings = Settings(retention_hour=2, timezone="Asia/Shanghai", retention_succeeded_days=0.5)
    archive = changed(Archive(store, settings, inline), clock=clock)
    clock.now = datetime(2026, 3, 1, 2, 0, tzinfo=ZoneInfo("Asia/Shanghai")).astimezone(UTC)
    settle_down(archive)
    assert len(retentions(url)) == 1
    task = put(store, S.SUCCEEDED)
    clock.advance(DAY - 1)
    settle_down(archive)
    assert present(store, task.id)
    clock.advance(1)
    settle_down(archive)
    assert not present(store, task.id)
    assert retentions(url) == [{"removed": 0}, {"removed": 1}]


def test_a_day_that_nobody_was_there_for_is_made_up_for(store, clock):
    """Spec: A7"""
    settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    task = put(store, S.SUCCEEDED)
    clock.advance(10 * DAY)
    settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    assert not present(store, task.id)


def test_what_one_process_did_today_no_other_does_again(store, clock, url):
    """Spec: A7"""
    for _ in range(3):
        settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    assert len(retentions(url)) == 1


def test_retention_goes_batch_by_batch(store, clock):
    """Spec: A7"""
    for task in store.tasks.submit_many([NewTask("plain")] * 5):
        store.tasks.cancel(task.id)
    store.history.archive()
    clock.advance(31 * DAY)
    archive = changed(Archive(store, Settings(), inline), clock=clock, batch_size=BatchSize(2))
    assert settle_down(archive)[:3] == [2, 2, 1]  # and then what was noted of the types
    assert store.tasks.find().items == []


def test_retention_does_not_wait_for_a_quiet_moment(store, clock):
    """Spec: A7"""
    old = put(store, S.SUCCEEDED)
    store.history.archive()
    clock.advance(8 * DAY)
    archive = changed(Archive(store, Settings(), inline), clock=clock, keep_seconds=0)
    put(store, S.SUCCEEDED)
    assert turn(archive) == 2  # one moved, one removed
    assert not present(store, old.id)


def test_keys_and_answers_are_forgotten_after_a_day(store, clock, url):
    """Spec: B4"""
    once = Idempotency("key", "hash")
    made = store.tasks.submit(NewTask("plain"), once=once)
    store.claims.take(ClaimRequest(worker(store), 1, claim_id="c"))
    clock.advance(DAY)
    settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    assert store.tasks.submit(NewTask("plain"), once=once).id == made.id
    clock.advance(DAY)
    settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    assert store.tasks.submit(NewTask("plain"), once=once).id != made.id
    assert sql(url, "SELECT count(*) FROM headgate_claim_answer") == [(0,)]


def test_workers_that_went_are_forgotten_unless_they_hold_something(store, clock):
    """Spec: B4"""
    gone, holding, alive = worker(store), worker(store), worker(store)
    submit(store, timeout_seconds=10**7)
    store.claims.take(ClaimRequest(holding, 1))
    for worker_id in (gone, holding):
        store.workers.leave(worker_id)
    clock.advance(2 * DAY)
    settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    assert [found.id for found in store.workers.all(lost_too=True)] == [holding, alive]


def test_days_of_audit_rows_are_made_ahead_and_go_when_they_are_empty(postgres, store, clock, url):
    """Spec: A12, A7"""
    if store.database.dialect == "sqlite":
        assert (store.events.make_partitions(), store.events.drop_partitions(clock.now)) == ([], [])
        return

    def days():
        found = sql(
            url, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'headgate_task_event'::regclass"
        )
        return {name for (name,) in found}

    clock.now = datetime(2099, 1, 1, 12, tzinfo=UTC)
    settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    assert days() >= {"headgate_task_event_20990101", "headgate_task_event_20990102", "headgate_task_event_20990103"}
    submit(store)  # leaves a row of its own in the first of January
    clock.advance(DAY)
    settle(store, running(store, "manual"), Returned())
    clock.advance(40 * DAY)
    settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    settle_down(changed(Archive(store, Settings(), inline), clock=clock))
    left = {day for day in days() if day.startswith("headgate_task_event_2099")}
    assert left >= {"headgate_task_event_20990101", "headgate_task_event_20990211"}
    assert "headgate_task_event_20990103" not in left


@pytest.mark.parametrize(
    ("now", "moment"),
    [
        ("2026-03-01T01:59:59+01:00", "2026-02-28T02:00:00+01:00"),
        ("2026-03-01T02:00:00+01:00", "2026-03-01T02:00:00+01:00"),
        ("2026-03-01T23:00:00+01:00", "2026-03-01T02:00:00+01:00"),
        ("2026-03-29T12:00:00+02:00", "2026-03-29T03:00:00+02:00"),  # there is no two o'clock that day
        ("2026-10-25T02:30:00+01:00", "2026-10-25T02:00:00+02:00"),  # there are two
    ],
)
def test_the_hour_is_that_of_the_time_zone(now, moment):
    """Spec: A7"""
    assert last_time_at(2, ZoneInfo("Europe/Berlin"), datetime.fromisoformat(now)) == datetime.fromisoformat(moment)


def test_a_time_zone_that_does_not_exist_is_refused(store):
    """Spec: A7"""
    with pytest.raises(Invalid, match="Europe/Atlantis"):
        Archive(store, Settings(timezone="Europe/Atlantis"), inline)


def test_children_go_when_their_parent_has_ended_though_others_have_gone_before(store, clock, url, archive):
    """Spec: B4, D7"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    settle(store, start(store)[0], Returned())
    clock.advance(61)
    put(store, S.CANCELLED)
    clock.advance(61)
    settle_down(archive)
    assert tables(url) == (2, 1)
    settle(store, parent, Returned())
    clock.advance(61)
    settle_down(archive)
    assert tables(url) == (0, 3)


def test_a_batch_that_takes_long_is_followed_by_smaller_ones():
    """Spec: A7"""
    batch_size = BatchSize(1000)
    for expected in (500, 250, 125, 100, 100):
        batch_size.adjust(0.15)
        assert (batch_size.rows, batch_size.rest) == (expected, 0.05)
    for _ in range(40):
        batch_size.adjust(0.01)
    assert (batch_size.rows, batch_size.rest) == (1000, 0.04)
    small = BatchSize(3)
    small.adjust(1.0)
    assert small.rows == 3
