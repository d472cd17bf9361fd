"""Addresses that were written by hand, and pages that cannot be drawn."""

import re

import pytest

from tests.console.conftest import expect

ODD = {
    "/tasks": "status=bogus&creator=many&within=1e300&created_after=once&q={}&what=this",
    "/queue": "status=toString&lane=fast&subscription_id=[1]",
    "/desk": "older_than=long&younger_than=-1&error=[]",
    "/periodic": "status=bogus&id=0&edit=that",
    "/types": "q=[1]&make=1&code={}",
    "/callbacks": "status=bogus&kind=constructor&open=1-1e9",
    "/events": "q=[1]",
    "/": "range=7",
}


@pytest.mark.parametrize("path", ODD)
def test_what_a_page_does_not_know_in_its_address_is_ignored(visit, served, path):
    """Spec: X7"""
    page = visit(f"{path}?{ODD[path]}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("heading", level=1)).not_to_have_text("This page could not be shown")
    expect(page).to_have_url(served.address + path)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_words_that_are_known_stay_beside_those_that_are_not(visit, served):
    """Spec: X7"""
    task_id = served.submit("greet", {"name": "kept"}, delay_seconds=3600, creator=41)
    page = visit('/tasks?status=["bogus","pending"]&creator=41&lane={}')
    expect(page.get_by_test_id("tasks").get_by_role("link", name=str(task_id), exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(r"creator=41"))
    expect(page).not_to_have_url(re.compile(r"bogus|lane"))


def test_a_number_that_can_be_no_task_is_looked_for_as_a_text(visit, served):
    """Spec: X7"""
    order = "9223372036854775808"
    task_id = served.submit("greet", {"name": f"order {order}"}, delay_seconds=3600)
    page = visit("/")
    page.get_by_label("Search").fill(order)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("tasks").get_by_role("link", name=str(task_id), exact=True)).to_be_visible()
    page.get_by_label("Search").fill(f"#{task_id}")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.address}/tasks/{task_id}")
    page.goto(f"{served.address}/tasks/{order}")
    expect(page.get_by_text(f"There is no task {order}")).to_be_visible()


@pytest.mark.parametrize(
    ("locale", "title", "again", "overview", "types"),
    [
        ("en-GB", "This page could not be shown", "Try again", "Go to the overview", "Task types"),
        ("zh-CN", "此页面无法显示", "重试", "返回总览", "任务类型"),
    ],
)
def test_a_page_that_cannot_be_drawn_leaves_the_navigation_standing(visit, locale, title, again, overview, types):
    """Spec: X7"""
    page = visit("/events", locale=locale)
    page.route("**/api/task-types", lambda route: route.fulfill(json={"items": {"no": "list"}}))
    page.get_by_role("navigation").get_by_role("link", name=types).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(title)
    expect(page.get_by_role("main").get_by_role("link", name=overview)).to_have_attribute("href", "/")
    page.unroute("**/api/task-types")
    page.get_by_role("button", name=again).click()
    expect(heading).to_have_text(types)
    expect(page.get_by_role("table", name=types)).to_contain_text("greet")


def test_the_address_of_lanes_leads_to_them(visit):
    """Spec: X7"""
    page = visit("/lanes")
    expect(page).to_have_url(re.compile("/#lanes$"))
    expect(page.get_by_role("table", name="Lanes")).to_be_in_viewport()
