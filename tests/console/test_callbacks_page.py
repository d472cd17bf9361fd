"""Callbacks: what could not be delivered stands out, and is sent again by hand."""

import re
import sqlite3
from contextlib import closing
from functools import partial

import pytest

from tests.console.conftest import Served, expect, until
from tests.console.receiver import let_it_call, receiving
from tests.console.shop import MODULE


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server that may call this machine."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(MODULE)
    let_it_call(folder)
    server = Served(folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def receiver():
    with receiving() as receiver:
        yield receiver


def tell(served, type_code, address):
    kind = served.ask("GET", f"/api/task-types/{type_code}")
    kind["config"]["callback"] = {"success": {"url": address}}
    served.ask("PUT", f"/api/task-types/{type_code}", kind)


def test_an_empty_page_says_where_callbacks_are_set(visit):
    """Spec: B6, X7"""
    page = visit("/callbacks")
    expect(page.get_by_role("heading", name="No callbacks yet")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Task types").click()
    expect(page).to_have_url(re.compile("/types$"))


def test_what_could_not_be_delivered_stands_out_and_is_sent_again(visit, served, receiver):
    """Spec: B6, X7"""
    tell(served, "greet", receiver.address)
    page = visit("/callbacks")
    receiver.status = 410
    task_id = served.submit("greet", {"name": "Ada"})
    row = page.get_by_role("table", name="Callbacks").get_by_role("row").filter(has_text=str(task_id))
    expect(row).to_contain_text("undeliverable")
    expect(row).to_contain_text("410")
    expect(page.get_by_role("region", name="undeliverable")).to_contain_text("1 callback could not be delivered")

    row.get_by_role("button", name=re.compile("Attempts of")).click()
    attempts = page.get_by_role("dialog")
    expect(attempts.get_by_role("listitem")).to_have_count(1)
    expect(attempts.get_by_role("listitem").first).to_contain_text("410")
    receiver.status = 204
    attempts.get_by_role("button", name="Send again").click()
    expect(attempts.get_by_role("listitem").first).to_contain_text("204")
    expect(attempts).to_contain_text("delivered")
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="undeliverable")).to_have_count(0)


def test_a_task_says_why_it_is_still_notifying_and_tells_again(visit, served, receiver):
    """Spec: B6, X3, X7"""
    tell(served, "greet", receiver.address)
    receiver.status = 410
    task_id = served.submit("greet", {"name": "Eve"})
    page = visit(f"/tasks/{task_id}")
    expect(page.get_by_role("listitem").filter(has_text="given up until someone sends it again")).to_be_visible()
    row = page.get_by_role("table", name="Callbacks").get_by_role("row").nth(1)
    expect(row).to_contain_text("undeliverable")
    receiver.status = 204
    row.get_by_role("button", name=re.compile("Send again")).click()
    expect(row).to_contain_text("delivered")
    served.reached(task_id, "succeeded")


def test_all_that_could_not_be_delivered_go_at_once_after_a_question(visit, served, receiver):
    """Spec: B6, X7"""
    tell(served, "greet", receiver.address)
    receiver.status = 410
    tasks = [served.submit("greet", {"name": name}) for name in ("Grace", "Joan")]
    page = visit("/callbacks?status=undeliverable")
    rows = page.get_by_role("table", name="Callbacks").locator("tbody tr")
    expect(rows).to_have_count(2)
    receiver.status = 204
    page.get_by_role("button", name="Send all again").click()
    expect(page.get_by_role("dialog")).to_contain_text("2 undeliverable callbacks")
    page.get_by_role("dialog").get_by_role("button", name="Send all again").click()
    expect(page.get_by_role("heading", name="No matching callbacks")).to_be_visible()
    for task_id in tasks:
        served.reached(task_id, "succeeded")


def test_one_that_lies_far_back_is_found_behind_pages_with_nothing_on_them(visit, served, receiver):
    """Spec: B6, X7"""
    for type_code in ("parent", "greet"):
        tell(served, type_code, receiver.address)
        receiver.status = 204
        served.submit(type_code)
        told = until(partial(served.ask, "GET", f"/api/callbacks?type={type_code}"), lambda page: page["items"])
    crowd(served, told["items"][0]["id"], 6_000)
    first = served.ask("GET", "/api/callbacks?type=parent")
    assert (first["items"], first["next_cursor"] is None) == ([], False)
    page = visit("/callbacks?type=parent")
    row = page.get_by_role("table", name="Callbacks").get_by_role("row").filter(has_text="parent")
    expect(row).to_have_count(1)


def crowd(served, pattern, count):
    """So many copies of a callback, behind it."""
    with closing(sqlite3.connect(served.folder / "headgate.db", timeout=60, isolation_level=None)) as connection:
        described = connection.execute("SELECT * FROM headgate_callback_delivery LIMIT 0").description
        columns = ", ".join(column[0] for column in described if column[0] not in ("id", "webhook_id"))
        connection.execute(
            f"""
            WITH RECURSIVE round(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM round WHERE number < {count})
            INSERT INTO headgate_callback_delivery (webhook_id, {columns})
            SELECT webhook_id || number, {columns} FROM round CROSS JOIN headgate_callback_delivery WHERE id = {pattern}
            """
        )
