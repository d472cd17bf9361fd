"""A hundred thousand tasks are as easy to look at as ten."""

import pytest

from headgate.core.task import NewTask
from headgate.store.store import open_store
from tests.console.conftest import expect

COUNT = 100_000


@pytest.fixture(scope="module")
def deep(served):
    with open_store(f"sqlite:///{served.folder}/headgate.db") as store:
        for _ in range(COUNT // 5000):
            store.tasks.submit_many([NewTask("greet", '{"name": "deep"}', delay_seconds=360_000) for _ in range(5000)])
    return served


def test_a_hundred_thousand_tasks_are_scrolled_through_with_a_screenful_of_rows(visit, deep):
    """Spec: X7"""
    page = visit("/tasks")
    table = page.get_by_test_id("tasks")
    rows = table.locator("tbody tr")
    expect(rows.first).to_be_visible()
    for _ in range(30):
        loaded = table.evaluate("frame => frame.scrollHeight")
        table.evaluate("frame => { frame.scrollTop = frame.scrollHeight; }")
        page.wait_for_function("([frame, before]) => frame.scrollHeight > before", arg=[table.element_handle(), loaded])
        assert rows.count() < 100
    lowest = int(rows.last.get_by_role("link").inner_text())
    assert lowest <= COUNT - 2500
    task_id = deep.submit("greet", {"name": "new"})
    expect(page.get_by_role("button", name="1 new task")).to_be_visible()
    assert rows.count() < 100
    page.get_by_role("button", name="1 new task").click()
    expect(rows.first).to_contain_text(str(task_id))


def test_everything_that_matches_is_chosen_though_a_screenful_is_loaded(visit, deep):
    """Spec: X7"""
    for number in range(150):
        deep.submit("greet", {"name": "chosen"}, creator=5, delay_seconds=360_000, name=f"chosen {number}")
    page = visit("/tasks?creator=5")
    page.get_by_test_id("tasks").locator("tbody tr").first.get_by_role("checkbox").check()
    page.get_by_role("button", name="Select all that match").click()
    expect(page.get_by_text("150 selected")).to_be_visible()
