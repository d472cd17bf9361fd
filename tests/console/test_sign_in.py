"""Behind keys: who signs in, what they see, and how the first key does not lock its maker out."""

import re

import pytest

from headgate.core.keys import Role
from headgate.store.store import open_store
from tests.console.conftest import Served, expect
from tests.console.shop import MODULE


@pytest.fixture
def locked(tmp_path):
    """A server with an operator's key."""
    (tmp_path / "shop.py").write_text(MODULE)
    server = Served(tmp_path)
    server.start()
    with open_store(f"sqlite:///{tmp_path}/headgate.db") as store:
        server.key = store.keys.add("ann", Role.OPERATOR)[1]
    yield server
    server.stop()


def sign_in(page, key):
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_a_key_opens_the_console_and_is_kept_nowhere(visit, locked):
    """Spec: X7"""
    page = visit("/tasks", server=locked)
    sign_in(page, "hg_1_" + "0" * 56)
    expect(page.get_by_text("This key is not valid.")).to_be_visible()
    sign_in(page, locked.key)
    expect(page.get_by_role("heading", level=1, name="Tasks")).to_be_visible()
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert locked.key not in kept
    [cookie] = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (
        "__Host-headgate", True, True, "Strict",
    )  # fmt: skip
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    task_id = locked.submit("held", {"name": "x"}, delay_seconds=3600)
    page.goto(f"{locked.address}/tasks/{task_id}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel 1 task").click()
    expect(page.get_by_role("listitem").filter(has_text="Cancelled")).to_contain_text("by key:1 ann")


def test_whoever_signs_out_is_out(visit, locked):
    """Spec: X7"""
    page = visit("/", server=locked)
    sign_in(page, locked.key)
    page.get_by_role("button", name="ann").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert page.context.cookies() == []


def test_a_session_that_ends_leads_back_to_the_sign_in(visit, locked):
    """Spec: X7"""
    page = visit("/tasks", server=locked)
    sign_in(page, locked.key)
    expect(page.get_by_role("heading", level=1, name="Tasks")).to_be_visible()
    with open_store(f"sqlite:///{locked.folder}/headgate.db") as store:
        store.keys.revoke(1)
        expect(page.get_by_label("API key")).to_be_visible()


def test_who_may_only_read_sees_no_button_that_acts(visit, locked):
    """Spec: X7, B11"""
    with open_store(f"sqlite:///{locked.folder}/headgate.db") as store:
        tenants = store.keys.add("tenant", Role.READ, tenant_id=7)[1]
    page = visit("/", server=locked)
    sign_in(page, tenants)
    expect(page.get_by_role("table", name="Lanes")).to_be_visible()
    for name in ("Pause everything", "Pause default"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("link", name="Keys")).to_have_count(0)
    expect(page.locator("canvas")).to_have_count(0)  # the charts are of all tenants
    page.goto(locked.address + "/keys")
    expect(page.get_by_role("alert")).to_contain_text("Your key may not do this")
    expect(page.get_by_role("button", name="New key")).to_have_count(0)


def test_the_first_key_is_shown_once_and_its_maker_stays_in(visit, served):
    """Spec: X7"""
    page = visit("/keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("root")
    page.get_by_role("dialog").get_by_role("button", name="New key").click()
    shown = page.get_by_role("dialog").get_by_text(re.compile(r"^hg_1_[0-9a-f]{56}$"))
    expect(shown).to_be_visible()
    served.key = shown.text_content()
    page.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_role("row").filter(has_text="root")).to_contain_text("active")
    expect(page.get_by_role("button", name="key:1 root")).to_be_visible()

    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("reader")
    page.get_by_role("combobox", name="Role").click()
    page.get_by_role("option", name="may read").click()
    page.get_by_role("dialog").get_by_role("button", name="New key").click()
    page.get_by_role("button", name="I have copied it").click()
    reader = page.get_by_role("row").filter(has_text="reader")
    expect(reader).to_contain_text("active")
    reader.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(reader).to_contain_text("revoked")
    keys = served.ask("GET", "/api/keys")["items"]
    assert [(key["name"], key["revoked_at"] is None) for key in keys] == [("reader", False), ("root", True)]
