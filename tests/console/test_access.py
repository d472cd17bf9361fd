"""For everybody: those who do not see, who read Chinese, who like it dark, who hold a phone."""

import re
from pathlib import Path

import pytest

from tests.console.conftest import expect

AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = (
    "/", "/tasks", "/events", "/queue", "/subscriptions", "/keys", "/desk", "/periodic", "/types", "/callbacks",
    "/compensation",
)  # fmt: skip
TEXTS = "button, h1, h2, h3, thead th, label, legend"
LATIN, CHINESE = re.compile("[A-Za-z]{3,}"), re.compile("[\u4e00-\u9fff]")
CHECK = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`);
}"""


@pytest.fixture(scope="module")
def busy(served):
    """Something on every page; a task that tells everything a task can."""
    for number in range(3):
        served.submit("invoice", {"number": number})
        served.ask("POST", "/api/requests/enqueue", {"type": "parse", "subscription_id": number})
    served.submit("held", {"name": "busy"}, delay_seconds=3600)
    parent = served.submit("parent")
    served.reached(parent, "succeeded")
    return parent


def findings(page):
    page.evaluate(AXE.read_text())
    return page.evaluate(CHECK)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_barrier(visit, served, busy, scheme):
    """Spec: X7"""
    page = visit("/", color_scheme=scheme, reduced_motion="reduce")
    found = {}
    for path in (*PAGES, f"/tasks/{busy}"):
        page.goto(served.address + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("main").get_by_role("table").or_(page.locator("main h2")).first).to_be_visible()
        if problems := findings(page):
            found[path] = problems
    assert found == {}


def test_dialogs_have_no_serious_barrier(visit, served, busy):
    """Spec: X7"""
    page = visit(f"/tasks/{busy}", reduced_motion="reduce")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("button", name="Retry 1 task")).to_be_visible()
    assert findings(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert findings(page) == []


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_shows_every_page_without_scrolling_sideways(visit, busy, path):
    """Spec: X7"""
    page = visit(path, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Tasks", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Tasks")).to_be_visible()


def test_a_table_that_is_too_wide_all_the_same_shows_that_it_scrolls(visit, busy):
    """Spec: X7"""
    page = visit("/", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    frame = page.locator("[data-scrolls]").filter(has=page.get_by_role("table", name="Lanes"))
    expect(frame).to_have_attribute("data-more", "no")
    frame.get_by_role("table").evaluate("table => { table.style.width = '40rem'; }")
    frame.evaluate("frame => frame.dispatchEvent(new Event('scroll'))")
    expect(frame).to_have_attribute("data-more", "right")
    frame.evaluate("frame => { frame.scrollLeft = 20; }")
    expect(frame).to_have_attribute("data-more", "both")
    frame.evaluate("frame => { frame.scrollLeft = frame.scrollWidth; }")
    expect(frame).to_have_attribute("data-more", "left")
    page = visit("/")
    frame = page.locator("[data-scrolls]").filter(has=page.get_by_role("table", name="Lanes"))
    expect(frame).to_have_attribute("data-more", "no")


def test_a_task_fits_a_phone(visit, busy):
    """Spec: X7"""
    page = visit(f"/tasks/{busy}", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    expect(page.get_by_text("Timeline")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_every_text_is_there_in_chinese_and_the_choice_is_remembered(visit, served, busy):
    """Spec: X7"""
    names = {"CPU", "Cookie", f"#{busy} parent"}
    names |= {each["code"] for each in served.ask("GET", "/api/task-types")["items"]}
    names |= {each["name"] for each in served.ask("GET", "/api/lanes")["items"]}
    page = visit("/")
    page.get_by_text("中文").click()
    expect(page.get_by_role("heading", level=1, name="总览")).to_be_visible()
    page.reload()
    untold = {}
    for path in (*PAGES, f"/tasks/{busy}"):
        page.goto(served.address + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("实时", exact=True)).to_be_visible()
        texts = page.locator("main").locator(TEXTS).all_text_contents()
        untold[path] = {text for text in texts if LATIN.search(text) and not CHINESE.search(text)} - names
    assert {path: texts for path, texts in untold.items() if texts} == {}
    assert page.evaluate("document.documentElement.lang") == "zh"
    page.get_by_text("English").click()
    page.goto(served.address)
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()


def test_somebody_who_reads_chinese_is_greeted_in_chinese(visit):
    """Spec: X7"""
    page = visit("/", locale="zh-CN")
    expect(page.get_by_role("heading", level=1, name="总览")).to_be_visible()


def test_dark_and_light_are_chosen_and_remembered(visit):
    """Spec: X7"""
    page = visit("/", color_scheme="light")
    root = page.locator("html")
    expect(root).to_have_attribute("data-mantine-color-scheme", "light")
    page.get_by_role("button", name="Dark colours").click()
    expect(root).to_have_attribute("data-mantine-color-scheme", "dark")
    page.reload()
    expect(root).to_have_attribute("data-mantine-color-scheme", "dark")


def test_reasons_and_events_are_told_in_chinese(visit, served):
    """Spec: X7"""
    dead = served.submit("invoice", {"number": 12})
    served.reached(dead, "dead")
    served.ask("POST", "/api/queue/pause?scope=lane:narrow", {"reason": "维护"})
    held = served.submit("held", {"name": "chinese"})
    page = visit(f"/tasks/{dead}", locale="zh-CN")
    expect(page.get_by_text("此类错误从不重试 · ValueError: invoice 12 has no address")).to_be_visible()
    page.goto(f"{served.address}/tasks/{held}")
    expect(page.get_by_text("通道 narrow 已暂停：维护").first).to_be_visible()
    expect(page.get_by_text("narrow：").first).to_be_visible()
    served.ask("POST", f"/api/tasks/{held}/cancel")
    served.ask("POST", f"/api/tasks/{dead}/discard")
    served.ask("POST", "/api/queue/resume?scope=lane:narrow")
