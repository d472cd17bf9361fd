"""yt-dlp in a process of its own: what it prints comes as records, and it is ended with everything it started."""

import importlib.util
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from headgate.packs import Fatal
from headgate.packs.media.cookie_file import cookie_file
from headgate.packs.media.errors import Failure, error_of
from headgate.packs.media.policy import ERROR, MARK, Command
from headgate.packs.outward import OutwardProxy, outward_proxy

SCRIPT = Path(__file__).with_name("ytdlp_process.py")
CHUNK = 64 * 1024
LONGEST_LINE = 256 * 1024  # of a record; a longer one is dropped
MOST_OUTPUT = 64 * 1024 * 1024
KEPT_LINES, KEPT_CHARACTERS = 5, 500  # of what else it prints, for when it fails without a record
SHORTEST_SECRET = 4  # redacting shorter cookie values, such as 1 or yes, would blot out unrelated words
# Ours: passwords of stores and brokers, the secret. And the machine's proxies: the only one to use is ours.
_PRIVATE_VARIABLES = re.compile(r"HEADGATE_(?!EXECUTION$)|(?i:(?:http|https|ftp|all|no)_proxy$)")
PROXY = "MEDIA_PROXY"  # the variable that tells yt-dlp's process

Take: TypeAlias = Callable[[str, Any], None]


def run_ytdlp(command: Command, take: Take, cookies: str | None = None) -> None:
    """Run a command of yt-dlp to its end, and pass on each record, by kind, as it comes.

    Raises what `errors` makes of its failure; `TimeoutError` when it takes longer than it may. `cookies` reach it by a
    file, and no text that leaves here. It goes nowhere but where the command allows.
    """
    if importlib.util.find_spec("yt_dlp") is None:
        raise Fatal("yt-dlp is not installed here: pip install yt-dlp")
    secrets = _secrets_in(cookies or "")
    with (
        outward_proxy(command.allowed) as proxy,
        _cookie_arguments(cookies) as extra,
        _process([*extra, *command.arguments], proxy) as process,
    ):
        reader = _Reader(take)
        reader.read(process, command.seconds)
        if process.returncode != 0:
            if proxy.refusals:
                raise Fatal(proxy.refusals[0])
            failure = reader.failure(process.returncode, [*secrets, proxy.password])
            if proxy.failures and failure.status is None:  # yt-dlp saw no more than a connection that broke
                failure = replace(failure, message=f"{failure.message} ({proxy.failures[-1]})")
            raise error_of(failure)


@contextmanager
def _cookie_arguments(cookies: str | None) -> Iterator[list[str]]:
    with nullcontext() if cookies is None else cookie_file(cookies) as path:
        yield [] if path is None else ["--cookies", str(path)]


@contextmanager
def _process(arguments: list[str], proxy: OutwardProxy) -> Iterator["subprocess.Popen[bytes]"]:
    """yt-dlp, in a process group of its own that is gone afterwards, and dead with this process in any case."""
    environment = {name: value for name, value in os.environ.items() if not _PRIVATE_VARIABLES.match(name)}
    process = subprocess.Popen(
        [sys.executable, "-P", str(SCRIPT), str(os.getpid()), *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        env=environment | {"PYTHONUTF8": "1", PROXY: proxy.url},
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


class _Reader:
    """Reads what yt-dlp prints, in bounded memory."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._failure: Failure | None = None
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)

    def read(self, process: "subprocess.Popen[bytes]", seconds: float) -> None:
        """Read until yt-dlp has ended."""
        assert process.stdout is not None
        deadline, rest, output = time.monotonic() + seconds, b"", 0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise TimeoutError(f"yt-dlp ran for more than {seconds:g} s")
                if not (chunk := os.read(process.stdout.fileno(), CHUNK)):
                    break
                output += len(chunk)
                if output > MOST_OUTPUT:
                    raise error_of(Failure(f"yt-dlp printed more than {MOST_OUTPUT:,} bytes"))
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._line(line)
                rest = rest if len(rest) <= LONGEST_LINE else b""
        self._line(rest)
        try:
            process.wait(max(deadline - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"yt-dlp ran for more than {seconds:g} s") from None

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        kind, _, payload = text.removeprefix(MARK).partition(" ")
        if not text.startswith(MARK):
            if text:
                self._kept.append(text)
            return
        try:
            record = msgspec.json.decode(payload)
        except msgspec.DecodeError:  # cut off, or not one of our records
            return
        if kind == ERROR:
            self._failure = self._failure or Failure.of(record)  # the first is the cause of the others
        else:
            self._take(kind, record)

    def failure(self, code: int, secrets: list[str]) -> Failure:
        """Why it failed, without the values of cookies."""
        if self._failure is not None:
            return replace(self._failure, message=_redacted(self._failure.message, secrets))
        output = "\n".join(_redacted(line, secrets)[:KEPT_CHARACTERS] for line in self._kept)  # redact, then cut
        return Failure(output or f"yt-dlp ended with exit code {code}")


def _redacted(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "…")
    return text


def _secrets_in(cookies: str) -> list[str]:
    """The values in a file of cookies, longest first: each is the last of seven fields."""
    values = {line.split("\t")[-1].strip() for line in cookies.splitlines() if line.count("\t") >= 6}
    return sorted((value for value in values if len(value) >= SHORTEST_SECRET), key=len, reverse=True)
