"""A real browser without a screen: installed, or Debian's packages unpacked beside the system."""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from lab.debian import libraries, unpacked
from lab.server import die_with_parent

PATIENCE = 30.0
# It would otherwise ask its maker for news, again and again.
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Chromium:
    """A browser that looks at one page, with a profile of its own, until it is closed."""

    def __init__(self, address: str, *options: str) -> None:
        self._words = (*QUIET, *options, address)
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        chromium, environment = program()
        self._folder = Path(tempfile.mkdtemp(prefix="headgate-chromium-"))
        with (self._folder / "errors.log").open("wb") as errors:
            self._process = subprocess.Popen(
                [chromium, f"--user-data-dir={self._folder}", "--remote-debugging-port=0", *self._words],
                env=environment | {"HOME": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                process_group=0,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._folder is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def errors(self) -> str:
        """What it had to say."""
        assert self._folder is not None
        return (self._folder / "errors.log").read_text(errors="replace")


def program() -> tuple[str, dict[str, str]]:
    """The browser, named, installed or unpacked; and the environment it runs in."""
    if found := os.environ.get("HEADGATE_TEST_CHROMIUM") or shutil.which("chromium"):
        return found, dict(os.environ)
    root = unpacked("chromium", "chromium")
    return str(root / "usr/lib/chromium/chromium"), os.environ | {"LD_LIBRARY_PATH": libraries(root)}
