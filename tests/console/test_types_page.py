"""Task types: edited with what would change shown first; a secret goes in and never comes out."""

import re

import pytest

from tests.console.conftest import Served, expect
from tests.console.receiver import let_it_call
from tests.console.shop import MODULE

KEPT = "between-you-and-me-only-0123456789"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server that can keep a secret."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(MODULE)
    let_it_call(folder)
    server = Served(folder)
    server.start()
    yield server
    server.stop()


def test_a_type_is_edited_and_what_would_change_is_shown_first(visit, served):
    """Spec: B5, X7"""
    waits = served.submit("greet", delay_seconds=3600)
    page = visit("/types")
    page.get_by_role("button", name="Edit greet").click()
    form = page.get_by_role("dialog")
    expect(form).to_contain_text("Declared by shop:greet")
    form.get_by_label("Timeout (min)").fill("45")
    form.get_by_role("combobox", name="It is retried").click()
    page.get_by_role("option", name="At fixed intervals").click()
    form.get_by_label("Maximum retries").fill("3")
    form.get_by_label("After (s)").fill("20")
    expect(form).to_contain_text("20 s → 20 s → 20 s")
    form.get_by_role("button", name="Review").click()
    expect(form.get_by_role("term").filter(has_text="timeout")).to_be_visible()
    expect(form).to_contain_text("30 → 45")
    meaning = form.get_by_role("region", name="Tasks that have not ended")
    expect(meaning).to_contain_text(re.compile(r"\d would now be retried after the next failure"))
    expect(meaning).to_contain_text(re.compile(r"\d gets? the new timeout"))
    expect(meaning.get_by_role("link", name=f"#{waits}")).to_be_visible()
    assert served.ask("GET", "/api/task-types/greet")["config"]["timeout"] == 30
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="greet")).to_contain_text("45 min")
    config = served.ask("GET", "/api/task-types/greet")["config"]
    assert (config["retry_strategy"], config["max_error_count"], config["retry_interval"]) == ("fixed_period", 3, 20)


def test_what_an_edit_means_is_said_in_chinese_too(visit, served):
    """Spec: B5, X7"""
    served.submit("invoice", {"number": 1}, delay_seconds=3600)
    page = visit("/types?code=invoice", locale="zh-CN")
    form = page.get_by_role("dialog")
    form.get_by_label("超时（分钟）").fill("45")
    form.get_by_role("button", name="预览更改").click()
    expect(form.get_by_role("region", name="尚未结束的任务")).to_contain_text("1 个任务从下次执行起使用新的超时")


def test_what_the_server_refuses_is_said_before_it_is_saved(visit, served):
    """Spec: B5, X7"""
    page = visit("/types?code=parent")
    form = page.get_by_role("dialog")
    form.get_by_label("Mutex").fill("{")
    form.get_by_role("button", name="Review").click()
    expect(form).to_contain_text("is not a template")
    expect(form.get_by_role("button", name="Save")).to_be_disabled()
    form.get_by_role("button", name="Back").click()
    expect(form.get_by_label("Mutex")).to_have_value("{")


def test_a_type_is_made_unique_and_debounced_in_its_form(visit, served):
    """Spec: B5, X2, X7"""
    page = visit("/types?code=greet")
    form = page.get_by_role("dialog")
    form.get_by_label("Debounce (s)").fill("600")
    form.get_by_role("button", name="Review").click()
    expect(form).to_contain_text("Needs a unique key")
    form.get_by_label("Make the unique key from all arguments").check()
    form.get_by_label("Another submit replaces the arguments").uncheck()
    form.get_by_role("button", name="Review").click()
    expect(form.get_by_role("term").filter(has_text="debounce_seconds")).to_be_visible()
    form.get_by_role("button", name="Save").click()
    expect(form).to_be_hidden()
    kept = served.ask("GET", "/api/task-types/greet")
    assert (kept["unique"], kept["debounce_seconds"], kept["debounce_replace"]) == ("arguments", 600, False)
    assert served.submit("greet") == served.submit("greet")


def change(served, code, **words):
    """What somebody else does in a terminal."""
    known = served.ask("GET", f"/api/task-types/{code}")
    said = {word: value for word, value in known.items() if word not in ("code", "edited", "declared_by", "foreseen")}
    served.ask("PUT", f"/api/task-types/{code}", said | words)


def test_an_edit_leaves_what_somebody_else_changed_meanwhile(visit, served):
    """Spec: B5, X7"""
    page = visit("/types?code=tidy")
    form = page.get_by_role("dialog")
    form.get_by_label("Priority").fill("2")
    change(served, "tidy", lane="rails")
    form.get_by_role("button", name="Review").click()
    expect(form.get_by_role("term")).to_have_text(["priority"])
    expect(form).not_to_contain_text("rails")
    change(served, "tidy", category="house")  # between the review and the save
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    saved = served.ask("GET", "/api/task-types/tidy")
    assert (saved["priority"], saved["lane"], saved["category"]) == (2, "rails", "house")


def test_a_callbacks_secret_goes_in_and_never_comes_out(visit, served):
    """Spec: B6, X7"""
    page = visit("/types?code=held")
    form = page.get_by_role("dialog")
    form.get_by_label("When it succeeded").fill("http://127.0.0.1:9/hook")
    form.get_by_role("switch", name="Sign them").click()
    form.get_by_label("Key id").fill("shop-1")
    form.get_by_role("button", name="Review").click()
    expect(form).to_contain_text("Required")
    form.get_by_label("Secret", exact=True).fill(KEPT)
    form.get_by_role("button", name="Review").click()
    expect(form).to_contain_text("a new secret")
    assert KEPT not in page.content()
    form.get_by_role("button", name="Save").click()
    row = page.get_by_role("row").filter(has_text="held")
    expect(row).to_contain_text("signed")
    page.get_by_role("button", name="Edit held").click()
    expect(form.get_by_label("Secret", exact=True)).to_have_value("")
    expect(form).to_contain_text("A secret is stored and never shown")
    assert KEPT not in page.content()
