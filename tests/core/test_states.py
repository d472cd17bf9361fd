"""Fifteen states, and the words of the views for each of them, as the table of the SPEC has them."""

import pytest

from headgate.core.states import FINAL, HELD, OPEN, State, View, states_of_word, status_word

TABLE = """
state       A          B                   C         D
pending     pending    New                 queued    QUEUED
blocked     queued     New                 queued    QUEUED
queued      queued     New                 queued    QUEUED
scheduling  queued     New                 queued    QUEUED
running     running    Executing           running   RUNNING
waiting     running    Executing           running   RUNNING
paused      paused     -                   paused    -
retrying    pending    Error               queued    RETRYING
notifying   completed  Completed           done      COMPLETED
succeeded   completed  Success             done      COMPLETED
partial     completed  Success             done      COMPLETED_WITH_ERRORS
failed      failed     Failure             failed    FAILED
dead        failed     Pending             failed    DEAD_LETTER
resolved    completed  ManuallyProcessed   done      -
cancelled   cancelled  Cancelled           canceled  CANCELLED
"""
_HEAD, *_ROWS = [row.split() for row in TABLE.split("\n") if row]
WORDS = {(View(view), row[0]): word for row in _ROWS for view, word in zip(_HEAD[1:], row[1:], strict=True)}
EXPECTED = {key: key[1] if word == "-" else word for key, word in WORDS.items()}
FOOTNOTE = {(view, state): word for state in ("blocked", "queued", "scheduling") for view, word in
            ((View.SERVER, "Error"), (View.BROKER, "RETRYING"))}  # fmt: skip
ERROR_COUNTS = (0, 1, 7)


def test_there_are_exactly_the_fifteen_states_of_the_table():
    """Spec: One engine, five views"""
    assert [state.value for state in State] == [row[0] for row in _ROWS]
    assert len(State) == 15


def test_a_task_can_be_seen_in_the_words_of_four_seeds():
    """Spec: One engine, five views (`?view=A|B|C|D`; E's words are the engine's own)"""
    assert [view.value for view in View] == ["A", "B", "C", "D"]


@pytest.mark.parametrize(("view", "state"), EXPECTED)
def test_each_view_says_the_word_of_the_table(view, state):
    """Spec: One engine, five views"""
    assert status_word(view, State(state)) == EXPECTED[view, state]


@pytest.mark.parametrize("error_count", ERROR_COUNTS[1:])
@pytest.mark.parametrize(("view", "state"), EXPECTED)
def test_only_a_due_task_shows_an_earlier_error_and_only_in_two_views(view, state, error_count):
    """Spec: One engine, five views (footnote 1)"""
    assert status_word(view, State(state), error_count) == FOOTNOTE.get((view, state), EXPECTED[view, state])


@pytest.mark.parametrize("view", View)
def test_filtering_by_a_word_finds_exactly_the_tasks_shown_with_it(view):
    """Spec: One engine, five views (`?view=` renders and filters)"""
    words = {status_word(view, state, errors) for state in State for errors in ERROR_COUNTS}
    for word in words:
        found = dict(states_of_word(view, word))
        for state in State:
            for errors in ERROR_COUNTS:
                matches = state in found and found[state] in (None, errors > 0)
                assert matches == (status_word(view, state, errors) == word), (word, state, errors)


def test_a_word_no_view_knows_means_nothing():
    """Spec: One engine, five views"""
    assert all(states_of_word(view, "sleeping") == [] for view in View)


def test_final_are_the_states_the_table_calls_final():
    """Spec: One engine, five views"""
    assert sorted(FINAL) == ["cancelled", "failed", "partial", "resolved", "succeeded"]


def test_a_dead_task_is_neither_final_nor_open():
    """Spec: D7 (a dead child counts as failed, so its parent does not wait for it)"""
    assert State.DEAD not in FINAL | OPEN
    assert frozenset(State) == FINAL | OPEN | {State.DEAD}


def test_scheduling_counts_as_running_for_every_limit():
    """Spec: One engine, five views"""
    assert {State.SCHEDULING, State.RUNNING} == HELD
