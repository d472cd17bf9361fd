"""The search for lost starts: how it stands, and a look now."""

import re

from tests.console.conftest import expect


def test_it_counts_down_to_the_next_poll_and_looks_when_asked(visit, served):
    """Spec: E4, X7"""
    page = visit("/compensation")
    upcoming = page.locator("section").filter(has=page.get_by_role("heading", name="Next poll"))
    expect(upcoming).to_contain_text(re.compile(r"\d+ (s|min)|now"))
    page.get_by_role("button", name="Search now").click()
    expect(page.get_by_text("No start was lost")).to_be_visible()
    interval = page.locator("section").filter(has=page.get_by_role("heading", name="Interval"))
    expect(interval).to_contain_text("Multiplier")
    assert served.ask("GET", "/api/compensation")["last_poll"] is not None
