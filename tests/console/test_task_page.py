"""One task: why it waits, what it says, what happened to it, and what can be done."""

import re

import pytest

from tests.console.conftest import expect, until


def test_it_says_gate_by_gate_what_it_waits_for_and_leads_to_who_holds_it_up(visit, served):
    """Spec: X3, X7"""
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 1})
    holder, waiter = (served.submit("held", {"name": "gate"}) for _ in range(2))
    served.reached(holder, "running")
    page = visit(f"/tasks/{waiter}")
    gate = page.get_by_role("listitem").filter(has_text="Lane")
    expect(gate).to_contain_text("closed")
    expect(gate).to_contain_text("narrow: 1 of 1 running")
    gate.get_by_role("link", name=f"#{holder}").click()
    expect(page).to_have_url(re.compile(f"/tasks/{holder}$"))
    page.go_back()
    served.let_go("gate")
    expect(page.get_by_text("Why it waits")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"#{waiter}")
    served.reached(waiter, "succeeded")


def test_a_running_task_says_which_resource_it_waits_for_and_who_holds_it(visit, served):
    """Spec: X3, X7, C3"""
    holder = served.submit("press", {"name": "printed"})
    served.reached(holder, "running")
    until(
        lambda: {each["name"]: each["running"] for each in served.ask("GET", "/api/resources")["items"]},
        lambda running: running.get("printer") == 1,
    )
    waiter = served.submit("press", {"name": "printed"})
    page = visit(f"/tasks/{waiter}")
    gate = page.get_by_role("listitem").filter(has_text="Hold")
    expect(gate).to_contain_text(f"waits for resource printer, held by task {holder}")
    page = visit("/")
    row = page.get_by_role("table", name="Resources").get_by_role("row").filter(has_text="printer")
    expect(row.get_by_role("cell").first).to_have_text("1 of 1")
    expect(row.get_by_role("link", name=f"#{holder}")).to_be_visible()
    served.let_go("printed")
    served.reached(waiter, "succeeded")


@pytest.mark.parametrize(("locale", "gate", "when"), [("en-GB", "Time", "in 2 hr"), ("zh-CN", "时间", "2小时后")])
def test_a_gate_that_opens_by_itself_says_when(visit, served, locale, gate, when):
    """Spec: X3, X7"""
    waits = served.submit("greet", delay_seconds=3 * 3600 - 60)
    page = visit(f"/tasks/{waits}", locale=locale)
    shut = page.get_by_role("listitem").filter(has=page.get_by_text(gate, exact=True))
    expect(shut).to_contain_text(f" · {when}")
    expect(shut).not_to_contain_text(re.compile("until|直到"))


def test_a_mutex_names_the_task_that_goes_first(visit, served):
    """Spec: X3, A10"""
    holder, waiter = (served.submit("tidy", {"shelf": 9, "name": "shelf"}, mutex="shelf:9") for _ in range(2))
    page = visit(f"/tasks/{waiter}")
    expect(page.get_by_role("listitem").filter(has_text="Mutex").get_by_role("link")).to_have_text(f"#{holder}")
    served.let_go("shelf")
    served.reached(waiter, "succeeded")


def test_a_parent_that_waits_leads_to_a_child_that_has_not_ended(visit, served):
    """Spec: X3, D7, X7"""
    parent = served.submit("clan", {"name": "kin"})
    served.reached(parent, "waiting")
    page = visit(f"/tasks/{parent}")
    gate = page.get_by_role("listitem").filter(has_text="have ended")
    expect(gate).to_contain_text("0 of 1 have ended")
    expect(gate.get_by_role("link")).to_have_text(f"#{parent + 1}")
    served.let_go("kin")
    expect(gate).to_have_count(0)
    served.reached(parent, "succeeded")


def test_progress_and_log_are_shown_as_they_come(visit, served):
    """Spec: D3, X7"""
    task_id = served.submit("teller", {"name": "story"})
    page = visit(f"/tasks/{task_id}")
    log = page.get_by_role("log")
    expect(log).to_contain_text("first line")
    served.let_go("story-1")
    expect(log).to_contain_text("second line")
    expect(page.get_by_text("2/4").first).to_be_visible()
    served.let_go("story-2")
    expect(page.get_by_text("succeeded").first).to_be_visible()


def test_it_shows_what_it_used(visit, served):
    """Spec: A8, X7"""
    task_id = served.submit("crunch")
    served.reached(task_id, "succeeded")
    expect(visit(f"/tasks/{task_id}").get_by_text(re.compile(r"s CPU"))).to_be_visible()


def test_the_timeline_tells_who_did_what_and_why(visit, served):
    """Spec: A12, X7"""
    task_id = served.submit("greet", {"name": "later"}, delay_seconds=3600)
    page = visit(f"/tasks/{task_id}")
    page.get_by_role("button", name="Prioritize").click()
    page.get_by_role("dialog").get_by_label("Priority").fill("1")
    page.get_by_role("button", name="Prioritize 1 task").click()
    expect(page.get_by_text("Priority changed")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_label("Reason").fill("changed my mind")
    page.get_by_role("button", name="Cancel 1 task").click()
    expect(page.get_by_role("listitem").filter(has_text="Cancelled")).to_contain_text("by person")
    expect(page.get_by_text("changed my mind").first).to_be_visible()
    page.get_by_role("button", name="Retry").click()
    page.get_by_role("button", name="Retry 1 task").click()
    until(
        lambda: served.ask("GET", "/api/tasks?type=greet&limit=1")["items"][0],
        lambda copy: copy["retry_of"] == task_id,
    )


def test_attempts_show_how_each_ended(visit, served):
    """Spec: X7"""
    task_id = served.submit("invoice", {"number": 7})
    served.reached(task_id, "dead")
    page = visit(f"/tasks/{task_id}")
    attempts = page.get_by_role("table", name="Attempts")
    expect(attempts.get_by_role("row").nth(1)).to_contain_text("Became a dead letter · never retried")
    attempts.get_by_text("Error", exact=True).click()
    expect(attempts.get_by_text("ValueError: invoice 7 has no address").first).to_be_visible()


def test_a_failed_task_is_edited_and_replayed_as_a_copy(visit, served):
    """Spec: D12, X7"""
    task_id = served.submit("invoice", {"number": 7})
    served.reached(task_id, "dead")
    served.ask("POST", f"/api/tasks/{task_id}/discard")
    page = visit(f"/tasks/{task_id}")
    page.get_by_role("button", name="Edit and replay").click()
    page.get_by_label("Arguments (JSON)").fill('{"number": 8}')
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Replay 1 task").click()
    until(
        lambda: served.ask("GET", "/api/tasks?type=invoice&limit=1")["items"][0],
        lambda copy: (copy["retry_of"], copy["ext"]) == (task_id, {"number": 8}),
    )


def test_a_family_is_a_tree_that_leads_both_ways(visit, served):
    """Spec: D7, X7"""
    task_id = served.submit("parent", {"children": 3})
    served.reached(task_id, "succeeded")
    page = visit(f"/tasks/{task_id}")
    family = page.get_by_role("region", name="Family")
    expect(family.get_by_role("link")).to_have_count(4)
    family.get_by_role("link").nth(1).click()
    expect(page.get_by_text("Hello, child").first).to_be_visible()
    family.get_by_role("link", name=f"#{task_id}").click()
    expect(page).to_have_url(re.compile(f"/tasks/{task_id}$"))


def test_a_large_family_is_counted_whole(visit, served):
    """Spec: D7, X7"""
    task_id = served.submit("parent", {"children": 203})
    served.reached(task_id, "succeeded")
    page = visit(f"/tasks/{task_id}")
    expect(page.get_by_role("region", name="Family")).to_contain_text("203 succeeded")


def test_a_task_is_named_in_the_title_of_its_page(visit, served):
    """Spec: X7"""
    task_id = served.submit("greet")
    page = visit("/tasks")
    expect(page).to_have_title("Tasks · Headgate")
    page.get_by_test_id("tasks").get_by_role("link", name=str(task_id), exact=True).click()
    expect(page).to_have_title(f"#{task_id} greet · Headgate")
    page.go_back()
    expect(page).to_have_title("Tasks · Headgate")


def test_numbers_keep_all_their_digits(visit, served):
    """Spec: X7"""
    big = 12345678901234567890123
    task_id = served.submit("greet", {"name": "exact", "order": big}, delay_seconds=3600)
    page = visit(f"/tasks/{task_id}")
    expect(page.get_by_text(str(big))).to_be_visible()


def test_a_task_that_is_not_there_is_said_to_be_so(visit):
    """Spec: X7"""
    page = visit("/tasks/999999")
    expect(page.get_by_text("There is no task 999999")).to_be_visible()
