"""Runs yt-dlp, dies with its parent process, and reports errors as lines of JSON: the text on a terminal leaves out
which errors they were and how long the site wants us to wait.

A script: it imports nothing of Headgate, so that it starts as fast as yt-dlp does.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
from typing import Any
from urllib.parse import urlsplit

import yt_dlp
from yt_dlp.downloader.external import ExternalFD
from yt_dlp.networking.exceptions import HTTPError

PROXY = "MEDIA_PROXY"
PROGRAMS = ("ffmpeg", "ffprobe", "deno")  # that work on files and scripts that are here
_PROXY_HEADER = "Ytdl-Request-Proxy"  # yt-dlp goes by it, and an address can smuggle it in
_TO_ADDRESSES = ("socket.connect", "socket.sendto", "socket.sendmsg")
_LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname")
_SET_DEATH_SIGNAL = 1
_DEEPEST = 10


def die_with(parent: int) -> None:
    """Be killed when the process that started this one is, however it ends (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the call above
        os._exit(1)


def causes(error: BaseException | None) -> list[BaseException]:
    """An error and what led to it; yt-dlp keeps that in places of its own."""
    found: list[BaseException] = []
    while isinstance(error, BaseException) and error not in found and len(found) < _DEEPEST:
        found.append(error)
        inner = getattr(error, "exc_info", None)
        during = error.__context__ if isinstance(error.__context__, OSError) else None  # others were dealt with
        error = getattr(error, "cause", None) or (inner[1] if inner else None) or error.__cause__ or during
    return found


def report(message: str, error: BaseException | None) -> None:
    """Print an error as a record, on a line of its own."""
    chain = causes(error)
    answer = next((each for each in chain if isinstance(each, HTTPError)), None)
    numbers = [each.errno for each in chain if isinstance(each, OSError) and each.errno]
    record = {
        "message": message.removeprefix("ERROR:").strip(),
        "names": [base.__name__ for each in chain for base in type(each).__mro__[:-1]],
        "status": answer.status if answer else None,
        "retry_after": answer.response.headers.get("Retry-After") if answer else None,
        "errno": numbers[-1] if numbers else None,
    }
    print(f"\nheadgate:error {json.dumps(record)}", flush=True)


class NotAllowed(OSError):
    """Something that would go past the proxy."""


def keep_to(proxy: str) -> None:
    """Let this process connect to its proxy only, and start no program that asks the network by itself."""
    parts = urlsplit(proxy)
    place = (parts.hostname, parts.port)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _TO_ADDRESSES and arguments[1] not in (place, None):
            raise NotAllowed(f"yt-dlp may not connect to {arguments[1]} by itself")
        if event in _LOOKUPS and arguments[0] != place[0]:
            raise NotAllowed(f"yt-dlp may not look up {arguments[0]} by itself")
        if event == "subprocess.Popen" and os.path.basename(os.fsdecode(arguments[0])) not in PROGRAMS:
            raise NotAllowed(f"yt-dlp may not start {os.fsdecode(arguments[0])}")

    sys.addaudithook(watch)


def refuse_download(*_: Any) -> bool:
    """In place of ffmpeg's downloads: it would ask what it likes, with the cookie among its arguments."""
    raise NotAllowed("live streams, and others that only ffmpeg can download, are not downloaded here")


class ReportingYoutubeDL(yt_dlp.YoutubeDL):  # type: ignore[misc]
    """yt-dlp, whose errors are reported as records too, and whose requests all go by its proxy."""

    def urlopen(self, request: Any) -> Any:
        if not isinstance(request, str):
            request.headers.pop(_PROXY_HEADER, None)
            request.proxies = {}
        return super().urlopen(request)

    def trouble(self, message: str | None = None, tb: str | None = None, is_error: bool = True) -> None:
        if is_error:
            report(message or "", sys.exc_info()[1])
        super().trouble(message, tb, is_error)


def main() -> None:
    die_with(int(sys.argv[1]))
    yt_dlp.YoutubeDL = ReportingYoutubeDL  # which its own command line uses
    ExternalFD.real_download = refuse_download
    proxy = os.environ.pop(PROXY)
    keep_to(proxy)
    try:
        yt_dlp.main(["--proxy", proxy, *sys.argv[2:]])
    except Exception as error:  # one that yt-dlp did not expect; a disk that is full comes here
        report(f"{type(error).__name__}: {error}", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
