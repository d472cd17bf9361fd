"""The feed of everything that happens."""

from tests.console.conftest import expect


def rows(page):
    return page.get_by_role("table", name="Events").locator("tbody tr")


def test_what_happened_and_what_happens_is_shown_newest_first(visit, served):
    """Spec: X7, D6"""
    before = served.submit("greet", {"name": "before"})
    served.reached(before, "succeeded")
    page = visit("/events")
    expect(rows(page).filter(has_text=f"#{before}")).to_have_count(3)
    after = served.submit("greet", {"name": "after"})
    expect(rows(page).filter(has_text=f"#{after}")).to_have_count(3)
    expect(rows(page).first).to_contain_text("Completed")
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 3})
    expect(rows(page).first).to_contain_text("Capacity changed")


def test_the_feed_can_be_held_and_filtered(visit, served):
    """Spec: X7"""
    page = visit("/events")
    page.get_by_role("button", name="Freeze").click()
    task_id = served.submit("greet", {"name": "held back"})
    served.reached(task_id, "succeeded")
    expect(page.get_by_text("3 more since")).to_be_visible()
    expect(rows(page).filter(has_text=f"#{task_id}")).to_have_count(0)
    page.get_by_role("button", name="Continue").click()
    expect(rows(page).filter(has_text=f"#{task_id}")).to_have_count(3)
    page.get_by_label("Kind, type, lane, actor or detail contain").fill(f"started #{task_id}")
    expect(rows(page)).to_have_count(1)
