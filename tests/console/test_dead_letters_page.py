"""Dead letters: what went wrong at a glance; mended and replayed, resolved, discarded."""

import pytest

from tests.console.conftest import Served, expect
from tests.console.shop import MODULE

LETTER = """

@app.task(need_manual=True)
async def letter(number: int, address: str = "") -> str:
    if not address:
        raise ValueError(f"letter {number} has no address")
    return f"{number} to {address}"
"""
BIG = 12345678901234567890123


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server whose letters fail until they have an address."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(MODULE + LETTER)
    server = Served(folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def dead(served):
    """Makes dead letters."""

    def died(*numbers):
        tasks = [served.submit("letter", {"number": number}) for number in numbers]
        for task_id in tasks:
            served.reached(task_id, "dead")
        return tasks

    return died


def test_one_is_mended_and_replayed_after_a_look_at_what_changes(visit, served, dead):
    """Spec: D12, X7"""
    (task_id,) = dead(BIG)
    page = visit("/desk")
    row = page.get_by_role("row").filter(has_text=str(BIG))
    expect(row).to_contain_text(f"ValueError: letter {BIG} has no address")
    row.get_by_role("button", name=f"Edit and replay task {task_id}").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Arguments (JSON)").fill('{"number": 7, ')
    form.get_by_role("button", name="Preview").click()
    expect(form).to_contain_text("Not valid JSON")
    form.get_by_label("Arguments (JSON)").fill(f'{{"number": {BIG}, "address": "Elm 5"}}')
    form.get_by_role("button", name="Preview").click()
    changes = form.get_by_role("list", name="What will change")
    expect(changes).to_contain_text('"Elm 5"')
    expect(changes).not_to_contain_text("ext.number")
    assert served.task(task_id)["status"] == "dead"
    form.get_by_role("button", name="Replay 1 task").click()
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
    assert served.reached(task_id, "succeeded")["result"] == f"{BIG} to Elm 5"


def test_many_get_the_same_address_at_once(visit, served, dead):
    """Spec: D12, X7"""
    tasks = dead(11, 12)
    page = visit("/desk")
    page.get_by_label("Select all shown").check()
    page.get_by_role("toolbar").get_by_role("button", name="Edit and replay").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Arguments to change in each (JSON)").fill('{"address": "Oak 1"}')
    form.get_by_role("button", name="Preview").click()
    expect(form.get_by_role("list", name="What will change").locator("> li")).to_have_count(2)
    form.get_by_role("button", name="Replay 2 tasks").click()
    expect(form).to_have_count(0)
    for task_id in tasks:
        assert served.reached(task_id, "succeeded")["result"].endswith("to Oak 1")


def test_they_are_resolved_with_a_remark_or_discarded_after_a_dry_run(visit, served, dead):
    """Spec: D12, X7"""
    first, second, third = dead(21, 22, 23)
    page = visit("/desk")
    for task_id in (first, second):
        page.get_by_label(f"Select task {task_id}", exact=True).check()
    page.get_by_role("toolbar").get_by_role("button", name="Resolve").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It would apply to 2 tasks.")
    expect(dialog.get_by_role("button", name="Resolve 2 tasks")).to_be_disabled()
    dialog.get_by_label("Remark").fill("sent by hand")
    dialog.get_by_role("button", name="Resolve 2 tasks").click()
    expect(page.get_by_label(f"Select task {first}", exact=True)).to_have_count(0)
    assert {served.task(task_id)["remark"] for task_id in (first, second)} == {"sent by hand"}

    page.get_by_role("button", name=f"Discard task {third}").click()
    dialog.get_by_role("button", name="Discard 1 task").click()
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
    assert served.task(third)["status"] == "failed"


def test_groups_and_totals_are_of_all_letters_though_a_page_is_loaded(visit, served):
    """Spec: D12, X7"""
    letters = [{"type": "letter", "ext": {"number": number}} for number in range(70)]
    others = [{"type": "invoice", "ext": {"number": number}} for number in range(3)]
    made = served.ask("POST", "/api/tasks/bulk", {"tasks": others + letters})
    for each in made["tasks"]:
        served.reached(each["id"], "dead")
    page = visit("/desk")
    groups = page.get_by_role("region", name="What went wrong")
    expect(groups).to_contain_text("70 × letter")
    expect(groups).to_contain_text("3 × invoice")
    groups.get_by_role("button", name="3 × invoice").click()
    expect(page.get_by_role("table", name="Dead letters").locator("tbody tr")).to_have_count(3)
    page = visit("/")
    expect(page.get_by_text("73 dead letters")).to_be_visible()
