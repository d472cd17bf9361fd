"""How long to wait from one look for lost starts to the next; and which figures make sense."""

from dataclasses import fields

import pytest

from headgate.core.compensation import CompensationSettings, Polling
from headgate.core.errors import Invalid
from headgate.settings import Settings

SEED = CompensationSettings()


def virtual_times(polls: int, found: frozenset[int] = frozenset(), figures: CompensationSettings = SEED) -> list[float]:
    """When the first so many polls come, by a virtual clock; those numbered in `found` find something."""
    clock, polling, times = 0.0, Polling(), []
    for number in range(1, polls + 1):
        clock += polling.wait(figures)
        times.append(clock)
        polling = polling.polled(int(number in found), figures)
    return times


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in zip([0.0, *times], times, strict=False)]


def test_the_interval_grows_by_ten_seconds_to_three_hundred_and_stays_there():
    """Spec: E2"""
    assert gaps(virtual_times(40)) == [10.0 * n for n in range(1, 31)] + [300.0] * 10


@pytest.mark.parametrize(("poll", "multiplier", "seconds"), [(1, 1, 10), (2, 2, 20), (3, 3, 30), (30, 30, 300),
                                                             (31, 30, 300), (1000, 30, 300)])  # fmt: skip
def test_the_table_of_the_interval_is_kept(poll, multiplier, seconds):
    """Spec: E2"""
    polling = Polling()
    for _ in range(poll - 1):
        polling = polling.polled(0, SEED)
    assert (polling.multiplier, polling.interval(SEED)) == (multiplier, seconds)


def test_a_find_brings_it_back_to_the_base():
    """Spec: E2"""
    assert gaps(virtual_times(6, frozenset({3}))) == [10, 20, 30, 10, 20, 30]
    assert Polling(30, 4).polled(1, SEED) == Polling(1, 0)


def test_six_polls_in_a_row_may_be_skipped_and_no_more():
    """Spec: E2"""
    polling = Polling(multiplier=3)
    for _ in range(6):
        assert polling.may_skip(SEED)
        polling = polling.skipped()
    assert not polling.may_skip(SEED)
    assert polling.multiplier == 3
    assert polling.polled(0, SEED) == Polling(4, 0)
    assert not Polling().may_skip(CompensationSettings(max_skips=0))


def test_a_skipped_poll_comes_again_after_the_base_so_that_skips_add_a_minute_and_not_half_an_hour():
    """Spec: E2"""
    polling, waited = Polling(multiplier=30), 0.0
    while polling.may_skip(SEED):
        waited += polling.wait(SEED)
        polling = polling.skipped()
    assert waited + polling.wait(SEED) == 300 + 6 * 10
    assert polling.interval(SEED) == 300


def test_other_figures_make_another_table():
    """Spec: E5"""
    assert gaps(virtual_times(6, figures=CompensationSettings(base=1, step=2, max=6))) == [1, 3, 5, 6, 6, 6]
    assert gaps(virtual_times(3, figures=CompensationSettings(base=7, step=0, max=7))) == [7, 7, 7]
    assert gaps(virtual_times(3, figures=CompensationSettings(base=7, step=0, max=9))) == [7, 7, 7]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("base", 0), ("base", -1), ("step", -1), ("max", 9.9), ("threshold", 0), ("start_interval", -0.1),
     ("status_seconds", 0), ("max_skips", -1), ("max", float("inf")), ("base", float("nan")), ("max", 86_401)],
)  # fmt: skip
def test_figures_that_make_no_sense_are_refused_by_their_name(name, wrong):
    """Spec: E5"""
    with pytest.raises(Invalid, match="compensation_"):
        CompensationSettings(**{name: wrong})
    with pytest.raises(Invalid, match="compensation_"):
        Settings(**{f"compensation_{name}": wrong})


def test_settings_begin_with_the_figures_of_the_seed():
    """Spec: E5"""
    assert Settings().compensation == SEED
    assert [getattr(SEED, figure.name) for figure in fields(SEED)] == [10, 10, 300, 30, 5, 60, 6]
