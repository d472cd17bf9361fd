"""The panel of the broker on the overview: that it is away, and how it is going otherwise."""

import json

import pytest

from headgate.store.store import open_store
from tests.console.conftest import Served, expect
from tests.console.shop import MODULE


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server whose broker is away."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(MODULE)
    without = Served(folder, "--broker", "amqp://guest:secret-word@127.0.0.1:1/")
    without.start()
    yield without
    without.stop()


def test_the_panel_says_that_the_broker_is_away_and_how_it_is_going_once_it_is_there(visit, served):
    """Spec: X7, D11"""
    page = visit("/")
    panel = page.get_by_role("region", name="RabbitMQ")
    expect(panel.get_by_text("disconnected", exact=True)).to_be_visible()
    expect(panel).to_contain_text("Meanwhile, workers claim tasks from the store")
    served.reached(served.submit("greet"), "succeeded")
    assert "secret-word" not in page.content()

    said = {"process": "box-7", "messages": {"published": 41, "unconfirmed": 2, "resent": 3}, "dead_letters": 4}
    takes = {"pools": [{"types": ["letter"], "slots": 2}], "broker": True, "deliveries": {"redelivered": 5, "stale": 6}}
    with open_store(f"sqlite:///{served.folder}/headgate.db") as store:
        leader = store.dispatch.lead(600.0, json.dumps(said))
        assert leader is not None
        store.workers.register("elsewhere", types=["letter"], detail=json.dumps(takes), lease_seconds=600.0)
        served.ask("PUT", "/api/task-types/letter", {"config": {}})
        for _ in range(2):
            served.submit("letter")
        assert len(store.dispatch.take(leader).handovers) == 2
    expect(panel.get_by_text("connected to 127.0.0.1:1")).to_be_visible()
    expect(panel).not_to_contain_text("workers claim tasks")
    figures = panel.locator("dl > div")
    for name, value in {
        "Dispatcher": "box-7",
        "Consumers": "1",
        "Queues": "1",
        "Not started": "2",
        "Unconfirmed": "2",
        "Sent again": "3",
        "Redelivered": "5",
        "Stale": "6",
        "Dead letters": "4",
    }.items():
        expect(figures.filter(has_text=name).locator("dd")).to_contain_text(value)
    queue = panel.get_by_role("row").filter(has_text="headgate.tasks.default.letter")
    expect(queue.get_by_role("cell").first).to_have_text("2")
    chinese = visit("/", locale="zh-CN").get_by_role("region", name="RabbitMQ")
    expect(chinese).to_contain_text("已连接")
