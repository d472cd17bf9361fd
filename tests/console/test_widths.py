"""Every page on every screen: with long names, long keys and long errors, nothing is wider than there is room."""

import pytest

from tests.console.conftest import Served, expect, until
from tests.console.receiver import let_it_call, receiving
from tests.console.shop import MODULE

WIDTHS = (1440, 1280, 768, 400)
TYPE = "synchronise_subscription_metadata_from_the_remote_provider"
LANE = "customer-exports-eu-central-1-low-priority"
NAME = "Nightly-export-of-the-invoices-of-every-customer-in-Europe"
REASON = "The provider is down for maintenance until Thursday evening, see incident INC-20261118-0042"
LONG = f"""

@app.task(need_manual=True, lane="{LANE}", mutex="account:{{account}}")
async def {TYPE}(account: str) -> None:
    raise ConnectionError(f"https://{"x" * 200}.example.org/api/v4/{{account}}: refused")
"""
PAGES = (
    "/", "/tasks", "/events", "/queue", "/subscriptions", "/keys", "/desk", "/periodic", "/periodic?id=1", "/types",
    f"/types?code={TYPE}", "/callbacks", "/compensation", "/tasks/{dead}", "/tasks/{waiting}", "/tasks/{told}",
)  # fmt: skip
TOO_WIDE = """() => {
  const found = [];
  const look = (what, { scrollWidth, clientWidth }) => {
    if (scrollWidth > clientWidth) found.push(`${what}: ${scrollWidth} px in ${clientWidth}`);
  };
  look("the page", document.documentElement);
  look("its content", document.querySelector("main"));
  for (const frame of document.querySelectorAll("[data-scrolls]")) {
    look(frame.querySelector("table")?.ariaLabel ?? frame.innerText.slice(0, 40), frame);
  }
  return found;
}"""
SILENT = """() => [...document.querySelectorAll("main tbody button:not(details button)")]
  .filter((button) => {
    const word = button.innerText.trim().toLowerCase();
    return word === "" || !(button.ariaLabel ?? word).toLowerCase().includes(word);
  })
  .map((button) => button.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with a handler of a long name, that may call this machine."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(MODULE + LONG)
    let_it_call(folder)
    server = Served(folder, "--pack", "media")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def crowded(served):
    """Something long on every page: which tasks to look at."""
    about = {"name": NAME, "correlation_id": "9f1c5c2b-3d90-4f1c-8c2b-3d904f1c8c2b", "category": NAME}
    account = "DE89370400440532013000-savings-and-current-accounts"
    dead = served.submit(TYPE, {"account": account}, **about)
    served.reached(dead, "dead")
    with receiving() as receiver:
        receiver.status = 410
        greeting = served.ask("GET", "/api/task-types/greet")
        greeting["config"]["callback"] = {"success": {"url": receiver.address}}
        served.ask("PUT", "/api/task-types/greet", greeting)
        told = served.submit("greet", {"name": NAME})
        until(lambda: served.ask("GET", "/api/callbacks?status=undeliverable")["items"], bool)
    for scope in (f"lane:{LANE}", f"type:{TYPE}", "type:parse"):
        served.ask("POST", f"/api/queue/pause?scope={scope}", {"reason": REASON})
    waiting = served.submit(TYPE, {"account": account}, **about)
    made = served.ask("POST", "/api/subscriptions", {"name": NAME, "url": "https://videos.example.org/list"})
    served.ask("POST", "/api/requests/enqueue", {"type": "parse", "subscription_id": made["id"]})
    schedule = {
        "type": TYPE, "cron_expressions": "0,15,30,45 8-18 1,11,21 1,4,7,10 MON-FRI", "status": "online",
        "timezone": "America/Argentina/Buenos_Aires", "ext": {"account": account}, "task": {"name": NAME},
    }  # fmt: skip
    assert served.ask("POST", "/api/periodic-tasks", schedule)["id"] == 1
    return {"dead": dead, "waiting": waiting, "told": told}


def addresses(crowded):
    return [path.format(**crowded) for path in PAGES]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_and_no_table_is_wider_than_the_screen(visit, served, crowded, width):
    """Spec: X7"""
    page = visit("/", viewport={"width": width, "height": 900}, reduced_motion="reduce")
    found = {}
    for path in addresses(crowded):
        page.goto(served.address + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("main").get_by_role("table").or_(page.locator("main h2")).first).to_be_visible()
        if path == "/":
            expect(page.get_by_label("Needs attention")).to_contain_text(REASON)
        if too_wide := page.evaluate(TOO_WIDE):
            found[path] = too_wide
    assert found == {}


def test_every_button_of_a_row_has_a_word_on_it_which_its_name_repeats(visit, served, crowded):
    """Spec: X7"""
    page = visit("/", reduced_motion="reduce")
    seen, found = 0, {}
    for path in addresses(crowded):
        page.goto(served.address + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("main").get_by_role("table").or_(page.locator("main h2")).first).to_be_visible()
        if path == "/":
            expect(page.get_by_label("Needs attention")).to_contain_text(REASON)
        seen += page.locator("main tbody button:not(details button)").count()
        if silent := page.evaluate(SILENT):
            found[path] = silent
    assert found == {}
    assert seen > 20


def test_on_a_phone_a_row_is_a_card_that_names_what_it_holds(visit, crowded):
    """Spec: X7"""
    page = visit("/", viewport={"width": 400, "height": 860})
    lane = page.get_by_role("table", name="Lanes").get_by_role("row").filter(has_text=LANE)
    expect(lane).to_be_visible()
    heads = "cell => getComputedStyle(cell, '::before').content"
    assert [cell.evaluate(heads) for cell in lane.get_by_role("cell").all()][:4] == [
        '"Running"', '"Queued"', '"Blocked"', '"Delayed"',
    ]  # fmt: skip
    expect(lane.get_by_role("button", name=f"Resume {LANE}")).to_be_visible()
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.get_by_role("columnheader", name="Queued")).to_be_visible()
    assert lane.get_by_role("cell").first.evaluate(heads) == "none"
