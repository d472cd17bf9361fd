"""The picture of the states is the state machine, and the pages about the inside name what is there."""

import re
from collections import defaultdict
from itertools import product
from pathlib import Path

import pytest

from headgate.core.errors import Refused
from headgate.core.machine import birth, decide
from headgate.core.states import State
from headgate.core.task import MAX_LOST, TaskType
from tests.core.factories import a_task
from tests.core.test_machine import TABLE

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "headgate"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
BEGINNING = "submitted"

Arrow = tuple[str, str]


class Picture:
    """A Mermaid flowchart: boxes, frames around them, and what each line between them is labelled with."""

    def __init__(self, text: str) -> None:
        self.boxes: list[str] = []
        self.frames: dict[str, list[str]] = defaultdict(list)
        self.lines: list[tuple[list[Arrow], set[str]]] = []
        around: list[str] = []
        for line in text.splitlines():
            if found := re.fullmatch(r"subgraph (\w+)\[.+\]", line.strip()):
                around.append(found[1])
            elif line.strip() == "end":
                around.pop()
            elif found := re.fullmatch(r'(\w+) (?:-- "(.+)" )?--> (\w+)', line.strip()):
                arrows = list(product(self._within(found[1]), self._within(found[3])))
                self.lines.append((arrows, set(found[2].split(", ")) if found[2] else set()))
            elif found := re.fullmatch(r"(\w+)(?:\(\(\w+\)\))?", line.strip()):
                self.boxes.append(found[1])
                for frame in around:
                    self.frames[frame].append(found[1])
            else:
                assert line.strip() in ("flowchart TB", ""), line

    def _within(self, name: str) -> list[str]:
        assert name in self.boxes or name in self.frames, name
        return self.frames.get(name, [name])


STATES = Picture(PAGE.partition("## The states\n")[2].partition("```mermaid\n")[2].partition("```")[0])


@pytest.fixture(scope="module")
def transitions() -> dict[Arrow, set[str]]:
    """From which state to which `decide` leads in any circumstances, and by which events."""
    found: dict[Arrow, set[str]] = defaultdict(set)
    callbacks: tuple[dict[str, None], ...] = ({}, {"success": None, "error": None})
    rules = [TaskType("scan", need_manual=manual, callback=called) for manual in (False, True) for called in callbacks]
    circumstances = {
        "mutex": (None, "film"), "error_count": (0, 1), "lost_count": (0, MAX_LOST - 1),
        "cancel_requested": (False, True), "pause_requested": (False, True), "has_children": (False, True),
        "gave_up": (False, True),
    }  # fmt: skip
    fields = [dict(zip(circumstances, values, strict=True)) for values in product(*circumstances.values())]
    for state, each in product(State, fields):
        task = a_task(state, max_error_count=1, skip_callback=False, **each)
        for kind, event in product(rules, TABLE):
            try:
                after = decide(task, event, kind).status
            except Refused:
                continue
            if after != state:
                words = re.findall("[A-Z][a-z]+", type(event).__name__)
                found[state.value, after.value].add(" ".join(words).lower())
    return found


def test_every_state_is_drawn_once():
    """Spec: One engine, five views"""
    assert sorted(STATES.boxes) == sorted([BEGINNING, *State])


def test_every_arrow_is_a_transition_and_every_transition_is_drawn_once(transitions):
    """Spec: One engine, five views"""
    born = {(BEGINNING, birth(mutex, due=due).value) for mutex in (None, "film") for due in (False, True)}
    drawn = [arrow for arrows, _ in STATES.lines for arrow in arrows]
    assert sorted(drawn) == sorted([*born, *transitions])


def test_every_event_is_written_on_an_arrow_and_leads_along_it(transitions):
    """Spec: One engine, five views"""
    for arrows, events in STATES.lines:
        led = set().union(*(transitions.get(arrow, set()) for arrow in arrows))
        assert events <= led, arrows
    assert set().union(*(events for _, events in STATES.lines)) == set().union(*transitions.values())


def test_the_packages_of_the_architecture_are_those_of_the_code():
    rows = re.findall(r"^\| `(\w+/)` \|", PAGE.partition("## The packages\n")[2], re.MULTILINE)
    assert sorted(rows) == sorted(f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py"))


@pytest.mark.parametrize("name", ["architecture.md", "decisions.md"])
def test_every_file_that_a_page_about_the_inside_names_exists(name):
    text = (ROOT / "docs" / name).read_text()
    packages = "|".join(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    named = re.findall(rf"`((?:{packages})/[\w/]*(?:\.py)?)", text)
    assert named
    assert [name for name in named if not (PACKAGE / name).exists()] == []


def test_every_test_that_a_decision_names_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / "decisions.md").read_text())
    assert named
    for path, test in named:
        assert not test or f"def {test}(" in (ROOT / path).read_text(), test
