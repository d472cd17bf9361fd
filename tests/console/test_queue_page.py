"""The request queue's page: its lanes, its requests, and what is refused while a subscription is busy."""

import re

import pytest

from tests.console.conftest import Served, expect
from tests.console.shop import MODULE


@pytest.fixture(scope="module", autouse=True)
def _nobody_executes_requests(served):
    """Requests wait. Their lanes are not paused by that: this is about how they look when somebody does so."""
    for task_type in ("expected_total", "parse", "list_fetch", "download"):
        served.ask("POST", f"/api/queue/pause?scope=type:{task_type}")


@pytest.fixture
def request_of(served):
    """A request for a subscription."""

    def enqueue(subscription_id, type_code="parse", **fields):
        body = {"type": type_code, "subscription_id": subscription_id, **fields}
        return served.ask("POST", "/api/requests/enqueue", body)["id"]

    return enqueue


def test_without_the_pack_there_is_no_such_page(visit, tmp_path):
    """Spec: X11, C11"""
    (tmp_path / "shop.py").write_text(MODULE)
    server = Served(tmp_path)
    server.start()
    try:
        page = visit("/", server=server)
        expect(page.get_by_role("link", name="Tasks", exact=True)).to_be_visible()
        expect(page.get_by_role("link", name="Request queue")).to_have_count(0)
        page = visit("/queue", server=server)
        expect(page.get_by_text("Page not found")).to_be_visible()
    finally:
        server.stop()


def row(page, request_id):
    rows = page.get_by_role("table", name="Request queue").get_by_role("row")
    return rows.filter(has=page.get_by_role("link", name=str(request_id), exact=True))


def test_the_old_address_leads_to_the_page(visit):
    """Spec: C11"""
    page = visit("/static/queue_admin.html")
    expect(page).to_have_url(re.compile("/queue$"))
    expect(page.get_by_role("heading", level=1, name="Request queue")).to_be_visible()


def test_lanes_are_paused_and_resized_and_their_counts_are_live(visit, served, request_of):
    """Spec: C11, C13"""
    page = visit("/queue")
    lane = page.get_by_test_id("lane-no_cookie")
    expect(lane).to_contain_text("queued")
    before = served.ask("GET", "/api/queue/stats")["queued"]["no_cookie"]
    request_of(11)
    expect(lane).to_contain_text(f"{before + 1} queued")
    page.get_by_role("button", name="Pause lane: Without cookie").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause lane: Without cookie").click()
    expect(lane).to_contain_text("paused")
    assert served.ask("GET", "/api/queue/stats")["paused"] == {
        "all": False, "default": False, "narrow": False, "no_cookie": True, "requires_cookie": False,
    }  # fmt: skip
    page.get_by_role("button", name="Resume lane: Without cookie").click()
    field = page.get_by_label("Capacity: Without cookie", exact=True)
    field.fill("5")
    field.press("Enter")
    expect(lane.get_by_role("meter")).to_have_attribute("aria-valuetext", "0 / 5")
    assert served.ask("GET", "/api/queue/stats")["capacity"]["no_cookie"] == 5


def test_the_whole_server_is_paused_only_after_asking_and_at_once_undone(visit, served):
    """Spec: C11"""
    page = visit("/queue")
    page.get_by_role("button", name="Pause everything").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("in any lane")
    asked.get_by_role("button", name="Back").click()
    expect(asked).to_have_count(0)
    assert not served.ask("GET", "/api/queue/stats")["paused"]["all"]
    page.get_by_role("button", name="Pause everything").click()
    asked.get_by_role("button", name="Pause everything").click()
    expect(page.get_by_role("button", name="Resume everything")).to_be_visible()
    assert served.ask("GET", "/api/queue/stats")["paused"]["all"]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Pause everything")).to_be_visible()
    assert not served.ask("GET", "/api/queue/stats")["paused"]["all"]


def test_a_request_is_cancelled_only_after_asking(visit, served, request_of):
    """Spec: C11"""
    request_id = request_of(51)
    page = visit("/queue")
    page.get_by_role("button", name=f"Cancel request {request_id}").click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("button", name="Back").click()
    expect(asked).to_have_count(0)
    assert served.ask("GET", f"/api/requests/{request_id}")["status"] == "queued"
    page.get_by_role("button", name=f"Cancel request {request_id}").click()
    asked.get_by_role("button", name=f"Cancel request {request_id}").click()
    expect(row(page, request_id)).to_contain_text("cancelled")


def test_a_request_that_was_paused_by_mistake_goes_on_with_undo(visit, served, request_of):
    """Spec: C11"""
    request_id = request_of(52)
    page = visit("/queue")
    page.get_by_role("button", name=f"Pause request {request_id}").click()
    expect(row(page, request_id)).to_contain_text("paused")
    page.get_by_role("button", name="Undo").click()
    expect(row(page, request_id)).to_contain_text("queued")


def test_a_request_is_paused_resumed_put_first_and_cancelled(visit, served, request_of):
    """Spec: C11, C10"""
    first, second = request_of(21), request_of(22)
    page = visit("/queue")
    page.get_by_role("button", name=f"Pause request {second}").click()
    expect(row(page, second)).to_contain_text("paused")
    page.get_by_role("button", name=f"Resume request {second}").click()
    expect(row(page, second)).to_contain_text("queued")
    page.get_by_role("button", name=f"To the top: request {second}").click()
    expect(page.get_by_text(f"Request {second} is first now")).to_be_visible()
    assert served.task(second)["priority"] < served.task(first)["priority"]
    page.get_by_role("button", name=f"Priority of request {first}").click()
    page.get_by_role("textbox", name=f"Priority of request {first}").fill("9")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text(f"Request {first} has priority 9")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"Cancel request {first}").click()
    page.get_by_role("dialog").get_by_role("button", name=f"Cancel request {first}").click()
    expect(row(page, first)).to_contain_text("cancelled")
    assert served.ask("GET", f"/api/requests/{first}")["status"] == "canceled"


def test_buttons_of_a_busy_subscription_are_off_and_say_why(visit, served, request_of):
    """Spec: C11"""
    subscription = served.ask("POST", "/api/subscriptions", {"name": "Birds", "url": "https://example.org/birds"})["id"]
    busy = request_of(subscription, "list_fetch")
    page = visit("/queue")
    page.get_by_label("Subscription").first.fill(str(subscription))
    button = page.get_by_role("button", name="Download")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_role("status").filter(has_text=f"Subscription {subscription} ")).to_have_text(
        f"Subscription {subscription} has work under way: Fetch list (request {busy}) is queued."
    )
    button.click(force=True)
    expect(button).to_have_attribute("aria-disabled", "true")
    assert len(served.ask("GET", f"/api/requests?subscription_id={subscription}")["items"]) == 1

    served.ask("POST", f"/api/requests/{busy}/cancel")
    expect(button).not_to_have_attribute("aria-disabled", "true")
    button.click()
    expect(page.get_by_text(re.compile(r"Request \d+ is queued"))).to_be_visible()
    [made, _] = served.ask("GET", f"/api/requests?subscription_id={subscription}")["items"]
    assert (made["type"], made["requires_cookie"], made["priority"]) == ("list_fetch", True, 3)
    assert served.task(made["id"])["ext"]["then_download"] is True  # a download of no address would fail
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_role("button", name=f"Again: {busy}")).to_have_attribute("aria-disabled", "true")


def test_requests_are_filtered_by_what_stands_in_the_address(visit, request_of):
    """Spec: C11"""
    wanted, other = request_of(41), request_of(42)
    page = visit("/queue?subscription_id=41")
    expect(row(page, wanted)).to_be_visible()
    expect(row(page, other)).to_have_count(0)
    page.get_by_label("State").first.click()
    page.get_by_role("option", name="done").click()
    expect(page.get_by_text("No matching requests")).to_be_visible()
    expect(page).to_have_url(re.compile("status=done"))


def test_a_request_for_an_address_goes_before_what_programs_enqueue(visit, served):
    """Spec: C11"""
    page = visit("/queue")
    page.get_by_label("Address").fill("https://example.org/bird/1")
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_text(re.compile(r"Request \d+ is queued"))).to_be_visible()
    made = served.ask("GET", "/api/requests?type=download")["items"][0]
    assert (made["url"], made["priority"]) == ("https://example.org/bird/1", 3)


def test_a_request_that_failed_at_length_says_why_first_and_its_button_stays_in_reach(visit, served):
    """Spec: C11"""
    number = int("7" * 200)
    failed = served.submit("invoice", {"number": number}, lane="no_cookie")
    assert "Traceback" in served.reached(failed, "dead")["error_info"]
    page = visit("/queue")
    expect(row(page, failed)).to_contain_text(f"ValueError: invoice {number} has no address")
    expect(page.get_by_role("button", name=f"Again: {failed}")).to_be_in_viewport(ratio=1)
