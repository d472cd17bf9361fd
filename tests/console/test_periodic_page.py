"""Schedules: the cron helper foretells what the server does; made, triggered, put off line."""

from tests.console.conftest import expect


def ticks(place):
    return place.get_by_role("list", name="Next ticks").locator("li span:first-child")


def test_the_helper_foretells_what_the_server_will_do(visit, served):
    """Spec: B9, X7"""
    page = visit("/periodic")
    expect(page.get_by_role("heading", name="No schedules yet")).to_be_visible()
    page.keyboard.press("n")
    form = page.get_by_role("dialog")
    form.get_by_label("Cron expression").fill("30 2 * * MOON")
    expect(form).to_contain_text("not a cron expression: bad day-of-week")
    form.get_by_label("Cron expression").fill("30 2 * * MON-FRI")
    form.get_by_role("combobox", name="Time zone").fill("Europe/Berl")
    page.get_by_role("option", name="Europe/Berlin").click()
    expect(form.get_by_role("list", name="Next ticks")).to_have_attribute("aria-busy", "false")
    expect(ticks(form)).to_have_count(5)
    foretold = ticks(form).all_text_contents()
    assert all(tick.endswith("02:30:00") for tick in foretold)

    form.get_by_label("Task type").fill("greet")
    form.get_by_label("Arguments (JSON)").fill('{"name": "the night"}')
    form.get_by_text("Once", exact=True).click()
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_contain_text("Schedule 1")
    expect(ticks(page.get_by_role("dialog"))).to_have_text(foretold)
    made = served.ask("GET", "/api/periodic-tasks/1")
    assert (made["status"], made["missed"], made["ext"]) == ("online", "once", {"name": "the night"})


def test_it_is_triggered_and_its_log_tells_how_that_ended(visit, served):
    """Spec: B9, B10, X7"""
    said = {"type": "greet", "cron_expressions": "0 0 1 1 *", "ext": {"name": "the year"}}
    number = served.ask("POST", "/api/periodic-tasks", said)["id"]
    page = visit(f"/periodic?id={number}")
    schedule = page.get_by_role("dialog")
    schedule.get_by_role("button", name="Trigger now").click()
    line = schedule.get_by_role("list", name="Log").get_by_role("listitem")
    expect(line).to_contain_text("success")
    expect(line).to_contain_text("manual")
    schedule.get_by_role("button", name=f"Put {number} online").click()
    expect(schedule.get_by_role("button", name=f"Take {number} offline")).to_be_visible()
    assert served.ask("GET", f"/api/periodic-tasks/{number}")["status"] == "online"
    line.get_by_role("link").click()
    expect(page.get_by_text("Hello, the year!").first).to_be_visible()
