"""Handlers that run in processes of their own: such a process must be able to import them."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import psutil

from headgate.app import Headgate
from headgate.worker.context import context

app = Headgate()


def bound_to(other: Headgate) -> Headgate:
    """This app, with another's settings and store."""
    app.close()
    app._settings = other._settings
    return app


@app.task(isolation="process")
def weigh(n: int) -> dict[str, int]:
    context().progress(n, 10)
    context().log("weighing")
    context().checkpoint("at", n)
    return {"n": n, "pid": os.getpid()}


@app.task(isolation="process")
async def weigh_async(n: int) -> int:
    await asyncio.sleep(0)
    await context().progress(n, 10)
    return n


@app.task(isolation="process")
def chatter(characters: int) -> str:
    context().log("x" * characters)
    return "said"


@app.task(isolation="process")
def fail_there() -> None:
    raise ValueError("bad weight")


@app.task(isolation="process")
def breed() -> int:
    return context().submit(little.call()).result().id


@app.task
async def little() -> None: ...


@app.task(isolation="process")
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(isolation="process", memory_megabytes=120)
def devour() -> None:
    eaten = []
    while True:
        eaten.append(bytearray(8_000_000))
        time.sleep(0.005)


@app.task(isolation="process", memory_megabytes=120)
def gulp() -> str:
    """All at once, and gone before anybody looks."""
    return f"{len(b'x' * 300_000_000)} bytes"


@app.task(isolation="process")
def become_a_daemon(note: str) -> None:
    """Starts a daemon in the old way: forked twice, in a session of its own, and nobody waits for it."""
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            Path(note).write_text(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    os.waitpid(child, 0)
    while not (Path(note).exists() and Path(note).read_text()):
        time.sleep(0.01)


@app.task(isolation="process")
def fork_and_hang(note: str) -> None:
    """Starts a child in a session of its own, tells who it is, and never ends; nor does it listen to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Path(note).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


exited, looked = threading.Event(), threading.Event()


@app.task
def ask_later() -> int:
    """In a thread: a program that has ended long before its exit code is asked for."""
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    exited.set()
    looked.wait(60)
    return child.wait()


@app.task(isolation="process")
def leave_behind(note: str, seconds: float) -> None:
    """Starts two programs that outlive it for a while, one of them in a session of its own."""
    wait = [sys.executable, "-c", f"import time; time.sleep({seconds})"]
    both = [subprocess.Popen(wait), subprocess.Popen(wait, start_new_session=True)]
    Path(note).write_text(" ".join(str(child.pid) for child in both))


@app.task(isolation="process")
def fork_twice() -> bool:
    """Whether a program whose parent has ended is gone, and no zombie, when it has ended too."""
    script = "sleep 0.2 > /dev/null & echo $!"
    pid = int(subprocess.run(["/bin/sh", "-c", script], stdout=subprocess.PIPE, check=True).stdout)
    end = time.monotonic() + 30
    while psutil.pid_exists(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not psutil.pid_exists(pid)


@app.task(isolation="process")
def hang(note: str) -> None:
    try:
        Path(note).write_text(str(os.getpid()))
        time.sleep(600)
    finally:
        Path(note + ".cleaned").touch()


class SlowZone(tzinfo):
    """Asked for by whoever writes down a time: says so, and answers when it may."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def utcoffset(self, _: datetime | None) -> timedelta:
        (self._folder / "returned").touch()
        while not (self._folder / "go").exists():
            time.sleep(0.01)
        return timedelta(0)

    def dst(self, _: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _: datetime | None) -> str | None:
        return None


@app.task(isolation="process")
def answer(folder: str) -> datetime:
    return datetime(2026, 11, 18, tzinfo=SlowZone(folder))


@app.task(isolation="process")
async def answer_async(folder: str) -> datetime:
    return datetime(2026, 11, 18, tzinfo=SlowZone(folder))
