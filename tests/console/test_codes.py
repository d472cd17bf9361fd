"""The console knows every code of the server, so that both of its languages can tell it."""

import re
from pathlib import Path

import pytest

from headgate.core.events import SYSTEM_KINDS, TASK_KINDS
from headgate.core.reasons import TEXTS as REASONS
from headgate.core.refusals import TEXTS as REFUSALS

CODES = (Path(__file__).parents[2] / "console/src/services/codes.ts").read_text()


def known(name: str) -> set[str]:
    """The codes of one union of `codes.ts`; that each has a text in each language is a matter of compiling."""
    [union] = re.findall(rf"export type {name} =([^;]+);", CODES)
    return set(re.findall(r'"([a-z_-]+)"', union))


@pytest.mark.parametrize(
    ("union", "codes"),
    [
        ("ReasonCode", set(REASONS)),
        ("RefusalCode", set(REFUSALS)),
        ("TaskKind", TASK_KINDS),
        ("SystemKind", SYSTEM_KINDS),
    ],
)
def test_the_console_has_words_for_every_code_of_the_server(union, codes):
    assert codes <= known(union), f"add to console/src/services/codes.ts: {sorted(codes - known(union))}"
