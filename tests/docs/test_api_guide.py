"""The guide to the API shows what its commands answer."""

import re

from headgate.core.end_reasons import EndReason
from headgate.core.events import SYSTEM_KINDS, TASK_KINDS
from headgate.core.reasons import TEXTS, Param, Params, text_of
from headgate.core.refusals import TEXTS as REFUSALS
from headgate.core.refusals import refusal_text
from tests.docs.guides import Guide


def test_the_guide_to_the_api_shows_what_its_commands_answer(tmp_path):
    """Spec: A13, X6"""
    assert Guide("api.md").tried(tmp_path) > 15


EXAMPLES: Params = {
    "status": "queued", "scope": "lane", "name": "mail", "running": 2, "capacity": 2, "others": 0, "mutex": "film",
    "actor": "anna", "reason": "upkeep",
    "task_id": 7, "tokens": 3, "burst": 10, "rate": 5.0, "agent_id": "rig-1", "seconds": 5.0, "type": "resize",
    "servers": 2, "busy": 2, "worker": "rig-7", "workers": 1, "agent": "rig-1", "agents": 1, "asked_seconds": 40.0,
    "ended": 2, "total": 3, "host": "shop.example", "attempts": 2, "last": "503", "limit": "lane",
    "setting": "HEADGATE_CALLBACK_ALLOW", "queue": "headgate.tasks.default.resize",
    "ahead": 3, "slots": 2, "each_seconds": 10.0, "since": "2026-11-18T10:00:00+00:00",
}  # fmt: skip


def test_the_guide_lists_every_reason_with_the_values_it_needs():
    """Spec: X3"""
    reasons = Guide("api.md").text.partition("## Refusals")[0]
    rows = re.findall(r"\| `([a-z-]+)` \| ([^|]*?) ?\| [^|]+ \|\n", reasons)
    assert sorted(code for code, _ in rows) == sorted(TEXTS)
    for code, params in rows:
        names = re.sub(r" \(.*?\)", "", params).split(", ") if params else []
        assert text_of(code, {name: EXAMPLES[name] for name in names})


def test_the_guide_lists_every_refusal_with_the_values_it_needs():
    _, _, refusals = Guide("api.md").text.partition("## Refusals")
    rows = re.findall(r"\| `([a-z-]+)` \| ([^|]*?) ?\| [^|]+ \|\n", refusals)
    assert [code for code, _ in rows] == list(REFUSALS)
    for code, params in rows:
        values: dict[str, Param] = dict.fromkeys(params.split(", ") if params else [], 1)
        assert refusal_text(code, values | ({"action": "retry"} if "action" in values else {}))


def test_the_guide_lists_every_event_and_every_reason_of_an_end():
    _, _, events = Guide("api.md").text.partition("### What an event says")
    pattern = r"happens to tasks:\n(.*?)\n\n.*?is null\):\n(.*?)\n\n"
    [(kinds, of_system)] = re.findall(pattern, events, re.DOTALL)
    assert set(re.findall(r"`([a-z_]+)`", kinds)) == TASK_KINDS
    assert set(re.findall(r"`([a-z_]+)`", of_system)) == SYSTEM_KINDS
    assert re.findall(r"\| `([a-z]+)` \| [^|]+ \|\n", events) == list(EndReason)
