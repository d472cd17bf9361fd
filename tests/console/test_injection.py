"""Whatever stands in a stored field is text on every page: nothing of it runs, and nothing of it is a link."""

import json
import re
from typing import Any

import pytest

from headgate.core.keys import Role
from headgate.core.machine import Raised
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import open_store
from tests.console.conftest import expect

MARK = "window.ran = (window.ran ?? 0) + 1"
STRINGS = [
    f"<script>{MARK}</script>", f"</script><script>{MARK}</script>", f"<img src=x onerror='{MARK}'>",
    f"<svg onload='{MARK}'>", f"<svg><script>{MARK}</script></svg>", f"<body onload='{MARK}'>",
    f"<iframe srcdoc='<script>parent.{MARK}</script>'>", f"<iframe src='javascript:parent.{MARK}'>",
    f"<details open ontoggle='{MARK}'>", f"<video><source onerror='{MARK}'>", f"<audio src=x onerror='{MARK}'>",
    f"<input autofocus onfocus='{MARK}'>", f"<select autofocus onfocus='{MARK}'>", f"<marquee onstart='{MARK}'>",
    f"<math href='javascript:{MARK}'>click</math>", f"<a href='javascript:{MARK}'>click</a>", f"javascript:{MARK}",
    f"JaVaScRiPt:{MARK}", f"java\tscript:{MARK}", f"data:text/html,<script>parent.{MARK}</script>",
    f"\"><script>{MARK}</script>", f"'><img src=x onerror='{MARK}'>", f"`-{MARK}-`", f"${{{MARK}}}", f"{{{{{MARK}}}}}",
    f"');{MARK};//", f"\\\");{MARK};//", f"--><script>{MARK}</script>", f"]]><script>{MARK}</script>",
    f"<style>@import 'javascript:{MARK}'</style>", f"<link rel=stylesheet href='javascript:{MARK}'>",
    f"<meta http-equiv=refresh content='0;url=javascript:{MARK}'>", f"<base href='javascript:{MARK}//'>",
    f"<object data='javascript:{MARK}'>", f"<embed src='javascript:{MARK}'>", f"<form action='javascript:{MARK}'>",
    f"<button formaction='javascript:{MARK}'>x</button>", f"<template><script>{MARK}</script></template>",
    f"\u202e<script>{MARK}</script>", f"<ScRiPt\x0b>{MARK}</sCrIpT>",
]  # fmt: skip


@pytest.fixture(scope="module")
def poisoned(served):
    """A task for each string, with it in every field that somebody outside can fill; and what hangs on tasks."""
    ids = []
    with open_store(f"sqlite:///{served.folder}/headgate.db") as store:
        served.key = store.keys.add("root", Role.ADMIN)[1]
        for number, text in enumerate(STRINGS):
            name = text.translate({9: " ", 11: " ", 0x202E: ""})[:200]
            code = f"type-{number}-{name}"
            store.types.put(TaskType(code, need_manual=True, name=name, category=name))
            about: dict[str, Any] = {
                "name": name,
                "mutex": name,
                "correlation_id": name,
                "category": name,
                "lane": name,
            }
            worker = store.workers.register(name, types=[code])
            new = NewTask(code, json.dumps({text: [text, {text: text}]}), unique_key=name)._replace(**about)
            made = store.tasks.submit(new)
            [execution] = store.claims.take(ClaimRequest(worker, 1, types=frozenset({code}))).executions
            store.executions.progress(
                execution.id, execution.exec_id, json.dumps({"done": 1, "total": 2, "note": text})
            )
            store.executions.add_log(execution.id, execution.exec_id, [("info", text), ("error", text)])
            store.executions.settle([Outcome(execution, Raised(text))], actor=name)
            store.keys.add(name, Role.READ, actor=name)
            store.tasks.resolve(made.id, text, actor=name)
            store.tasks.submit(NewTask(code, json.dumps({"url": text}), lane="no_cookie", name=name))
            ids.append(made.id)
    return ids


@pytest.fixture
def page(visit, served, poisoned):
    """A page of somebody who may see everything."""
    opened = visit("/")
    opened.get_by_label("API key").fill(served.key)
    opened.get_by_role("button", name="Sign in").click()
    expect(opened.get_by_text("Live", exact=True)).to_be_visible()
    return opened


def harmless(page):
    assert page.evaluate("window.ran") is None
    assert page.evaluate("window.reports") == []
    assert page.locator("a[href^='javascript' i], a[href^='data' i]").count() == 0
    assert page.locator("main :is(script, iframe, object, embed, base, meta)").count() == 0


@pytest.mark.parametrize("path", ["/", "/tasks", "/events", "/queue", "/keys"])
def test_no_page_runs_what_is_stored(page, served, path):
    """Spec: X7"""
    page.goto(served.address + path)
    expect(page.locator("main").get_by_role("row").nth(20)).to_be_visible()
    expect(page.locator("main")).to_contain_text(MARK)
    harmless(page)


def test_no_task_runs_what_is_stored_in_it(page, served, poisoned):
    """Spec: X7"""
    for task_id in poisoned:
        page.keyboard.press("/")
        page.keyboard.type(str(task_id))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text(f"#{task_id}")
        expect(page.get_by_role("region", name="Timeline").get_by_role("listitem").nth(1)).to_be_visible()
        harmless(page)


def test_what_is_stored_is_shown_to_the_letter(page, served, poisoned):
    """Spec: X7"""
    page.goto(f"{served.address}/tasks/{poisoned[0]}")
    expect(page.get_by_role("log")).to_contain_text(STRINGS[0])
    expect(page.get_by_role("region", name="Last error")).to_contain_text(STRINGS[0])


def test_no_frame_shows_the_console(visit, served):
    """Spec: X7"""
    page = visit("/")
    assert page.request.get(served.address + "/").headers["content-security-policy"].count("frame-ancestors 'none'")
    page.goto("about:blank")
    page.set_content(f"<iframe src='{served.address}/tasks'></iframe>")
    frame = page.frames[-1]
    frame.wait_for_load_state()
    assert not re.search("Headgate", frame.content())
    page.goto(served.address)
