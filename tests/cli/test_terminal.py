"""A terminal gets colours and its own width; a pipe gets neither."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from datetime import UTC, datetime

import pytest

from headgate.cli.table import GAP, SHORT, column_widths
from headgate.core.callbacks import Attempt, CallbackKind, Delivery
from headgate.core.machine import Raised, Returned
from headgate.core.pause import PauseScope
from headgate.core.task import TaskType
from headgate.store.callbacks.deliveries import DeliveryOutcome
from headgate.store.callbacks.report import DeliveryFilter
from tests.cli.conftest import HEADGATE
from tests.factories import running, settle, submit

COLOUR = re.compile(r"\x1b\[[\d;]*3\dm")
LONG_TYPE = "media.subscription.refresh_all_x"
BOTH = {"success": {"url": "https://receiver.in.some.place.example/x"}, "error": {"url": "https://bad.example/y"}}


def on_a_terminal(*words, columns=60, **environment):
    """What a command prints on a terminal so many columns wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    known = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [HEADGATE, *map(str, words)],
        stdin=theirs,
        stdout=theirs,
        env=known | {"TERM": "xterm-256color"} | environment,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait() == 0
    return said.decode()


def table_on_a_terminal(*words, columns=80):
    """The lines of a table, each no wider than the terminal: the header's words, and the rows."""
    lines = on_a_terminal(*words, columns=columns, NO_COLOR="1").splitlines()
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= columns
    return plain[0].split(), plain[1:]


@pytest.fixture
def long_name(here):
    submit(here, name="a name that goes on and on " * 5)


@pytest.fixture
def long_words(here):
    """Tasks in many states, with long types, lanes, errors and receivers; the store."""
    here.types.put(TaskType(LONG_TYPE, lane="the-lane-of-all-subscriptions-there-are", callback=BOTH))
    for event in (Returned(), Raised("OSError: " + "nothing there is as long as this error " * 10)):
        settle(here, running(here, LONG_TYPE, name="a name that goes on and on " * 3), event)
    submit(here, LONG_TYPE, name="a name that goes on and on " * 5)
    [leased] = here.deliveries.record_and_lease([], [(LONG_TYPE, CallbackKind.SUCCESS, 1)], 60.0)
    gone = Attempt(410, 0.1, "an error that takes more than a line of the terminal " * 3)
    here.deliveries.record([DeliveryOutcome(leased, "receiver.in.some.place.example", gone, Delivery.UNDELIVERABLE)])
    return here


def test_a_terminal_gets_colours_and_lines_that_fit(long_name):
    said = on_a_terminal("list")
    assert COLOUR.search(said)
    assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in said.splitlines()) <= 60


@pytest.mark.parametrize("columns", [60, 80])
def test_a_list_of_tasks_keeps_ids_and_states_whole(long_words, columns):
    headers, rows = table_on_a_terminal("list", columns=columns)
    assert headers[:3] == ["ID", "STATUS", "TYPE"]
    assert "DETAIL" in headers
    assert [row.split()[:2] for row in rows] == [[str(task.id), task.status] for task in long_words.tasks.find().items]
    assert all("…" in row for row in rows)


def test_a_list_of_callbacks_keeps_ids_and_states_whole_and_says_where_they_go(long_words):
    """Spec: B6"""
    headers, rows = table_on_a_terminal("callbacks")
    assert headers[:2] == ["ID", "TASK"]
    assert {"STATUS", "HOST", "LAST"} <= set(headers)
    known = long_words.deliveries.find(DeliveryFilter()).items
    for row, sent in zip(rows, known, strict=True):
        assert row.split()[:2] == [str(sent.id), str(sent.task_id)]
        assert sent.status in row.split()


def test_the_callbacks_of_a_task_and_their_attempts_fit(long_words):
    """Spec: B6"""
    [told] = [each for each in long_words.deliveries.find(DeliveryFilter()).items if each.last_error]
    _, rows = table_on_a_terminal("callbacks", told.task_id)
    assert rows[0].split()[:2] == [str(told.id), str(told.task_id)]
    assert " undeliverable " in rows[0]
    shown = re.sub(r"\s+", " ", " ".join(row[-40:] for row in rows))
    assert shown.count("an error") == 4  # in the list once, cut; of the attempt all of it


def test_an_act_keeps_what_it_was_about_and_its_detail(long_words):
    long_words.lanes.set_capacity("the-lane-of-all-subscriptions-there-are", 3, actor="os:somebody-with-a-long-name")
    headers, rows = table_on_a_terminal("audit")
    assert headers == ["TIME", "ACTOR", "ACT"]
    act = next(place for place, row in enumerate(rows) if "capacity_changed" in row)
    shown = re.sub(r"\s+", "", "".join(rows[act : act + 3]))
    assert "capacity_changedlane:the-lane-of-all-subscriptions-there-are" in shown
    assert "    capacity: null → 3" in rows[act + 1 : act + 4]


def test_a_task_with_a_long_error_is_shown_whole_in_lines_that_fit(long_words):
    [failed] = [task for task in long_words.tasks.find().items if task.status == "failed"]
    _, rows = table_on_a_terminal("show", failed.id)
    end = next(place for place, row in enumerate(rows) if not row.strip())
    shown = re.sub(r"\s+", " ", " ".join(rows[:end]))
    assert shown.count("nothing there is as long as this error") == 10


def test_a_pipe_gets_every_column_whole(long_words, run):
    for words in (["list"], ["callbacks"], ["audit"]):
        assert "…" not in run(*words).out
    assert LONG_TYPE in run("list").out


def test_no_color_turns_colours_off(long_name):
    assert not COLOUR.search(on_a_terminal("list", NO_COLOR="1"))


def test_a_pipe_gets_a_line_for_each_task_and_no_escape(long_name, run):
    out = run("list").out
    assert len(out.splitlines()) == 2
    assert "\x1b" not in out


def test_the_first_column_and_short_ones_are_whole_and_the_least_useful_go_first():
    natural = [40, SHORT, 100, 8, 60]
    assert column_widths(natural, 1000) == dict(enumerate(natural))
    narrow = column_widths(natural, 130, drop=[3, 4])
    assert (narrow[0], narrow[1], narrow[3]) == (40, SHORT, 8)
    assert sum(narrow.values()) + GAP * 4 == 130
    assert list(column_widths(natural, 120, drop=[3, 4])) == [0, 1, 2, 4], "cut no further than is readable"
    assert list(column_widths(natural, 95, drop=[3, 4])) == [0, 1, 2, 4]
    assert list(column_widths(natural, 30, drop=[3, 4])) == [0, 1, 2]


def test_a_list_of_types_fits_and_keeps_their_timeouts(long_words):
    here = long_words
    here.pauses.set(PauseScope.TYPE, LONG_TYPE, reason="a reason that takes more than a line of the terminal " * 3)
    headers, _ = table_on_a_terminal("types")
    assert {"CODE", "TIMEOUT", "STATE"} <= set(headers)


def test_no_help_is_cut_on_a_terminal_of_80_columns():
    lines = on_a_terminal("--help", columns=80, NO_COLOR="1").splitlines()
    assert [line for line in lines if line.rstrip().endswith("...") and "Usage" not in line] == []


@pytest.mark.parametrize(
    "words", ["list", "types", "doctor", "audit", "pauses", "lanes", "limits", "agents", "workers", "dead-letters"]
)
def test_every_table_of_real_names_fits_80_columns_and_cuts_no_reason(long_words, words):
    reason = "the provider changes its certificates tonight and every call fails meanwhile"
    long_words.pauses.set(PauseScope.TYPE, LONG_TYPE, reason=reason, actor="os:somebody-with-a-long-name")
    lane = "the-lane-of-all-subscriptions-there-are"
    long_words.pauses.set(PauseScope.LANE, lane, reason=reason, until=datetime(2100, 1, 1, tzinfo=UTC))
    _, rows = table_on_a_terminal(words)
    if words in ("types", "doctor", "audit", "pauses", "lanes"):
        assert reason in re.sub(r"\s+", " ", " ".join(rows))
