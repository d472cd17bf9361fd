"""What a task used of its machine is kept with it, as far as it can honestly be told."""

import pytest

from headgate.core.states import State
from headgate.core.usage import Usage, greater, total_usage
from headgate.settings import Settings
from headgate.worker.usage import current_usage, peak_usage
from tests.worker import usages
from tests.worker.conftest import until, working
from tests.worker.disk import disk_is_told, use_disk


@pytest.fixture
def app(url):
    usages.app.close()
    usages.app._settings = Settings(url=url, beat_seconds=0.5, lease_seconds=5.0, poll_seconds=0.2)
    yield usages.app
    usages.app.close()


def test_a_process_is_measured_with_all_it_started(app, tmp_path):
    """Spec: A8"""
    with working(app):
        task = usages.use.submit_sync(str(tmp_path))
        assert task.wait_sync(60).succeeded
    used = app.store.usages.of(task.id).usage
    assert used.cpu_seconds >= 2 * usages.CPU_SECONDS - 0.05
    assert 60 * usages.MEGABYTE <= used.memory_bytes < 400 * usages.MEGABYTE
    if disk_is_told(tmp_path):
        # Once, though it is told of whoever wrote it and, when that has ended, of its parent too.
        assert usages.WRITTEN <= used.written_bytes < 2 * usages.WRITTEN
        assert used.read_bytes >= usages.WRITTEN


def test_a_process_that_ends_without_a_word_was_seen_from_outside(app):
    """Spec: A8"""
    with working(app):
        task = usages.die.submit_sync()
        until(lambda: app.store.usages.of(task.id) is not None)
    assert app.store.usages.of(task.id).usage.cpu_seconds > 0


def test_a_thread_is_measured_by_its_own_cpu_time_and_nothing_else(app):
    """Spec: A8. Memory and disk are the whole worker's: nobody could say whose share was whose."""
    with working(app):
        task = usages.think.submit_sync()
        assert task.wait_sync(60).succeeded
    used = app.store.usages.of(task.id).usage
    assert used.cpu_seconds >= usages.CPU_SECONDS - 0.01
    assert (used.memory_bytes, used.read_bytes, used.written_bytes) == (None, None, None)


def test_what_cannot_be_told_or_is_next_to_nothing_is_not_kept(app):
    """Spec: A8"""
    with working(app):
        tasks = [usages.glance.submit_sync(), usages.drift.submit_sync()]
        assert all(task.wait_sync(60).status is State.SUCCEEDED for task in tasks)
    assert [app.store.usages.of(task.id) for task in tasks] == [None, None]


def test_a_worker_says_what_it_uses(tmp_path):
    """Spec: A8"""
    now, most = current_usage(), peak_usage()
    assert now.cpu_seconds > 0
    assert (most.memory_bytes or 0) >= (now.memory_bytes or 0) > 1_000_000
    if disk_is_told(tmp_path):
        before = current_usage()
        use_disk(str(tmp_path / "written"), usages.WRITTEN)
        after = current_usage()
        assert (after.written_bytes or 0) - (before.written_bytes or 0) >= usages.WRITTEN
        assert (after.read_bytes or 0) - (before.read_bytes or 0) >= usages.WRITTEN


def test_of_two_looks_the_greater_figure_counts():
    """Spec: A8"""
    assert greater(Usage(1.0, 5, None, 2), Usage(2.0, 3, 7, None)) == Usage(2.0, 5, 7, 2)
    assert greater(None, Usage(1.0)) == greater(Usage(1.0), None) == Usage(1.0)


def test_what_is_not_known_of_one_does_not_hide_the_others():
    """Spec: A8"""
    assert total_usage([Usage(1.0, 5, None, 2), Usage(2.0, 3, 7, None)]) == Usage(3.0, 8, 7, 2)
    assert total_usage([Usage(1.0)]) == Usage(1.0)
