"""The page of subscriptions: how much of each is here, what its buttons begin, and the cookies of sites."""

import re
from collections.abc import Iterator

import pytest

from headgate.core.task import NewTask, TaskType
from headgate.outward.sealing import Seals
from headgate.packs.media.cookies import Cookies
from headgate.packs.media.items import Items, ListedItem
from headgate.packs.media.subscriptions import Subscriptions
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import Store, open_store
from tests.console.conftest import Served, expect
from tests.console.shop import MODULE

SERVER_SECRET = "what the server keeps to itself"  # noqa: S105 of nobody
CANARY = "canary4711"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that can seal, and whose lanes are paused: what is asked of sites stays open."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(MODULE)
    (folder / ".env").write_text(f"HEADGATE_SECRET={SERVER_SECRET}\n")
    server = Served(folder, "--pack", "media")
    server.start()
    for lane in ("no_cookie", "requires_cookie"):
        server.ask("POST", f"/api/queue/pause?scope={lane}")
    yield server
    server.stop()


@pytest.fixture
def store(served) -> Iterator[Store]:
    with open_store(f"sqlite:///{served.folder}/headgate.db") as opened:
        yield opened


def create(served, name):
    body = {"name": name, "url": f"https://videos.example.org/{name}"}
    return served.ask("POST", "/api/subscriptions", body)["id"]


def row(page, name):
    return page.get_by_role("table", name="Subscriptions").get_by_role("row").filter(has_text=name)


def owner(store):
    """Of an execution that nobody else takes: what handlers write, they write as one."""
    store.types.put(TaskType("tester"))
    made = store.tasks.submit(NewTask("tester"))
    request = ClaimRequest(store.workers.register("tester"), 1, ids=frozenset({made.id}))
    [execution] = store.claims.take(request).executions
    return {"task_id": execution.id, "exec_id": execution.exec_id}


def test_a_subscription_is_made_asked_for_and_deleted(visit, served):
    """Spec: C11, C5"""
    page = visit("/subscriptions")
    expect(page.get_by_role("heading", level=1, name="Subscriptions")).to_be_visible()
    page.get_by_role("button", name="New subscription").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Birds")
    dialog.get_by_label("Address of the list").fill("no address")
    dialog.get_by_role("button", name="New subscription").click()
    expect(dialog).to_contain_text("begins with https://")
    dialog.get_by_label("Address of the list").fill("https://videos.example.org/birds")
    dialog.get_by_role("button", name="New subscription").click()
    expect(dialog).to_have_count(0)
    expect(row(page, "Birds")).to_contain_text("never")
    [birds] = [each for each in served.ask("GET", "/api/subscriptions")["items"] if each["name"] == "Birds"]

    button = page.get_by_role("button", name="Download: Birds")
    listed = page.get_by_role("button", name="Download from last list: Birds")
    expect(button).not_to_have_attribute("aria-disabled", "true")
    expect(listed).to_have_attribute("aria-description", "The list was never fetched: refresh it first.")
    button.click()
    expect(page.get_by_text("Birds: Download, 1 request")).to_be_visible()
    [request] = served.ask("GET", f"/api/subscriptions/{birds['id']}/tasks")["items"]
    busy = f"Fetch list (request {request['id']}) is queued"
    expect(row(page, "Birds")).to_contain_text(busy)
    for name in ("Count items", "Refresh list", "Download"):
        each = page.get_by_role("button", name=f"{name}: Birds", exact=True)
        expect(each).to_have_attribute("aria-disabled", "true")
        expect(each).to_have_attribute("aria-description", busy)
    button.click(force=True)
    assert len(served.ask("GET", f"/api/subscriptions/{birds['id']}/tasks")["items"]) == 1
    served.ask("POST", f"/api/requests/{request['id']}/cancel")
    expect(button).not_to_have_attribute("aria-disabled", "true")
    page.get_by_role("button", name="Count items: Birds").click()
    expect(row(page, "Birds")).to_contain_text("Expected total (request")

    page.get_by_role("button", name="Delete: Birds").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("including running ones")
    asked.get_by_role("button", name="Delete").click()
    expect(row(page, "Birds")).to_have_count(0)
    statuses = [each["status"] for each in served.ask("GET", f"/api/requests?subscription_id={birds['id']}")["items"]]
    assert statuses == ["canceled", "canceled"]


def test_how_much_is_here_is_shown_live_in_both_languages(visit, served, store):
    """Spec: C11"""
    fish = create(served, "Fish")
    page, chinese = visit("/subscriptions"), visit("/subscriptions", locale="zh-CN")
    expect(row(page, "Fish")).to_contain_text("–")
    request = served.ask("GET", f"/api/subscriptions/{fish}/expected-total")["id"]
    expect(row(page, "Fish")).to_contain_text(f"Expected total (request {request}) is queued")
    expect(chinese.get_by_role("row").filter(has_text="Fish")).to_contain_text(f"预期总数（请求 {request}）排队中")
    mine = owner(store)
    items = [ListedItem(f"v{number}", number, "A fish", "https://example.org") for number in range(3)]
    Items(store.database).put_items(fish, items, **mine)
    Items(store.database).mark_downloaded(fish, "v1", path="v1", bytes=1, **mine)
    Subscriptions(store.database).set_expected_total(fish, 999, **mine)
    served.ask("POST", f"/api/requests/{request}/prioritize", {"priority": 1})  # something happens in the queue
    expect(row(page, "Fish").get_by_role("meter")).to_have_attribute("aria-valuetext", "1 / 3")
    expect(row(page, "Fish")).to_contain_text("999")
    expect(chinese.get_by_role("heading", level=1, name="订阅")).to_be_visible()


def test_a_request_that_failed_leaves_its_error_with_the_subscription(visit, served):
    """Spec: C11"""
    frogs = create(served, "Frogs")
    page = visit("/subscriptions")
    expect(row(page, "Frogs")).to_contain_text("never")
    failed = served.submit("download", {"subscription_id": frogs}, lane="default")  # of no address
    served.reached(failed, "failed")
    page.reload()  # what is in another lane is none of the events that this page hears
    link = row(page, "Frogs").get_by_role("link", name="Download failed")
    expect(link).to_contain_text("Fatal: download wants the url of an item")
    link.click()
    expect(page).to_have_url(re.compile(f"/tasks/{failed}$"))


def test_a_cookie_is_put_and_enabled_again_and_never_shown(visit, served, store):
    """Spec: C9"""
    page = visit("/subscriptions")
    page.get_by_role("button", name="Add cookie").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Site").fill("example.org")
    dialog.get_by_role("textbox", name="Cookie").fill("nonsense")
    dialog.get_by_role("button", name="Add cookie").click()
    expect(dialog).to_contain_text("not NAME=VALUE")
    dialog.get_by_role("textbox", name="Cookie").fill(f"SESSDATA={CANARY}")
    dialog.get_by_role("button", name="Add cookie").click()
    expect(dialog).to_have_count(0)
    cookies = page.get_by_role("table", name="Cookies")
    expect(cookies.get_by_role("row").filter(has_text="example.org")).to_contain_text("in use")
    kept = Cookies(store.database, Seals([SERVER_SECRET]))
    assert CANARY in kept.content(kept.find()[0])
    assert CANARY not in page.content()

    kept.count_failure(kept.find()[0], "Forbidden", limit=1, **owner(store))
    disabled = cookies.get_by_role("row").filter(has_text="example.org")
    expect(disabled).to_contain_text("disabled")
    expect(disabled).to_contain_text("Forbidden")
    disabled.get_by_role("button", name="Enable").click()
    expect(disabled).to_contain_text("in use")
    disabled.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(cookies).to_have_count(0)
    assert served.ask("GET", "/api/cookies") == {"items": []}


@pytest.mark.parametrize(("path", "asked"), [("/subscriptions", "/api/subscriptions"), ("/queue", "/api/requests")])
def test_without_live_events_the_pages_of_the_pack_ask_every_two_seconds(visit, path, asked):
    """Spec: C11"""
    page = visit(path, clock=True)
    page.context.route("**/api/events**", lambda route: route.abort())
    page.reload()
    expect(page.get_by_text("Not live")).to_be_visible()
    with page.expect_request(re.compile(rf"{asked}\?")):
        page.clock.run_for(2_000)
