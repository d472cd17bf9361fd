#!/usr/bin/env python3
"""An agent for Headgate in Python, with nothing but the standard library: runs tasks, one at a time.

    python agent.py http://127.0.0.1:8000 agent-1

A key, if the server wants one, is read from HEADGATE_KEY. `headgate.agent` does the same and more.
"""

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import urllib.parse
import urllib.request
from contextlib import suppress
from http.client import HTTPException

LEASE_SECONDS, BEAT_SECONDS = 30, 5
if len(sys.argv) != 3:
    print("usage: python agent.py SERVER AGENT_ID", file=sys.stderr)
    sys.exit(2)
server, agent_id = sys.argv[1:]
stopping, idle = threading.Event(), threading.Event()
signal.signal(signal.SIGTERM, lambda *_: sys.exit() if idle.is_set() else stopping.set())


class Cancelled(Exception): ...  # somebody asked for it, or the task is another agent's by now


# What this agent does, by type: handler(ext, check) gives back the result. Whoever takes long calls check() at times.
def sleep(ext, check):
    end = time.monotonic() + ext["seconds"]
    while time.monotonic() < end:
        check()
        time.sleep(0.05)


def fail(ext, check):
    raise ValueError("it was bound to fail")


HANDLERS = {"echo": lambda ext, check: ext, "sleep": sleep, "fail": fail}


def post(path, body):
    """One call: the status and the answer."""
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("HEADGATE_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    url = f"{server}/api/agents/{urllib.parse.quote(agent_id, safe='')}/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return answer.status, json.load(answer)
    except urllib.request.HTTPError as problem:
        return problem.code, json.load(problem)


def surely(path, body):
    """A call, made again and again, later each time, until the server has answered."""
    pause = 0.5
    while True:
        try:
            status, answer = post(path, body)
        except (OSError, ValueError, HTTPException) as error:
            status, answer = 503, error
        if status != 200:
            print(f"{path}: {answer}", file=sys.stderr)
        if status < 500 and status != 429:
            return status, answer
        time.sleep(random.uniform(0, pause))
        pause = min(2 * pause, 30)


def beat(at, own, done, end):
    """Renew the lease while the handler works, and hear what is asked of it."""
    while not done.wait(BEAT_SECONDS):
        with suppress(OSError, ValueError, HTTPException):
            status, answer = post(f"{at}/beat", own)
            if status in (404, 409) or answer.get("control") == "cancel":
                end.set()


def run(task):
    at, own = f"tasks/{task['id']}", {"exec_id": task["exec_id"]}
    if task["status"] == "scheduling" and surely(f"{at}/start", own)[0] != 200:  # assigned: confirm the start
        return
    done, end = threading.Event(), threading.Event()
    threading.Thread(target=beat, args=(at, own, done, end), daemon=True).start()

    def check():
        if end.is_set():
            raise Cancelled

    try:
        surely(f"{at}/complete", own | {"result": HANDLERS[task["type"]](task["ext"], check)})
    except Cancelled:
        surely(f"{at}/cancelled", own)
    except Exception as error:
        retryable = False if isinstance(error, ValueError) else None  # running again would not help
        surely(f"{at}/fail", own | {"error_info": traceback.format_exc()[-8000:], "retryable": retryable})
    finally:
        done.set()


while not stopping.is_set():
    # The same claim_id until there is an answer: tasks whose hand-over got lost are handed over again.
    wanted = {"types": list(HANDLERS), "wait_seconds": 20, "lease_seconds": LEASE_SECONDS, "instance": str(os.getpid())}
    idle.set()
    status, answer = surely("claim", wanted | {"claim_id": os.urandom(16).hex()})
    idle.clear()
    if status != 200:
        sys.exit(1)
    for task in answer["tasks"]:
        run(task)
