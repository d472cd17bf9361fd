"""What somebody does is seen by everybody, at once; and after the server was away, nothing is missed."""

import base64

import pytest

from tests.console.conftest import Served, expect
from tests.console.shop import MODULE


@pytest.fixture
def restarted(tmp_path):
    """A server that the test may stop and start."""
    (tmp_path / "shop.py").write_text(MODULE)
    server = Served(tmp_path)
    server.start()
    yield server
    server.stop()


def test_two_browsers_see_each_others_actions(visit, served):
    """Spec: X7"""
    task_id = served.submit("held", {"name": "never"}, delay_seconds=3600)
    ann, bob = visit(f"/tasks/{task_id}"), visit("/tasks")
    row = bob.get_by_test_id("tasks").get_by_role("row").filter(has_text=str(task_id))
    expect(row).to_contain_text("pending")
    ann.get_by_role("button", name="Cancel").click()
    ann.get_by_label("Reason").fill("nobody wants it")
    ann.get_by_role("button", name="Cancel 1 task").click()
    expect(row).to_contain_text("cancelled")
    expect(ann.get_by_role("heading", level=1)).to_contain_text(str(task_id))
    expect(ann.get_by_text("nobody wants it").first).to_be_visible()


def test_nothing_is_asked_again_and_again_while_it_is_connected(visit, served):
    """Spec: X7"""
    page = visit("/tasks", clock=True)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    task_id = served.submit("greet", {"name": "quiet"})
    expect(page.get_by_role("row").filter(has_text=str(task_id))).to_contain_text("succeeded")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(120_000)  # anything that polls would
    assert [url for url in asked if "/api/" in url] == []


def test_after_the_server_was_away_the_page_goes_on_by_itself(visit, restarted):
    """Spec: X7, C12"""
    server = restarted
    first = server.submit("greet", {"name": "before"})
    page = visit("/tasks", server=server)
    expect(page.get_by_role("row").filter(has_text=str(first))).to_contain_text("succeeded")
    server.stop()
    expect(page.get_by_text("Not live")).to_be_visible()
    server.start()
    second = server.submit("greet", {"name": "after"})
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=str(second))).to_contain_text("succeeded")


GREEN = """async (picture) => {
  const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${picture}`)).blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const { data } = canvas.getImageData(0, 0, bitmap.width, bitmap.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 1] > data[at] + 30 && data[at + 1] > data[at + 2] + 15) found += 1;
  }
  return found;
}"""


@pytest.mark.parametrize("path", ["/", "/tasks"])
def test_a_dead_server_looks_dead(browser, visit, restarted, path):
    """Spec: X7"""
    server = restarted
    server.reached(server.submit("greet"), "succeeded")
    page = visit(path, server=server)
    eye = browser.new_page()  # its policy lets it look at pictures

    def green():
        picture = base64.b64encode(page.screenshot(animations="disabled")).decode()
        return eye.evaluate(GREEN, picture)

    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    assert green() > 0
    server.stop()
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_visible()
    assert green() == 0
    server.start()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert green() > 0
    eye.close()


def test_a_chart_without_data_says_so(visit, restarted):
    """Spec: X7"""
    page = visit("/", server=restarted)
    expect(page.locator("figure").filter(has_text="Latency")).to_contain_text("No data yet")
    restarted.reached(restarted.submit("greet"), "succeeded")
    expect(page.locator("figure").filter(has_text="Latency")).not_to_contain_text("No data yet")
