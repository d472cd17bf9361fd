"""Pictures of the console for its guide, from a real server at work: `python -m lab.screenshots`."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from lab.chromium import QUIET, program
from lab.console import build
from lab.debian import unpacked
from lab.server import free_port

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SECONDS = 90.0  # of life before the first picture
SIZE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 780}
FONTS = """<?xml version="1.0"?><fontconfig><dir>{fonts}</dir><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir>
<alias><family>system-ui</family><prefer><family>Inter</family><family>WenQuanYi Micro Hei</family></prefer></alias>
<alias><family>sans-serif</family><prefer><family>Inter</family><family>WenQuanYi Micro Hei</family></prefer></alias>
<alias><family>ui-monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias></fontconfig>"""


class Demonstration:
    """`headgate up` with the demonstration's tasks, in a folder that is gone afterwards."""

    def __init__(self, folder: str) -> None:
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        headgate = Path(sys.executable).with_name("headgate")
        self._process = subprocess.Popen(
            [headgate, "up", "headgate.demo", "--port", str(port)], cwd=folder, stderr=subprocess.DEVNULL
        )
        self._draw = random.Random(7)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(self.address + path, data, headers, method=method), timeout=60
        ) as answer:
            return json.load(answer)

    def begin(self) -> None:
        while True:
            try:
                self.ask("PUT", "/api/lanes/demo-downloads", {"capacity": 2})
                break
            except OSError:
                time.sleep(0.2)
        self.ask("POST", "/api/tasks", {"type": "count", "ext": {"to": 2000, "pause": 0.5}, "name": "the long one"})
        for number in range(4):
            self.ask("POST", "/api/requests/enqueue", {"type": "list_fetch", "subscription_id": number + 1})
            self.ask("POST", "/api/requests/enqueue", {"type": "download", "subscription_id": number + 1})

    def live(self, seconds: float) -> None:
        """Work comes in, as it does: mostly small, sometimes failing."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.ask("POST", "/api/tasks/bulk", {"tasks": [self._some_task() for _ in range(self._draw.randint(1, 4))]})
            time.sleep(self._draw.uniform(0.1, 0.5))

    def _some_task(self) -> dict[str, Any]:
        kinds: list[tuple[float, dict[str, Any]]] = [
            (50, {"type": "hello", "ext": {"name": self._draw.choice(["Ann", "Bo", "Cy"])}}),
            (25, {"type": "fetch", "ext": {"item": self._draw.randint(1, 99), "seconds": 0.8}}),
            (10, {"type": "flaky", "ext": {"failures": self._draw.choice([1, 2, 5])}}),
            (10, {"type": "tidy", "ext": {"shelf": 1, "seconds": 0.3}, "mutex": "shelf:1"}),
            (4, {"type": "album", "ext": {"tracks": 4}}),
            (1, {"type": "invoice", "ext": {"number": self._draw.randint(1000, 9999)}}),
        ]
        return self._draw.choices([task for _, task in kinds], [weight for weight, _ in kinds])[0]

    def held_up(self) -> int:
        """A task that waits for its lane."""
        task = {"type": "fetch", "ext": {"item": 7, "seconds": 600}, "correlation_id": "order-7", "priority": 9}
        made = self.ask("POST", "/api/tasks/bulk", {"tasks": [task] * 4})
        return int(made["tasks"][-1]["id"])

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


def take(browser: Browser, address: str, name: str, path: str, **about: Any) -> None:
    """One picture, once the page stands still."""
    context = browser.new_context(**{"viewport": SIZE, "locale": "en-GB", "reduced_motion": "reduce"} | about)
    page = context.new_page()
    page.goto(address + path)
    page.locator("main h1").wait_for()
    page.wait_for_timeout(2_500)
    page.screenshot(path=IMAGES / f"{name}.png", scale="css")
    context.close()


def environment(folder: str) -> dict[str, str]:
    """With letters for both languages, whatever the system has."""
    fonts = unpacked("fonts-wqy-microhei", "fonts-cjk"), unpacked("fonts-inter", "fonts-inter")
    places = "</dir><dir>".join(str(root / "usr/share/fonts") for root in fonts)
    config = Path(folder, "fonts.conf")
    config.write_text(FONTS.format(fonts=places, cache=Path(folder, "fonts")))
    return os.environ | {"FONTCONFIG_FILE": str(config)}


def main() -> None:
    build()
    IMAGES.mkdir(exist_ok=True)
    chromium, around = program()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        demonstration = Demonstration(folder)
        browser = playwright.chromium.launch(
            executable_path=chromium,
            env={**around, **environment(folder)},
            args=[word for word in QUIET if word != "--headless"],
        )
        demonstration.begin()
        demonstration.live(SECONDS)
        waiting = demonstration.held_up()
        for name, path, about in (
            ("overview", "/", {}),
            ("overview-dark-zh", "/", {"color_scheme": "dark", "locale": "zh-CN"}),
            ("tasks", "/tasks", {}),
            ("why", f"/tasks/{waiting}", {}),
            ("queue", "/queue", {}),
            ("events", "/events", {}),
            ("phone", "/", {"viewport": PHONE, "is_mobile": True}),
        ):
            take(browser, demonstration.address, f"console-{name}", path, **about)
            demonstration.live(1.0)
        browser.close()
        demonstration.stop()


if __name__ == "__main__":
    main()
