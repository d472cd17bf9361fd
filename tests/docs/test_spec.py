"""The specification says what is there and what is not, and the tests agree."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "docs" / "spec.md").read_text()
ITEMS = {
    item: (mark, text)
    for item, mark, text in re.findall(
        r"^- \*\*([A-EX]\d+)\*\* (\(in part\)|\(planned\)|)(.*?)(?=^- |^#|\Z)", SPEC, re.DOTALL | re.MULTILINE
    )
}


def named() -> set[str]:
    """Every item that a test of Python or of the console names."""
    files = (*(ROOT / "tests").rglob("*.py"), *(ROOT / "console" / "src").rglob("*.ts*"))
    lines = [line for file in files for line in file.read_text().splitlines() if "Spec:" in line]
    return {item for line in lines for item in re.findall(r"\b[A-EX]\d+\b", line.split("Spec:")[1])}


def test_the_specification_has_every_item_a_test_names():
    assert named() <= ITEMS.keys()


def test_what_the_specification_takes_for_done_is_named_by_a_test():
    done = {item for item, (mark, _) in ITEMS.items() if mark != "(planned)"}
    assert len(done) > 50
    assert done - named() == set()


def test_what_is_done_in_part_says_what_is_planned_and_nothing_else_does():
    told = {item for item, (_, text) in ITEMS.items() if re.search(r"\b[Pp]lanned:", text)}
    assert told == {item for item, (mark, _) in ITEMS.items() if mark == "(in part)"}
