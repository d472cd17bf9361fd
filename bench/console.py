"""`python -m bench.console`: how long the list of tasks takes to answer a hand, among a million of them, in a browser

Each is done in the page, and timed there: from the event until the frame that shows what was asked for.
"""

import argparse
import sys
from collections.abc import Iterator

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from bench.__main__ import places
from bench.http import server
from bench.measurement import EXT
from bench.percentile import percentile
from bench.place import Place
from bench.table import NAMES, grid
from headgate.core.machine import Raised, Returned
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from lab.chromium import QUIET, program
from lab.console import build
from lab.crowd import multiply

HEADS = ("p50 / p95 of an interaction, ms", "SQLite", "PostgreSQL", "target", "")
TARGET = 100.0
FULL, QUICK = 1_000_000, 100_000
ROUNDS, QUICK_ROUNDS = 20, 5
TYPES = 4
HOVER_MS = 200
SIZE = ViewportSize(width=1440, height=900)
# `until` is looked at in every frame; the frame behind the one in which it holds has been painted.
TIMED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const table = document.querySelector("[data-testid=tasks]");
  const rows = () => [...document.querySelectorAll("[data-testid=tasks] tbody tr")];
  const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const [act, until] = [ACT, UNTIL];
  const before = { top: rows()[0]?.getAttribute("aria-rowindex"), height: table?.scrollHeight };
  const begun = performance.now();
  act();
  while (!until(before)) {
    if (performance.now() - begun > 30_000) throw new Error(`never: ${until}`);
    await frame();
  }
  await frame();
  return performance.now() - begun;
}"""


def _fill(store: Store, url: str, count: int) -> None:
    """As many tasks in history as in line."""
    for number in range(TYPES):
        store.types.put(TaskType(f"type-{number}"))
    worker_id = store.workers.register("bench", lease_seconds=3600.0)
    store.tasks.submit_many([_new_task(number) for number in range(TYPES * 5)])
    claimed = store.claims.take(ClaimRequest(worker_id, TYPES * 5)).executions
    ends = [Raised("no") if number % 10 == 0 else Returned() for number in range(len(claimed))]
    store.executions.settle([Outcome(execution, end) for execution, end in zip(claimed, ends, strict=True)])
    while store.history.archive():
        pass
    store.tasks.submit_many([_new_task(number)._replace(delay_seconds=10**6) for number in range(TYPES * 5)])
    multiply(url, count // 2)


def _new_task(number: int) -> NewTask:
    return NewTask(f"type-{number % TYPES}", EXT, lane=f"lane-{number % 3}", creator=number % 7)


class Hand:
    """Somebody at the list."""

    def __init__(self, page: Page, address: str) -> None:
        self._page, self._address = page, address

    def steps(self) -> Iterator[tuple[str, float]]:
        """Once through everything: what it was, and how many milliseconds it took."""
        self._page.goto(self._address)
        self._page.get_by_role("heading", level=1, name="Overview").wait_for()
        self._page.get_by_text("Live", exact=True).wait_for()
        self._point("nav a[href='/tasks']")
        yield "open the list", self._timed("() => document.querySelector('nav a[href=\"/tasks\"]').click()", SOME)
        for _ in range(3):
            yield "scroll by a screen", self._timed("() => { table.scrollTop += 700; }", MOVED)
        yield "next row by keyboard", self._timed('() => press("j")', "() => table.querySelector('[data-current]')")
        yield "select it", self._timed('() => press("x")', "() => table.querySelector('[data-chosen]')")
        yield "read on behind the last row", self._timed("() => { table.scrollTop = table.scrollHeight; }", GROWN)
        self._page.get_by_role("combobox", name="Type").click()
        self._page.get_by_role("option", name="type-1").wait_for()
        yield "filter by type", self._timed(CHOOSE, ONE_TYPE)
        yield "clear the filter", self._timed(RESET, ALL_TYPES)
        self._point("[data-testid=tasks] tbody tr a[data-id]")
        open_first = "() => table.querySelector('tbody tr a[data-id]').click()"
        yield (
            "open a task",
            self._timed(open_first, "() => document.querySelector('main h1')?.textContent.includes('#')"),
        )

    def _point(self, selector: str) -> None:
        """A hand is there before it clicks, and the console begins to fetch the page."""
        self._page.locator(selector).first.hover()
        self._page.wait_for_timeout(HOVER_MS)

    def _timed(self, act: str, until: str) -> float:
        return float(self._page.evaluate(TIMED.replace("ACT", act).replace("UNTIL", until)))


SOME = "() => rows().length > 10"
MOVED = '(before) => rows().length > 10 && rows()[0].getAttribute("aria-rowindex") !== before.top'
GROWN = "(before) => table.scrollHeight > before.height"
CHOOSE = (
    """() => [...document.querySelectorAll("[role=option]")].find((each) => each.textContent === "type-1").click()"""
)
ONE_TYPE = """() => rows().length > 10 && rows().every((row) => row.querySelector("b")?.textContent === "type-1")"""
RESET = """() => [...document.querySelectorAll("main button")].find((each) => each.textContent === "Reset").click()"""
ALL_TYPES = """() => rows().length > 10 && rows().some((row) => row.querySelector("b")?.textContent !== "type-1")"""


def _measure(place: Place, browser: Browser, count: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    with place.fresh() as url:
        with open_store(url) as store:
            store.migrate()
            _fill(store, url, count)
        with server(url) as (port, _):
            for number in range(rounds + 1):
                context = browser.new_context(viewport=SIZE, locale="en-GB", reduced_motion="reduce")
                for title, took in Hand(context.new_page(), f"http://127.0.0.1:{port}").steps():
                    if number > 0:  # the first time everything is cold
                        found.setdefault(title, []).append(took)
                context.close()
    for title, times in found.items():
        print(NAMES[place.dialect], title, *(f"{each:.0f}" for each in sorted(times)), file=sys.stderr)
    return found


def rows(found: dict[str, dict[str, list[float]]]) -> Iterator[tuple[str, ...]]:
    for title in next(iter(found.values())):
        times = {name: measured[title] for name, measured in found.items()}
        values = {name: (percentile(each, 0.5), percentile(each, 0.95)) for name, each in times.items()}
        cells = [f"{values[name][0]:.0f} / {values[name][1]:.0f}" if name in values else "" for name in NAMES]
        met = all(p95 <= TARGET for _, p95 in values.values())
        yield (title, *cells, f"≤ {TARGET:g}", "met" if met else "missed")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="among 100,000, a few rounds: does it run, not how fast")
    parser.add_argument("--store", choices=list(NAMES), help="only this store")
    options = parser.parse_args()
    build()
    chromium, environment = program()
    count, rounds = (QUICK, QUICK_ROUNDS) if options.quick else (FULL, ROUNDS)
    words = [word for word in QUIET if word != "--headless"]
    with places([options.store] if options.store else list(NAMES)) as found, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, env={**environment}, args=words)
        measured = {place.dialect: _measure(place, browser, count, rounds) for place in found}
        browser.close()
    print(grid([HEADS, *rows(measured)]))


if __name__ == "__main__":
    main()
