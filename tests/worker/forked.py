"""A handler that tells how its process came to be."""

import os
import random
import sys

FOUND_HEADGATE = "headgate.app" in sys.modules

from headgate.app import Headgate  # noqa: E402 what is there already is the question

app = Headgate()
LOADED_BY = os.getpid()
LOTS = [random.random() for _ in range(3)]


@app.task(isolation="process")
def tell() -> dict[str, object]:
    with open("/proc/self/cmdline") as file:
        command = file.read().split("\0")
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "module": command[2],
        "loaded_by": LOADED_BY,
        "found_headgate": FOUND_HEADGATE,
        "lots": LOTS,
        "word": os.environ.get("WORD_OF_THE_DAY"),
    }
