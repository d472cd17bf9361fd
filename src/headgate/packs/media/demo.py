"""`python -m headgate.packs.media.demo COMMAND`: run a command beside the sample site, with something to see."""

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import headgate.demo as demonstration
from headgate import Headgate
from headgate.packs import HeadgateError, read_settings
from headgate.packs.media.fetching import list_fetch
from headgate.packs.media.sample_site import PLUGINS, serving
from headgate.packs.media.subscriptions import Subscriptions
from headgate.packs.media.types import BUTTON

PORT = 8001
COLLECTIONS = ("birds-5", "slow-3", "archive-999")
FIRST = COLLECTIONS[:2]  # that are downloaded at once; the last is there to be asked for
PLUGIN_VARIABLE = "YT_DLP_PLUGIN_DIRS"
ALLOW_VARIABLE = "MEDIA_PRIVATE_ALLOW"
HERE = "127.0.0.1"
SECRET_FILE = Path(".headgate-demo-secret")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the command is told anyway."""

    headgate_secret: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m headgate.packs.media.demo", description="Run beside a sample site."
    )
    parser.add_argument("--port", type=int, default=PORT, help="Port of the sample site (default: %(default)s).")
    parser.add_argument("--bare", action="store_true", help="Make no subscriptions and no tasks.")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="Command to run; the site is served until it ends.")
    options = parser.parse_args()
    if not options.command:
        parser.error("name the command to run: headgate up --pack media")
    with ExitStack() as served:
        try:
            site = served.enter_context(serving(options.port))
        except OSError as error:
            parser.error(f"port {options.port}: {error.strerror}; take another with --port")
        os.environ[ALLOW_VARIABLE] = ",".join(filter(None, [HERE, os.environ.get(ALLOW_VARIABLE)]))
        if not options.bare:
            try:
                begin(site.address)
            except OSError as error:
                parser.error(f"the server's port: {error.strerror}; take another with HEADGATE_PORT")
        print(f"the sample site is at {site.address}", file=sys.stderr, flush=True)
        sys.exit(run(options.command))


def begin(address: str) -> None:
    """Submit what there is to see. `OSError` if the server's port is taken: then nothing would run it."""
    settings = demonstration.app._settings
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.create_server((settings.host, settings.port), family=family):
        pass
    try:
        demonstration.demo.submit_sync()
        subscribe(address)
    except HeadgateError as error:  # a server's tables have an owner, who makes them first
        print(f"nothing to see: {error}", file=sys.stderr)
    finally:
        demonstration.app.close()


def subscribe(address: str) -> None:
    """Subscribe to some collections of the site, once, and begin to download."""
    app = Headgate(packs=["media"])
    try:
        subscriptions = Subscriptions(app.store.database)
        known = {subscription.url for subscription in subscriptions.find(0)}
        for name in COLLECTIONS:
            if (url := f"{address}/list/{name}") not in known:
                made = subscriptions.create(0, name, url)
                if name in FIRST:
                    list_fetch.using(priority=BUTTON).submit_sync(made.id, then_download=True)
    finally:
        app.close()


def run(command: list[str]) -> int:
    """Run a command whose yt-dlp can read the site; its exit code. Signals are for the command."""
    folders = [str(PLUGINS), *filter(None, [os.environ.get(PLUGIN_VARIABLE)])]
    environment = {PLUGIN_VARIABLE: os.pathsep.join(folders)}
    if not read_settings(ServerSettings).headgate_secret:
        environment["HEADGATE_SECRET"] = demo_secret()
    process = subprocess.Popen(command, env=os.environ | environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal it reaches the command by itself
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    return process.wait()


def demo_secret() -> str:
    """A secret to seal cookies under, the same at each start in this folder."""
    with suppress(FileExistsError):
        file = os.open(SECRET_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "w") as new:
            new.write(secrets.token_hex(32))
    return SECRET_FILE.read_text()


if __name__ == "__main__":
    main()
