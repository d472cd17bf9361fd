"""Handlers that use a known amount of something; processes import them from here."""

import os
import subprocess
import sys
import time
from pathlib import Path

from headgate.app import Headgate

app = Headgate()
MEGABYTE = 1_000_000
CPU_SECONDS = 0.2
WRITTEN = 8 * MEGABYTE
WORK = f"""
import sys, time
from tests.worker.disk import use_disk
use_disk(sys.argv[1], {WRITTEN})
end = time.process_time() + {CPU_SECONDS}
while time.process_time() < end: pass
time.sleep(0.5)
"""


@app.task(isolation="process")
def use(folder: str) -> None:
    """60 MB of memory, some CPU in it and below it, 8 MB written and read below it; both can be seen for a while."""
    block = bytearray(os.urandom(60 * MEGABYTE))
    end = time.process_time() + CPU_SECONDS
    while time.process_time() < end:
        pass
    subprocess.run([sys.executable, "-c", WORK, str(Path(folder, "written"))], check=True)
    time.sleep(0.5)
    del block


@app.task(isolation="process")
def die() -> None:
    """Use some CPU, then end without a word once it was looked at."""
    end = time.process_time() + 2 * CPU_SECONDS
    while time.process_time() < end:
        pass
    time.sleep(0.5)
    os._exit(3)


@app.task
def think() -> None:
    end = time.thread_time() + CPU_SECONDS
    while time.thread_time() < end:
        pass


@app.task
def glance() -> None: ...


@app.task
async def drift() -> None: ...
