"""The overview: what runs, what waits, what needs a person, and the buttons that mend it."""

import re

from tests.console.conftest import expect, until


def lane_of(page, name):
    return page.get_by_role("table", name="Lanes").get_by_role("row").filter(has_text=name)


def test_a_lane_is_paused_resumed_and_resized_in_its_place(visit, served):
    """Spec: X7, A9"""
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 2})
    page = visit("/")
    expect(lane_of(page, "narrow").get_by_role("meter")).to_have_attribute("aria-valuetext", "0 / 2")

    needs = page.get_by_label("Needs attention")
    page.get_by_role("button", name="Pause narrow").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause narrow").click()
    expect(needs.get_by_text("Lane narrow is paused")).to_be_visible()
    assert lane(served, "narrow")["paused"]

    needs.get_by_role("button", name="Resume").click()
    expect(needs.get_by_text("Lane narrow is paused")).to_have_count(0)
    assert not lane(served, "narrow")["paused"]

    field = page.get_by_label("Capacity of narrow", exact=True)
    field.fill("7")
    field.press("Enter")
    expect(lane_of(page, "narrow").get_by_role("meter")).to_have_attribute("aria-valuetext", "0 / 7")
    assert lane(served, "narrow")["capacity"] == 7


def test_a_capacity_is_changed_by_saving_it_and_by_nothing_else(visit, served):
    """Spec: X7, A9"""
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 3})
    page = visit("/")
    field = page.get_by_label("Capacity of narrow", exact=True)
    field.fill("")
    page.get_by_role("heading", level=1).click()
    expect(page.get_by_role("button", name="Save: Capacity of narrow")).to_be_visible()
    assert lane(served, "narrow")["capacity"] == 3

    field.fill("8")
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 5})
    expect(lane_of(page, "narrow").get_by_role("meter")).to_have_attribute("aria-valuetext", "0 / 5")
    expect(field).to_have_value("8")
    expect(lane_of(page, "narrow")).to_contain_text("now 5")
    page.get_by_role("button", name="Discard: Capacity of narrow").click()
    expect(field).to_have_value("5")

    field.fill("")
    page.get_by_role("button", name="Save: Capacity of narrow").click()
    expect(lane_of(page, "narrow").get_by_role("meter")).to_have_attribute("aria-valuetext", "0, no limit")
    page.get_by_role("button", name="Undo").click()
    expect(lane_of(page, "narrow").get_by_role("meter")).to_have_attribute("aria-valuetext", "0 / 5")


def lane(served, name):
    return next(each for each in served.ask("GET", "/api/lanes")["items"] if each["name"] == name)


def test_gauges_and_workers_move_with_what_runs(visit, served):
    """Spec: X7"""
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 1})
    page = visit("/")
    running, queued = (served.submit("held", {"name": "gauge"}) for _ in range(2))
    expect(lane_of(page, "narrow").get_by_role("meter")).to_have_attribute("aria-valuetext", "1 / 1")
    expect(lane_of(page, "narrow").get_by_role("cell").nth(1)).to_have_text("1")
    workers = page.get_by_role("table", name="Workers and agents")
    expect(workers.get_by_role("row").nth(1).get_by_role("cell").nth(1)).to_have_text("1")
    served.let_go("gauge")
    expect(lane_of(page, "narrow").get_by_role("meter")).to_have_attribute("aria-valuetext", "0 / 1")
    served.reached(running, "succeeded")
    served.reached(queued, "succeeded")


def test_what_needs_a_person_leads_to_it(visit, served):
    """Spec: X7, B7"""
    page = visit("/")
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
    task_id = served.submit("invoice", {"number": 4711})
    expect(page.get_by_text("1 dead letter")).to_be_visible()
    page.get_by_role("link", name="View", exact=True).click()
    expect(page.get_by_role("link", name=str(task_id), exact=True)).to_be_visible()
    assert page.url.endswith("/desk")
    served.ask("POST", f"/api/tasks/{task_id}/discard")


def test_everything_is_paused_only_after_asking(visit, served):
    """Spec: X7, A9"""
    page = visit("/")
    page.get_by_role("button", name="Pause everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    assert not served.ask("GET", "/api/lanes")["everything_paused"]
    page.get_by_role("button", name="Pause everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause everything").click()
    expect(page.get_by_text("Nothing starts in any lane.")).to_be_visible()
    assert served.ask("GET", "/api/lanes")["everything_paused"]
    page.get_by_role("button", name="Resume everything").first.click()
    until(lambda: served.ask("GET", "/api/lanes"), lambda lanes: not lanes["everything_paused"])


def test_a_pause_says_wherever_it_holds_who_made_it_why_and_until_when(visit, served):
    """Spec: X7, A9"""
    page = visit("/")
    page.get_by_role("button", name="Pause narrow").click()
    asked = page.get_by_role("dialog")
    asked.get_by_label("Reason").fill("the provider is down")
    asked.get_by_role("combobox", name="Until").click()
    page.get_by_role("option", name="1 hour from now").click()
    asked.get_by_role("button", name="Pause narrow").click()
    expect(asked).to_have_count(0)
    [pause] = served.ask("GET", "/api/pauses")["items"]
    assert (pause["scope"], pause["name"], pause["reason"]) == ("lane", "narrow", "the provider is down")
    assert pause["until"] is not None
    for place in (page.get_by_label("Needs attention"), lane_of(page, "narrow")):
        expect(place).to_contain_text("the provider is down")
        expect(place).to_contain_text("ends in")
    task_id = served.submit("held", {"name": "paused"})
    page = visit(f"/tasks/{task_id}")
    expect(page.get_by_text("lane narrow is paused: the provider is down").first).to_be_visible()
    served.ask("POST", f"/api/tasks/{task_id}/cancel")
    page = visit("/")
    page.get_by_role("table", name="Pauses").get_by_role("button", name="Resume lane narrow").click()
    expect(page.get_by_text("Nothing is paused.")).to_be_visible()
    assert served.ask("GET", "/api/pauses")["items"] == []
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_label("Needs attention")).to_contain_text("the provider is down")
    [again] = served.ask("GET", "/api/pauses")["items"]
    assert (again["reason"], again["until"]) == (pause["reason"], pause["until"])
    served.ask("POST", "/api/queue/resume?scope=lane:narrow")


def test_a_type_and_a_tenant_are_paused_from_the_list_of_pauses(visit, served):
    """Spec: X7, A9"""
    page = visit("/")
    pauses = page.get_by_role("table", name="Pauses")
    for what, name, shown in (("A task type", "greet", "type greet"), ("A tenant", "7", "tenant 7")):
        page.get_by_role("button", name="Pause …").click()
        asked = page.get_by_role("dialog")
        asked.get_by_role("combobox", name="What").click()
        page.get_by_role("option", name=what).click()
        expect(asked.get_by_role("button", name="Pause", exact=True)).to_be_disabled()
        asked.get_by_label("Tenant number" if what == "A tenant" else "Name").fill(name)
        asked.get_by_role("button", name=f"Pause {shown}").click()
        expect(pauses.get_by_role("row").filter(has_text=shown)).to_be_visible()
    page = visit("/types")
    page.get_by_role("button", name="Resume type greet").click()
    expect(page.get_by_role("button", name="Pause type greet")).to_be_visible()
    assert [each["name"] for each in served.ask("GET", "/api/pauses")["items"]] == ["7"]
    served.ask("POST", "/api/queue/resume?scope=tenant:7")


def test_a_capacity_that_could_not_be_saved_stays_as_it_was_typed(visit, served):
    """Spec: X7, A9"""
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 3})
    page = visit("/")
    page.route("**/api/lanes/narrow", lambda route: route.abort())
    field = page.get_by_label("Capacity of narrow", exact=True)
    field.fill("9")
    field.press("Enter")
    expect(page.get_by_text("The server does not answer").first).to_be_visible()
    expect(field).to_have_value("9")
    page.unroute("**/api/lanes/narrow")
    field.press("Enter")
    expect(lane_of(page, "narrow").get_by_role("meter")).to_have_attribute("aria-valuetext", "0 / 9")


def test_undo_of_a_capacity_brings_back_what_was_there_before_the_change(visit, served):
    """Spec: X7, A9"""
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 3})
    page = visit("/")
    meter = lane_of(page, "narrow").get_by_role("meter")

    def answer_late(route):
        response = route.fetch()
        expect(meter).to_have_attribute("aria-valuetext", "0 / 6")  # the event was quicker than the answer
        route.fulfill(response=response)

    page.route("**/api/lanes/narrow", answer_late)
    field = page.get_by_label("Capacity of narrow", exact=True)
    field.fill("6")
    field.press("Enter")
    expect(page.get_by_text("narrow: 6 at once")).to_be_visible()
    page.unroute("**/api/lanes/narrow")
    page.get_by_role("button", name="Undo").click()
    expect(meter).to_have_attribute("aria-valuetext", "0 / 3")


def test_charts_grow_by_themselves(visit, served):
    """Spec: X7"""
    page = visit("/")
    chart = page.locator("figure").filter(has_text="Throughput")
    expect(chart.locator("canvas")).to_be_visible()
    served.submit("greet")
    points = served.ask("GET", "/api/series")["items"]
    until(lambda: served.ask("GET", "/api/series")["items"], lambda found: len(found) > len(points) + 1)
    expect(chart.get_by_text("/s").first).to_be_visible()


def test_charts_say_that_nothing_waits_once_everything_has_ended(visit, served):
    """Spec: X7"""
    served.ask("PUT", "/api/lanes/narrow", {"capacity": 1})
    running, waiting = (served.submit("held", {"name": "charted"}) for _ in range(2))
    page = visit("/")
    age = page.locator("figure").filter(has_text="Oldest waiting").locator("figcaption b")
    depth = page.locator("figure").filter(has=page.get_by_role("heading", name="Waiting", exact=True))
    expect(age).to_have_text(re.compile("^[1-9]"))
    served.let_go("charted")
    for task_id in (running, waiting):
        served.reached(task_id, "succeeded")
    expect(age).to_have_text("0 s")
    expect(depth.locator("figcaption b").first).to_have_text("0")
    latency = page.locator("figure").filter(has_text="Latency").locator("figcaption b")
    expect(latency.first).to_have_text("–")


def test_where_no_broker_is_configured_there_is_no_panel_of_one(visit, served):
    """Spec: X7"""
    assert served.ask("GET", "/api/broker")["configured"] is False
    page = visit("/")
    expect(page.get_by_role("table", name="Workers and agents")).to_be_visible()
    expect(page.get_by_role("region", name="RabbitMQ")).to_have_count(0)
