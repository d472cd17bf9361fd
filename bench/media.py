"""`python -m bench.media`: what the media pack adds to yt-dlp: requests to the site, memory, time for small files."""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.__main__ import places
from bench.place import Place
from bench.table import NAMES, grid
from headgate import Headgate
from headgate.core.states import State
from headgate.pack import find_packs
from headgate.pack_setup import migrate_packs
from headgate.packs.media.fetching import download, expected_total, list_fetch
from headgate.packs.media.policy import Request, RequestPolicy
from headgate.packs.media.sample_site import PLUGINS, SampleSite, serving
from headgate.packs.media.settings import MediaSettings
from headgate.packs.media.subscriptions import Subscriptions
from headgate.settings import Settings
from headgate.store.db.statement import Statement
from headgate.store.store import open_store
from lab.server import die_with_parent

HEADS = ("the media pack", "SQLite", "PostgreSQL", "target", "")
HEADGATE = str(Path(sys.executable).with_name("headgate"))
HERE = "127.0.0.1"  # where the sample site is
ITEMS = 999
DOWNLOADS, QUICK_DOWNLOADS = 200, 8
ROUNDS = 4  # of one after the other, so that both meet what else the machine does
WARM = 5  # downloads before anything is measured
SIDE_BY_SIDE = 2  # subscriptions: each is serial, and yt-dlp runs for one at a time
LONGEST_SECONDS = 1800.0
LOOK_SECONDS = 0.05
BY_STATE = Statement("SELECT status, count(*) FROM headgate_task WHERE type = 'download' GROUP BY status")


@dataclass(slots=True)
class Cost:
    """What some downloads took: time, and CPU time of all processes that had to do with them."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @contextmanager
    def measured(self, cpu_seconds: Callable[[], float]) -> Iterator[None]:
        begun, used = time.monotonic(), cpu_seconds()
        yield
        self.seconds += time.monotonic() - begun
        self.cpu_seconds += cpu_seconds() - used


@dataclass(slots=True)
class Result:
    """What one store did."""

    total_requests: int
    list_requests: int
    one: Cost = field(default_factory=Cost)  # the downloads of one subscription
    two: Cost = field(default_factory=Cost)  # the same number, of two
    alone: Cost = field(default_factory=Cost)  # the same number by yt-dlp, one command after the other
    grown: float = 0.0  # megabytes that the worker holds more after the downloads than before


def policy() -> RequestPolicy:
    return RequestPolicy(
        MediaSettings(yt_dlp_plugin_dirs=str(PLUGINS), yt_dlp_sleep_requests=0, media_private_allow=HERE)
    )


def download_alone(site: SampleSite, count: int, folder: str) -> None:
    """Download so many files by yt-dlp, as a shell script would call it."""
    for number in range(1, count + 1):
        request = Request(f"{site.address}/file/alone-{count}.{number}.mp4", requires_cookie=True)
        command = policy().download(request, folder, str(number))
        subprocess.run([sys.executable, "-m", "yt_dlp", *command.arguments], check=True, stdout=subprocess.DEVNULL)


def cpu_of_commands() -> float:
    """CPU seconds of the commands that this process has run to their end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of(worker: psutil.Process) -> float:
    """CPU seconds of a worker, with the processes that it has seen the end of, and their commands."""
    used = worker.cpu_times()
    return float(used.user + used.system + used.children_user + used.children_system)


@contextmanager
def working(url: str, folder: str) -> Iterator[psutil.Process]:
    """`headgate work --pack media`, as anybody would run it; its worker process."""
    environment = os.environ | {
        "HEADGATE_URL": url, "MEDIA_LIBRARY": folder, "YT_DLP_PLUGIN_DIRS": str(PLUGINS), "YT_DLP_SLEEP_REQUESTS": "0",
    }  # fmt: skip
    parent = subprocess.Popen(
        [HEADGATE, "work", "--pack", "media"], env=environment, stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent(signal.SIGTERM),
    )  # fmt: skip
    try:
        while not (found := psutil.Process(parent.pid).children()):
            time.sleep(LOOK_SECONDS)
        yield found[0]
    finally:
        parent.terminate()
        parent.wait()


def measure(place: Place, site: SampleSite, count: int) -> Result:
    with place.fresh() as url, tempfile.TemporaryDirectory() as folder:
        with open_store(url) as store:
            store.migrate()
            migrate_packs(store, find_packs(["media"]))
        app = Headgate(settings=Settings(url=url), packs=["media"])
        try:
            with working(url, folder) as worker:
                result = Result(*requests_for_a_list(app, site))
                app.store.lanes.set_capacity("requires_cookie", SIDE_BY_SIDE)
                download_all(app, site, WARM, "warm", SIDE_BY_SIDE)
                held = worker.memory_info().rss
                for number in range(ROUNDS):
                    with result.alone.measured(cpu_of_commands):
                        download_alone(site, count // ROUNDS, f"{folder}/alone{number}")
                    for subscriptions, cost in ((1, result.one), (SIDE_BY_SIDE, result.two)):
                        with cost.measured(lambda: cpu_of(worker)):
                            download_all(app, site, count // ROUNDS, f"small{number}of{subscriptions}", subscriptions)
                result.grown = (worker.memory_info().rss - held) / 1e6
                return result
        finally:
            app.close()


def requests_for_a_list(app: Headgate, site: SampleSite) -> tuple[int, int]:
    """Requests to the site for the size of a collection, and for its list."""
    made = Subscriptions(app.store.database).create(0, "archive", f"{site.address}/list/archive-{ITEMS}")
    counts = []
    for task in (expected_total, list_fetch):
        site.requests.clear()
        ended = task.submit_sync(made.id).wait_sync(LONGEST_SECONDS)
        assert ended.status is State.SUCCEEDED, ended.error
        counts.append(len(site.requests))
    return counts[0], counts[1]


def download_all(app: Headgate, site: SampleSite, count: int, name: str, subscriptions: int) -> None:
    """Submit downloads, and wait for the end of the last."""
    ids = [
        Subscriptions(app.store.database).create(0, name, f"{site.address}/list/{name}-{count}").id
        for _ in range(subscriptions)
    ]
    late = time.monotonic() + LONGEST_SECONDS
    files = {number: f"{site.address}/file/{name}-{count}.{number}.mp4" for number in range(1, count + 1)}
    app.submit_many_sync(
        [download.call(url, ids[number % subscriptions], str(number)) for number, url in files.items()]
    )
    while (states := states_of_downloads(app)) != {State.SUCCEEDED}:
        if State.FAILED in states or time.monotonic() > late:
            raise RuntimeError(f"of {count} downloads some are {', '.join(sorted(states))}")
        time.sleep(LOOK_SECONDS)


def states_of_downloads(app: Headgate) -> set[str]:
    return {status for status, _ in app.store.database.read(lambda db: db.rows(BY_STATE))}


def rows(found: dict[str, Result], count: int) -> Iterator[tuple[str, ...]]:
    def row(title: str, one: Callable[[Result], float], form: str, most: float | None = None) -> tuple[str, ...]:
        values = {name: one(each) for name, each in found.items()}
        met = most is not None and all(value <= most for value in values.values())
        cells = [format(values[name], form) if name in values else "" for name in NAMES]
        return (title, *cells, *(("", "") if most is None else (f"≤ {most:g}", "met" if met else "missed")))

    yield row(f"size of {ITEMS} items, requests", lambda each: each.total_requests, "d", 3)
    yield row(f"list of {ITEMS} items, requests", lambda each: each.list_requests, "d", 11)
    yield row(f"{count} small downloads of one subscription, s", lambda each: each.one.seconds, ".1f")
    yield row(f"{count} small downloads of {SIDE_BY_SIDE} subscriptions, s", lambda each: each.two.seconds, ".1f")
    yield row("  yt-dlp alone, in sequence, s", lambda each: each.alone.seconds, ".1f")
    yield row("  ratio, one subscription", lambda each: each.one.seconds / each.alone.seconds, ".2f", 1.25)
    yield row(f"  ratio, {SIDE_BY_SIDE} subscriptions", lambda each: each.two.seconds / each.alone.seconds, ".2f", 1.25)
    yield row("  CPU of one download, s", lambda each: each.one.cpu_seconds / count, ".3f")
    yield row("  CPU of yt-dlp alone, s", lambda each: each.alone.cpu_seconds / count, ".3f")
    yield row("  worker's memory grew by, MB", lambda each: each.grown, ".1f", 5)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.media", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few downloads: does it run, not how fast")
    parser.add_argument("--downloads", type=int, default=DOWNLOADS, help="how many small files, a multiple of 4")
    parser.add_argument("--store", choices=list(NAMES), help="only this store")
    options = parser.parse_args()
    os.environ["MEDIA_PRIVATE_ALLOW"] = HERE
    count = QUICK_DOWNLOADS if options.quick else options.downloads
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is cleaned up then, too
    with places([options.store] if options.store else list(NAMES)) as found, serving() as site:
        measured = {place.dialect: measure(place, site, count) for place in found}
    print(grid([HEADS, *rows(measured, count)]))


if __name__ == "__main__":
    main()
