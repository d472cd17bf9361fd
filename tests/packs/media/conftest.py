"""The media pack at work: a program with it, the sample site, a library, and a log of every yt-dlp that ran."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from headgate import Headgate
from headgate.pack import find_packs
from headgate.pack_setup import migrate_packs
from headgate.packs.media.cookie_file import private_folder
from headgate.packs.media.items import Items
from headgate.packs.media.sample_site import PLUGINS, SampleSite, serving
from headgate.packs.media.subscriptions import Subscription, Subscriptions
from headgate.settings import Settings
from headgate.store.store import open_store

SECRET = "a secret that is long enough for this"  # noqa: S105
# yt-dlp loads its plugins when it starts: this one tells of every yt-dlp there was, and of those that ran together.
LOGGING_PLUGIN = """
import atexit, os, pathlib
runs = pathlib.Path({runs!r})
def say(word, pid):
    with runs.open("a") as log:
        log.write(f"{{word}} {{pid}}\\n")
def lives(pid):
    try:
        return pathlib.Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
say("begins", os.getpid())
lines = [line.split() for line in runs.read_text().splitlines()]
ended = [pid for word, pid in lines if word == "ends"]
for word, pid in lines:
    if word == "begins" and pid not in ended and int(pid) != os.getpid() and lives(pid):
        say("overlaps", pid)
atexit.register(say, "ends", os.getpid())
"""


@pytest.fixture
def site() -> Iterator[SampleSite]:
    with serving() as served:
        served.step_seconds = 0.2  # so that what is slow lasts until a test lets it go on
        yield served


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A file with a line for each yt-dlp that began or ended."""
    folder = tmp_path / "plugins" / "logging" / "yt_dlp_plugins" / "extractor"
    folder.mkdir(parents=True)
    (folder / "tell.py").write_text(LOGGING_PLUGIN.format(runs=str(tmp_path / "runs")))
    return tmp_path / "runs"


@pytest.fixture
def environment(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Folders of this test alone, and no politeness towards a site that is ours."""
    for name in [name for name in os.environ if name.startswith("HEADGATE_") and name != "HEADGATE_TEST_POSTGRES"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HEADGATE_PORT", "0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("MEDIA_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("YT_DLP_PLUGIN_DIRS", os.pathsep.join([str(PLUGINS), str(tmp_path / "plugins")]))
    monkeypatch.setenv("MEDIA_PRIVATE_ALLOW", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("YT_DLP_SLEEP_REQUESTS", "0")
    monkeypatch.setenv("YT_DLP_RETRIES", "0")
    private_folder()
    return monkeypatch


@dataclass(frozen=True)
class Curator:
    """A program with the pack, and what its handlers keep."""

    app: Headgate
    site: SampleSite
    library: Path
    runs: Path

    @property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.app.store.database)

    @property
    def items(self) -> Items:
        return Items(self.app.store.database)

    def subscribe(self, name: str) -> Subscription:
        """A subscription to a collection of the sample site."""
        return self.subscriptions.create(0, name, f"{self.site.address}/list/{name}")

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.library)) for path in self.library.rglob("*.*") if path.is_file())


@contextmanager
def curating(url: str, site: SampleSite, folder: Path) -> Iterator[Curator]:
    """A curator on the store at this address, which has the pack's tables."""
    with open_store(url) as store:
        store.migrate()
        migrate_packs(store, find_packs(["media"]))
    settings = Settings(url=url, secret=SECRET, beat_seconds=0.5, lease_seconds=5.0, poll_seconds=0.2)
    app = Headgate(settings=settings, packs=["media"])
    try:
        yield Curator(app, site, folder / "library", folder / "runs")
    finally:
        app.close()


@pytest.fixture
def curator(environment: pytest.MonkeyPatch, site: SampleSite, tmp_path: Path) -> Iterator[Curator]:
    with curating(f"sqlite:///{tmp_path}/store.db", site, tmp_path) as made:
        yield made


@pytest.fixture
def curator_on_each(url: str, environment: pytest.MonkeyPatch, site: SampleSite, tmp_path: Path) -> Iterator[Curator]:
    """On each database in turn."""
    with curating(url, site, tmp_path) as made:
        yield made


def yt_dlps(runs: Path) -> list[int]:
    """The pid of every yt-dlp that began; fails if one began while another ran."""
    lines = [line.split() for line in runs.read_text().splitlines()]
    assert "overlaps" not in [word for word, _ in lines]
    return [int(pid) for word, pid in lines if word == "begins"]
