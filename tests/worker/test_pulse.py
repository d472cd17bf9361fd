"""Signs of life of a worker process, and the parent that looks for them."""

import os

import pytest

from headgate.worker.pulse import Pulse, PulseWatch, Signs
from headgate.worker.stage import PULSE_OFFSET, Stage, make_stage, on_stage
from tests.worker.conftest import until

LEASE = 30.0
LOOK = 1.5


class Process:
    """A worker process as its parent sees it, on a clock of its own."""

    def __init__(self, memory: int) -> None:
        self.now = 1000.0
        self.watch = PulseWatch(memory, LEASE)
        self._renewed_at = self.now
        self._pulse = Pulse(memory, lambda: self._renewed_at, LEASE)

    def live(self, seconds: float, *, renews: bool = True) -> bool:
        """Whether the parent takes it for frozen at one of its looks."""
        return self._pass(seconds, lives=True, renews=renews)

    def freeze(self, seconds: float) -> bool:
        return self._pass(seconds, lives=False, renews=False)

    def _pass(self, seconds: float, lives: bool, renews: bool) -> bool:
        until, found = self.now + seconds, False
        while self.now < until:
            self.now += LOOK
            self._renewed_at = self.now if renews else self._renewed_at
            if lives:
                self._write()
            found = self.watch.stands_still(self.now) or found
        return found

    def _write(self) -> None:
        self._pulse._write(Signs(self.now, self._renewed_at))


@pytest.fixture
def memory():
    descriptor = make_stage()
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def process(memory) -> Process:
    return Process(memory)


def test_a_process_that_shows_no_sign_of_life_is_found_before_its_lease_is_over(process):
    """Spec: A6"""
    process.live(60)
    assert not process.freeze(0.7 * LEASE)
    assert process.freeze(0.2 * LEASE)


def test_a_process_that_continues_before_its_lease_is_over_is_left_alone(process):
    """Spec: A6"""
    process.live(60)
    assert not process.freeze(0.75 * LEASE)
    assert not process.live(60)


def test_a_process_that_lives_and_cannot_renew_its_lease_is_left_alone(process):
    """Spec: A6. It stops its handlers itself."""
    process.live(60)
    assert not process.live(10 * LEASE, renews=False)


def test_a_process_that_has_not_signed_on_is_left_alone(process):
    assert not process.freeze(10 * LEASE)


def test_a_parent_that_stood_still_with_its_worker_lets_it_show_that_it_lives(process):
    """Spec: A6"""
    process.live(60)
    process.now += 10 * LEASE
    assert not process.watch.stands_still(process.now)
    assert not process.live(60)


def test_a_process_that_leaves_is_not_looked_for_any_more(memory):
    with Pulse(memory, lambda: 1.0, 0.1):
        watch = PulseWatch(memory, 0.1)
        until(lambda: os.pread(memory, 16, PULSE_OFFSET) != bytes(16))
    assert os.pread(memory, 16, PULSE_OFFSET) == bytes(16)
    assert not any(watch.stands_still(float(now)) for now in range(100))


def test_signs_of_life_are_no_task_on_stage(memory):
    stage = Stage(memory)
    with Pulse(memory, lambda: 1.0, 0.1), stage.entered(7):
        until(lambda: os.pread(memory, 16, PULSE_OFFSET) != bytes(16))
        assert on_stage(memory) == {7}
