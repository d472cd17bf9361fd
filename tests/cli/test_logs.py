"""Log lines: each is one line whatever is in it, says what it is about, and keeps secrets."""

import json
import logging
import re
import signal
import subprocess
import sys

import httpx
import pytest

from headgate.events.log_lines import FIELDS, JsonFormatter, TextFormatter
from headgate.store.store import open_store
from tests.cli.test_running import wait_until
from tests.cli.test_serve import address_of
from tests.worker.disk import disk_is_told

WORDY = """
import logging
import headgate

app = headgate.Headgate()
log = logging.getLogger("shop.orders")

@app.task
async def on_loop(pin: str) -> None:
    log.info("packing\\nnow")

@app.task
def in_thread(pin: str) -> None:
    log.info("packing\\nnow")

@app.task(isolation="process")
def in_process(pin: str) -> None:
    log.info("packing\\nnow")

@app.task
async def fail() -> None:
    log.debug("only on request")
    raise ValueError("it cannot\\nwork")
"""
NASTY = "a\nb\rc\x1b[31m\x00\x85\u2028\u2029\u202e\u2066\u200f\u061cd"


def record(message, *args, error=None, level=logging.INFO):
    about = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("shop", level, "shop.py", 1, message, args, about)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_whatever_is_said_is_one_line(formatter):
    """Spec: D10"""
    for line in (formatter.format(record("%s", NASTY)), formatter.format(record("x", error=ValueError(NASTY)))):
        assert len(line.splitlines()) == 1
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", line)


def test_nothing_of_it_is_lost_as_json():
    """Spec: D10"""
    told = json.loads(JsonFormatter().format(record("%s", NASTY)))
    assert told["message"] == NASTY
    assert (told["level"], told["logger"]) == ("info", "shop")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", told["time"])


def test_an_error_brings_its_stack():
    """Spec: D10, A12"""
    try:
        raise ValueError("this cannot work")
    except ValueError as error:
        told = record("it failed", error=error, level=logging.ERROR)
    as_json = json.loads(JsonFormatter().format(told))
    assert as_json["message"] == "it failed"
    assert as_json["error"].splitlines()[-1] == "ValueError: this cannot work"
    assert r"it failed | Traceback (most recent call last):\n  File" in TextFormatter().format(told)


def test_a_line_whose_arguments_do_not_fit_is_still_a_line():
    """Spec: D10"""
    assert "do not fit" in TextFormatter().format(record("%d and %d", "one"))


def test_an_id_that_a_line_names_itself_is_not_repeated_and_a_longer_one_is_not_taken_for_it():
    """Spec: D10"""
    told = record("task lost: task=55")
    setattr(told, FIELDS, {"task_id": 55, "correlation_id": "a", "trace_id": "a", "user": None})
    assert TextFormatter().format(told).endswith("info    task lost: task=55 [correlation=a]")
    setattr(told, FIELDS, {"task_id": 5})
    assert TextFormatter().format(told).endswith("info    task lost: task=55 [task=5]")


@pytest.mark.parametrize(("said", "kept"), [
    (f"the key hg_12_{'ab' * 28} is bad", "the key hg_12_… is bad"),
    ("cannot reach postgresql://shop:plover@db.example/shop", "cannot reach postgresql://shop:…@db.example/shop"),
    ("cannot reach postgresql://:plover@db.example/shop", "cannot reach postgresql://:…@db.example/shop"),
    ("{'Authorization': 'Bearer plover'}", "{'Authorization': 'Bearer …'}"),
    ("see http://example.org:8000/a@b", "see http://example.org:8000/a@b"),
])  # fmt: skip
def test_what_looks_like_a_secret_is_left_out(said, kept):
    """Spec: D10, B11"""
    assert json.loads(JsonFormatter().format(record(said)))["message"] == kept
    assert kept in TextFormatter().format(record(said))


@pytest.mark.parametrize("kind", ["on_loop", "in_thread", "in_process"])
def test_a_request_is_followed_by_its_correlation_id_to_the_line_and_the_event_of_its_task(
    spawn, anywhere, folder, url, kind
):
    """Spec: D10, A12"""
    (folder / "wordy.py").write_text(WORDY)
    serve = spawn("serve", "--port", "0", "--log-json")
    address = json.loads(serve.hear("the API and the console are at"))["message"].split()[-1]
    work = spawn("work", "wordy", "--log-json")
    work.hear("serves")
    made = httpx.post(
        f"{address}/api/tasks?wait=30",
        json={"type": kind, "ext": {"pin": "plover"}, "creator": 42},
        headers={"X-Correlation-ID": "order-7", "X-Request-ID": "r-1"},
        timeout=60,
        trust_env=False,
    ).json()
    assert made["status"] == "succeeded", made
    asked = json.loads(serve.hear("POST /api/tasks"))
    told = json.loads(work.hear("packing"))
    with open_store(url) as store:
        events = store.events.of(made["id"])
    assert (asked["request_id"], asked["correlation_id"], asked["status"]) == ("r-1", "order-7", 201)
    assert (told["message"], told["logger"], told["level"]) == ("packing\nnow", "shop.orders", "info")
    assert {event.correlation_id for event in events} == {"order-7"}
    assert told["exec_id"] in {event.exec_id for event in events}
    about = {"task_id": made["id"], "type": kind, "attempt": 1, "correlation_id": "order-7", "user": "42"}
    ended = json.loads(work.hear("task succeeded"))
    for line in (told, ended):
        assert {name: line[name] for name in (*about, "tenant_id")} == {**about, "tenant_id": 0}
    assert (ended["outcome"], ended["level"]) == ("succeeded", "info")
    assert (asked["task_id"], asked["user"]) == (made["id"], "person")
    for process in (serve, work):
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
        assert all(json.loads(line)["time"] for line in process.definition)
        assert "plover" not in "\n".join(process.definition)


def test_a_failure_is_one_line_with_what_it_is_about(spawn, folder, run):
    """Spec: D10"""
    (folder / "wordy.py").write_text(WORDY)
    up = spawn("up", "wordy", "--log-json")
    up.hear("serves")
    task_id = run("submit", "-m", "wordy", "fail", "--json").json["id"]
    told = json.loads(up.hear("failed"))
    assert (told["task_id"], told["type"], told["level"]) == (task_id, "fail", "warning")
    up.signal(signal.SIGTERM)
    up.ended()
    assert len(up._with('"outcome"')) == 1
    assert not up._with("only on request")


def test_lines_for_people_name_the_task_the_user_and_what_it_belongs_to(spawn, folder, run, here):
    """Spec: D10"""
    (folder / "wordy.py").write_text(WORDY)
    up = spawn("up", "wordy", "--port", "0")
    address = address_of(up)
    made = httpx.post(
        f"{address}/api/tasks?wait=30",
        json={"type": "on_loop", "ext": {"pin": "plover"}, "creator": 42},
        headers={"X-Correlation-ID": "order-7"},
        timeout=60,
        trust_env=False,
    ).json()
    ids = f"[task={made['id']} correlation=order-7 user="
    assert up.hear("packing").endswith(f"info    packing\\nnow {ids}42]")
    ended = rf"info    task succeeded: task={made['id']} type=on_loop attempt=1 seconds=\d+\.\d\d\d"
    assert re.search(rf"{ended} \[correlation=order-7 user=42\]$", up.hear("task succeeded"))
    assert up.hear("POST /api/tasks").endswith(f"{ids}person]")


def test_the_level_is_set_from_outside(spawn, folder, run, monkeypatch):
    """Spec: D10"""
    (folder / "wordy.py").write_text(WORDY)
    monkeypatch.setenv("HEADGATE_LOG_LEVEL", "debug")
    up = spawn("up", "wordy")
    httpx.get(address_of(up) + "/livez", trust_env=False)
    up.hear("GET /livez 200")
    run("submit", "-m", "wordy", "fail")
    up.hear("only on request")


def test_a_level_that_is_none_is_said_and_not_taken():
    """Spec: D10"""
    program = "import headgate.cli.logs as logs; logs.set_up(False)"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"HEADGATE_LOG_LEVEL": "loud"}, capture_output=True, text=True, timeout=60
    )
    assert "HEADGATE_LOG_LEVEL must be one of debug, info, warning, error, not 'loud'" in done.stderr


WRITING = """
import os
import headgate

app = headgate.Headgate()

@app.task
def write() -> None:
    with open("written", "wb") as file:
        file.write(os.urandom(8_000_000))
        file.flush()
        os.fsync(file.fileno())
"""


def test_a_worker_says_what_it_uses(spawn, run, anywhere, folder, monkeypatch):
    """Spec: A8"""
    monkeypatch.setenv("HEADGATE_BEAT_SECONDS", "0.5")  # which is when it says so
    (folder / "writing.py").write_text(WRITING)
    address = address_of(spawn("up", "writing", "--port", "0"))

    def used(name):
        workers = httpx.get(f"{address}/api/workers", trust_env=False, verify=False).json()["items"]
        return workers[0][name] if workers else None

    wait_until(lambda: used("cpu_seconds") is not None)
    assert 0 < used("cpu_seconds") < 60
    assert 10e6 < used("memory_bytes") < 1e9
    if disk_is_told(folder):
        before = used("written_bytes")
        assert run("submit", "-m", "writing", "write", "--wait", "60").code == 0
        wait_until(lambda: used("written_bytes") - before >= 8_000_000)
