"""The list of tasks: found, followed, chosen and acted upon."""

import csv
import re
from itertools import count

import pytest

from tests.console.conftest import expect

FAR = 360_000
CREATORS = count(100)


@pytest.fixture
def waiting(served):
    """Some tasks that wait, of a creator of their own."""
    creator = next(CREATORS)
    ids = [served.submit("greet", {"name": f"n{number}"}, delay_seconds=FAR, creator=creator) for number in range(3)]
    return creator, ids


def rows(page):
    return page.get_by_test_id("tasks").locator("tbody tr")


def row(page, task_id):
    return rows(page).filter(has=page.get_by_role("link", name=str(task_id), exact=True))


def test_a_new_task_appears_and_moves_through_its_states_by_itself(visit, served):
    """Spec: X7"""
    page = visit("/tasks?type=held")
    task_id = served.submit("held", {"name": "appear"})
    expect(row(page, task_id)).to_contain_text("running")
    served.let_go("appear")
    expect(row(page, task_id)).to_contain_text("succeeded")


def test_a_filter_stands_in_the_address_and_an_address_is_a_filter(visit, waiting):
    """Spec: X7"""
    creator, ids = waiting
    page = visit("/tasks")
    page.get_by_role("button", name="More").click()
    page.get_by_label("Creator").fill(str(creator))
    expect(rows(page)).to_have_count(len(ids))
    expect(page).to_have_url(re.compile(f"creator={creator}"))
    page.keyboard.press("Escape")
    page.get_by_label("Name, type or arguments contain").first.fill("n1")
    expect(rows(page)).to_have_count(1)
    again = visit("/tasks" + page.url.partition("/tasks")[2])
    expect(rows(again)).to_have_count(1)
    expect(row(again, ids[1])).to_be_visible()


def test_states_are_chosen_by_name(visit, served, waiting):
    """Spec: X7"""
    creator, ids = waiting
    served.ask("POST", f"/api/tasks/{ids[0]}/cancel")
    page = visit(f"/tasks?creator={creator}")
    expect(rows(page)).to_have_count(3)
    page.get_by_role("button", name="State").click()
    page.get_by_role("checkbox", name="cancelled").check()
    expect(rows(page)).to_have_count(1)
    expect(row(page, ids[0])).to_be_visible()


def test_many_are_cancelled_after_seeing_what_that_would_do(visit, served, waiting):
    """Spec: X7"""
    creator, ids = waiting
    served.ask("POST", f"/api/tasks/{ids[0]}/cancel")
    page = visit(f"/tasks?creator={creator}")
    page.get_by_label("Select all loaded").check()
    expect(page.get_by_text("3 selected")).to_be_visible()
    page.get_by_role("toolbar").get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("It would apply to 2 of 3 tasks.")).to_be_visible()
    expect(dialog.get_by_text("1 refused")).to_be_visible()
    assert served.task(ids[1])["status"] == "pending"
    dialog.get_by_label("Reason").fill("spring cleaning")
    dialog.get_by_role("button", name="Cancel 2 tasks").click()
    expect(rows(page).filter(has_text="cancelled")).to_have_count(3)
    assert {served.task(task_id)["remark"] for task_id in ids[1:]} == {"spring cleaning"}


def test_what_is_done_to_many_shows_how_far_it_is_is_stopped_and_tells_what_came_of_it(visit, served):
    """Spec: X7"""
    creator = next(CREATORS)
    task = {"type": "greet", "delay_seconds": FAR, "creator": creator}
    served.ask("POST", "/api/tasks/bulk", {"tasks": [task] * 450})
    page = visit(f"/tasks?creator={creator}")
    sent = []

    def hold_the_second(route):
        if not route.request.post_data_json["dry_run"]:
            sent.append(route)
        if len(sent) != 2:
            route.continue_()

    page.route("**/api/tasks/actions", hold_the_second)
    rows(page).first.get_by_role("checkbox").check()
    page.get_by_role("button", name="Select all that match").click()
    expect(page.get_by_text("450 selected")).to_be_visible()
    page.get_by_role("toolbar").get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel 450 tasks").click()
    expect(dialog.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "200 / 450")
    expect(dialog.get_by_role("button", name="Back")).to_have_count(0)
    expect(dialog.get_by_role("button", name="Close")).to_have_count(0)
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Stop").click()
    sent[1].continue_()
    expect(dialog).to_contain_text("400 tasks cancelled or asked to stop")
    expect(dialog).to_contain_text("Stopped: 50 tasks were left as they are.")
    ended = served.ask("GET", f"/api/tasks?creator={creator}&status=pending&limit=200")["items"]
    assert len(ended) == 50
    dialog.get_by_role("button", name="Close").last.click()
    expect(dialog).to_have_count(0)


def test_dead_tasks_are_resolved_only_with_a_remark(visit, served):
    """Spec: X7, B7"""
    task_id = served.submit("invoice", {"number": 1})
    served.reached(task_id, "dead")
    page = visit("/tasks?status=dead")
    row(page, task_id).get_by_role("checkbox").check()
    page.get_by_role("toolbar").get_by_role("button", name="Resolve").click()
    button = page.get_by_role("dialog").get_by_role("button", name="Resolve 1 task")
    expect(button).to_be_disabled()
    page.get_by_label("Remark").fill("paid by hand")
    button.click()
    expect(row(page, task_id)).to_have_count(0)
    assert served.task(task_id)["status"] == "resolved"


def test_a_view_is_saved_under_a_name(visit, waiting):
    """Spec: X7"""
    creator, _ = waiting
    page = visit(f"/tasks?creator={creator}")
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of the view").fill("my own")
    page.get_by_role("button", name="Save this view").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Reset").click()
    expect(page).to_have_url(re.compile("/tasks$"))
    page.reload()
    page.get_by_role("button", name="All tasks").click()
    page.get_by_role("menuitem", name="my own").click()
    expect(rows(page)).to_have_count(3)


def test_columns_are_chosen_and_remembered(visit, waiting):
    """Spec: X7"""
    creator, _ = waiting
    page = visit(f"/tasks?creator={creator}")
    expect(page.get_by_role("columnheader", name="Creator")).to_have_count(0)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Creator").check()
    page.keyboard.press("Escape")
    page.reload()
    expect(page.get_by_role("columnheader", name="Creator")).to_be_visible()
    expect(rows(page).first).to_contain_text(str(creator))


def test_a_csv_file_holds_what_is_shown_and_no_formula(visit, served, tmp_path):
    """Spec: X7"""
    served.submit("greet", {"name": "x"}, name='=HYPERLINK("http://example.org")', creator=77, delay_seconds=FAR)
    served.submit("greet", {"name": "y"}, name="plain, with a comma", creator=77, delay_seconds=FAR)
    page = visit("/tasks?creator=77")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Name").check()
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export CSV").click()
    download.value.save_as(tmp_path / "tasks.csv")
    with (tmp_path / "tasks.csv").open(encoding="utf-8-sig", newline="") as file:
        found = list(csv.DictReader(file))
    assert [line["Name"] for line in found] == ["plain, with a comma", '\'=HYPERLINK("http://example.org")']
    assert [line["State"] for line in found] == ["pending", "pending"]


def test_hands_stay_on_the_keyboard(visit, waiting):
    """Spec: X7"""
    creator, ids = waiting
    page = visit(f"/tasks?creator={creator}")
    expect(rows(page)).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/tasks/{ids[1]}$"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Overview")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type(str(ids[2]))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/tasks/{ids[2]}$"))
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()


def test_an_error_is_named_first_and_without_its_modules(visit, served):
    """Spec: X7"""
    served.submit("unknown", creator=87)
    page = visit("/tasks?creator=87")
    expect(rows(page).locator("td").last).to_have_text("Fatal: nobody knows it")


def test_long_arguments_end_before_the_next_column(visit, served):
    """Spec: X7"""
    long = {"name": "x" * 70, "more": "y" * 70}
    ids = [served.submit("greet", ext, delay_seconds=FAR, creator=88) for ext in ({"name": "n"}, long)]
    page = visit("/tasks?creator=88")
    short_one, long_one = (between_columns(page, row(page, task_id).locator("td").nth(4)) for task_id in ids)
    assert short_one == long_one


def between_columns(page, cell):
    """A picture of the room behind a cell's text."""
    box = cell.bounding_box()
    clip = {"x": box["x"] + box["width"] - 8, "y": box["y"], "width": 8, "height": box["height"]}
    return page.screenshot(clip=clip, animations="disabled")
