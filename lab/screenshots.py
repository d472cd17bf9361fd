"""`python -m lab.screenshots`: pictures of the console for its guide, from a real server at work

With a folder, every page as it is light, dark and on a phone, for whoever wants to judge them.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from lab.chromium import QUIET, program
from lab.console import build
from lab.debian import unpacked
from lab.demonstration import Demonstration, receiver

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SECONDS = 90.0  # of life before the first picture
LIGHT: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
DARK: dict[str, Any] = LIGHT | {"color_scheme": "dark"}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 780}, "is_mobile": True}
FONTS = """<?xml version="1.0"?><fontconfig><dir>{fonts}</dir><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir>
<alias><family>system-ui</family><prefer><family>Inter</family><family>WenQuanYi Micro Hei</family></prefer></alias>
<alias><family>sans-serif</family><prefer><family>Inter</family><family>WenQuanYi Micro Hei</family></prefer></alias>
<alias><family>ui-monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias></fontconfig>"""


class Picture(NamedTuple):
    name: str
    path: str
    options: dict[str, Any] = LIGHT


def of_the_guide(name: str, path: str) -> Iterator[Picture]:
    yield Picture(name, path)
    if name == "overview":
        yield Picture("overview-dark-zh", path, DARK | {"locale": "zh-CN"})
        yield Picture("phone", path, PHONE)


def of_everything(name: str, path: str) -> Iterator[Picture]:
    yield Picture(name, path)
    yield Picture(f"{name}-dark", path, DARK)
    yield Picture(f"{name}-phone", path, PHONE)


def pages_of(demonstration: Demonstration) -> dict[str, str]:
    """What there is to see, by name; those behind a key are not among them."""
    return {
        "overview": "/", "tasks": "/tasks", "why": f"/tasks/{demonstration.held_up()}",
        "family": f"/tasks/{demonstration.newest('album')}", "queue": "/queue", "desk": "/desk", "events": "/events",
        "periodic": "/periodic", "schedule": "/periodic?id=2", "schedule-form": "/periodic?id=2&edit=this",
        "types": "/types", "callbacks": "/callbacks", "compensation": "/compensation",
    }  # fmt: skip


class Camera:
    def __init__(self, browser: Browser, address: str, folder: Path) -> None:
        self._browser, self._address, self._folder = browser, address, folder

    def take(self, picture: Picture, key: str = "") -> None:
        """One picture, once the page stands still."""
        context = self._browser.new_context(**{"locale": "en-GB", "reduced_motion": "reduce"} | picture.options)
        page = context.new_page()
        page.goto(self._address + picture.path)
        if key:
            self._sign_in(page, picture.name.replace("keys", "sign-in"), key)
        page.locator("main h1").wait_for()
        page.wait_for_timeout(2_500)
        page.screenshot(path=self._folder / f"console-{picture.name}.png", scale="css")
        context.close()

    def _sign_in(self, page: Page, name: str, key: str) -> None:
        field = page.get_by_label("API key")
        field.wait_for()
        page.screenshot(path=self._folder / f"console-{name}.png", scale="css")
        field.fill(key)
        page.get_by_role("button", name="Sign in").click()


def environment(folder: str) -> dict[str, str]:
    """With letters for both languages, whatever the system has."""
    fonts = unpacked("fonts-wqy-microhei", "fonts-cjk"), unpacked("fonts-inter", "fonts-inter")
    places = "</dir><dir>".join(str(root / "usr/share/fonts") for root in fonts)
    config = Path(folder, "fonts.conf")
    config.write_text(FONTS.format(fonts=places, cache=Path(folder, "fonts")))
    return os.environ | {"FONTCONFIG_FILE": str(config)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.screenshots", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="for every page in every way; else those of the guide")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of life before the first")
    options = parser.parse_args()
    wanted = of_the_guide if options.folder is None else of_everything
    build()
    (into := options.folder or IMAGES).mkdir(exist_ok=True)
    chromium, around = program()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright, receiver() as receiver_url:
        demonstration = Demonstration(folder)
        browser = playwright.chromium.launch(
            executable_path=chromium,
            env={**around, **environment(folder)},
            args=[word for word in QUIET if word != "--headless"],
        )
        camera = Camera(browser, demonstration.address, into)
        demonstration.begin(receiver_url)
        demonstration.live(options.seconds)
        for name, path in pages_of(demonstration).items():
            for picture in wanted(name, path):
                camera.take(picture)
            demonstration.live(1.0)
        key = demonstration.lock()
        for picture in wanted("keys", "/keys"):
            camera.take(picture, key)
        browser.close()
        demonstration.stop()


if __name__ == "__main__":
    main()
