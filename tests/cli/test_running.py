"""`headgate up`, `work` and `duties` as real processes: they serve, hear signals, and are kept alive."""

import json
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.store import open_store
from lab.pgbouncer import PgBouncer
from tests.cli.conftest import PATIENCE
from tests.conftest import own_schema


def wait_until(condition):
    """A bounded wait for something another process does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def started(run, task_id):
    wait_until(lambda: run("show", task_id, "--json").json["status"] == "running")


def test_up_in_an_empty_folder_serves_the_demonstration_and_says_how_to_begin(spawn, run):
    """Spec: C12"""
    up = spawn("up")
    assert "headgate submit hello name=you --wait 10" in up.hear("serving headgate.demo")
    up.hear("serves album")
    answer = run("submit", "hello", "name=you", "--wait", PATIENCE)
    assert (answer.code, answer.out) == (0, '1 succeeded "Hello, you!"\n')
    up.signal(signal.SIGTERM)
    assert up.ended() == 0
    assert up.definition[-1].endswith("stopped")


def test_up_migrates_and_serves_a_module_on_a_server(spawn, run, postgres, monkeypatch):
    """Spec: C12"""
    monkeypatch.setenv("HEADGATE_URL", postgres)
    up = spawn("up", "shop")
    up.hear("serves fail, greet")
    assert run("submit", "greet", "--wait", PATIENCE).out == '1 succeeded "Hello, you!"\n'
    failed = run("submit", "fail", "--wait", PATIENCE)
    assert (failed.code, failed.err) == (1, "error: task 2 is dead: ValueError: this cannot work\n")
    up.signal(signal.SIGINT)
    assert up.ended() == 0


def test_up_serves_a_module_behind_a_pooler(spawn, run, postgres, postgres_server, monkeypatch):
    with PgBouncer(postgres_server, schema=own_schema(), connections=2) as pooler:
        monkeypatch.setenv("HEADGATE_URL", pooler.url)
        up = spawn("up", "shop")
        up.hear("store: behind a connection pooler")
        up.hear("serves fail, greet")
        assert run("submit", "greet", "--wait", PATIENCE).out == '1 succeeded "Hello, you!"\n'
        up.signal(signal.SIGINT)
        assert up.ended() == 0


def test_the_first_signal_waits_for_what_runs_and_the_second_hands_it_back(spawn, run):
    """Spec: D9"""
    up = spawn("up", "shop")
    up.hear("serves")
    task_id = run("submit", "nap", "--json").json["id"]
    started(run, task_id)
    up.signal(signal.SIGTERM)
    up.hear("SIGTERM: waiting up to")
    assert up.process.poll() is None
    up.signal(signal.SIGTERM)
    assert up.ended() == 0
    task = run("show", task_id, "--json").json
    assert (task["status"], task["error_count"], task["lost_count"]) == ("queued", 0, 0)


def test_work_serves_its_modules_and_does_the_light_duties(spawn, run):
    work = spawn("work", "shop", "--name", "mine", "--concurrency", "3")
    work.hear("worker 1 (mine) serves")
    assert run("submit", "greet", "--delay", "0.1", "--wait", PATIENCE).code == 0
    work.signal(signal.SIGTERM)
    assert work.ended() == 0


def test_work_in_several_processes_starts_another_for_one_that_dies(spawn, run):
    """Spec: D9"""
    work = spawn("work", "shop", "--processes", "2", "--name", "w")
    work.hear("serves", times=2)
    killed = json.loads(run("submit", "whereabouts", "--wait", PATIENCE, "--json").out)["result"]
    assert killed != work.process.pid
    os.kill(killed, signal.SIGKILL)
    work.hear("ended with exit code -9: starting another")
    work.hear("serves", times=3)
    assert run("submit", "greet", "--wait", PATIENCE).code == 0
    work.signal(signal.SIGTERM)
    work.hear("SIGTERM: waiting up to", times=2)
    assert work.ended() == 0
    assert "all processes have ended" in work.definition[-1]


def test_workers_end_in_good_order_when_their_supervisor_is_killed(spawn, run):
    """Spec: D9"""
    work = spawn("work", "shop", "--processes", "2")
    work.hear("serves", times=2)
    work.signal(signal.SIGKILL)
    assert work.ended() == -signal.SIGKILL
    assert len([line for line in work.definition if line.endswith("stopped")]) == 2


def test_duties_alone_bring_on_what_is_due(spawn, folder, url, monkeypatch):
    """Spec: A2"""
    monkeypatch.setenv("HEADGATE_URL", url)
    duties = spawn("duties")
    duties.hear("running the background duties")
    with open_store(url) as store:
        store.types.put(TaskType("plain"))
        made = store.tasks.submit(NewTask("plain", delay_seconds=0.05))
        wait_until(lambda: store.tasks.get(made.id).status is State.QUEUED)
    duties.signal(signal.SIGTERM)
    assert duties.ended() == 0


def test_log_lines_are_json_where_that_is_wanted(spawn):
    """Spec: D10"""
    up = spawn("up", "shop", "--log-json")
    told = json.loads(up.hear("serves"))
    assert (told["level"], told["logger"]) == ("info", "headgate.worker")
    up.signal(signal.SIGTERM)
    up.ended()
    assert [json.loads(line)["message"] for line in up.definition][-1] == "stopped"


BAD = {
    "no module nosuch": ("", "nosuch"),
    "has no Headgate app": ("", "empty"),
    "different stores": (
        "import headgate\na = headgate.Headgate('sqlite:///a.db')\nb = headgate.Headgate()\n",
        "empty",
    ),
    "no module declares a task": ("import headgate\napp = headgate.Headgate()\n", "empty"),
}


@pytest.mark.parametrize("said", BAD)
def test_a_module_that_cannot_be_served_is_one_clear_line(spawn, folder, said):
    text, module = BAD[said]
    (folder / "empty.py").write_text(text)
    work = spawn("work", module)
    assert work.ended() == 2
    assert [said in line for line in work.definition] == [True]


def test_a_supervisor_does_not_try_again_what_cannot_work(spawn):
    work = spawn("work", "nosuch", "--processes", "2")
    assert work.ended() == 2
    assert "error: no module nosuch" in work.definition
    assert not any("starting another" in line for line in work.definition)


def test_a_url_that_is_said_goes_over_the_apps(spawn, folder, run):
    """Spec: C12"""
    (folder / "two.py").write_text(
        "import headgate\na = headgate.Headgate('sqlite:///a.db')\nb = headgate.Headgate('sqlite:///b.db')\n"
        "@a.task\nasync def one() -> None: ...\n@b.task\nasync def other() -> None: ...\n"
    )
    up = spawn("up", "two", "--url", "sqlite:///said.db")
    up.hear("serves one, other")
    for code in ("one", "other"):
        assert run("submit", code, "--wait", PATIENCE, "--url", "sqlite:///said.db").code == 0
    up.signal(signal.SIGTERM)
    assert up.ended() == 0
    assert sorted(file.name for file in folder.glob("*.db")) == ["said.db"]


def test_a_file_of_the_users_with_our_name_does_not_stand_in_for_us(spawn, folder):
    (folder / "headgate.py").write_text("raise RuntimeError('not me')\n")
    up = spawn("up")
    up.hear("serves")
    up.signal(signal.SIGTERM)
    assert up.ended() == 0


def test_the_demonstration_shows_what_it_says(spawn, run):
    """Spec: A2, D7, B7, A10, A11"""
    up = spawn("up")
    up.hear("serves")
    assert run("submit", "demo", "--wait", PATIENCE).code == 0

    def statuses():
        return {task["type"]: task["status"] for task in run("list", "--json").lines}

    wait_until(lambda: statuses()["invoice"] == "dead" and statuses()["album"] == "succeeded")
    lanes = {lane["name"]: lane for lane in run("lanes", "--json").lines}
    assert lanes["demo-downloads"]["capacity"] == 2
    for words in (["flaky", "failures=1"], ["primes", "below=100"], ["count", "to=2", "pause=0"]):
        assert run("submit", *words, "--wait", PATIENCE).code == 0
    assert run("submit", "-m", "headgate.demo", "tidy", "shelf=9", "--json").json["mutex"] == "shelf:9"
    up.signal(signal.SIGTERM)
    up.signal(signal.SIGTERM)
    assert up.ended() == 0


def test_up_replaces_a_worker_that_cannot_end_a_handler_and_goes_on_answering(spawn, run, folder, monkeypatch):
    """Spec: A6"""
    monkeypatch.setenv("HEADGATE_STUCK_SECONDS", "0.2")
    (folder / "stubborn.py").write_text(
        "import time\nimport headgate\napp = headgate.Headgate()\n"
        "@app.task(timeout_seconds=0.5)\ndef stick() -> None:\n    time.sleep(600)\n"
        "@app.task\nasync def greet() -> str:\n    return 'hello'\n"
    )
    up = spawn("up", "stubborn")
    up.hear("serves")
    task_id = run("submit", "stick", "--json").json["id"]
    assert f"task={task_id} type=stick" in up.hear("handler does not stop after being told to")
    up.hear("serves", times=2)
    wait_until(lambda: run("show", task_id, "--json").json["status"] == "failed")
    assert run("submit", "greet", "--wait", PATIENCE).code == 0
    assert len([line for line in up.definition if "the API and the console are at" in line]) == 1
    up.signal(signal.SIGTERM)
    assert up.ended() == 0


STARTS = {
    "work": (("work", "shop"), "serves"),
    "up": (("up", "shop"), "serves"),
    "serve": (("serve",), "the API and the console are at"),
    "duties": (("duties",), "running the background duties"),
}


@pytest.mark.parametrize("command", STARTS)
def test_a_process_waits_for_a_server_that_is_away_at_its_start(spawn, run, postgres, monkeypatch, command):
    """Spec: D9"""
    target, (words, ready) = urlsplit(postgres), STARTS[command]
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    away = target._replace(netloc=f"{target.username}@127.0.0.1:{port}").geturl()
    monkeypatch.setenv("HEADGATE_URL", away)
    process = spawn(*words)
    assert "Connection refused" in process.hear("waiting for the store")
    with socket.create_server(("127.0.0.1", port)) as server, relay(server, (target.hostname, target.port)):
        process.hear("the store answers")
        process.hear(ready)
        if "shop" in words:
            monkeypatch.setenv("HEADGATE_URL", postgres)
            assert run("submit", "greet", "--wait", PATIENCE).code == 0
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
    assert len([line for line in process.definition if "waiting for the store" in line]) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", STARTS)
def test_a_process_that_waits_for_its_store_can_be_stopped(spawn, monkeypatch, command, number):
    """Spec: D9"""
    monkeypatch.setenv("HEADGATE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    process = spawn(*STARTS[command][0])
    process.hear("waiting for the store")
    process.signal(number)
    assert process.ended() == 0


@pytest.mark.parametrize("command", STARTS)
def test_a_process_does_not_wait_for_a_database_that_its_server_does_not_have(spawn, postgres, monkeypatch, command):
    """Spec: D9"""
    monkeypatch.setenv("HEADGATE_URL", urlsplit(postgres)._replace(path="/nothing").geturl())
    process = spawn(*STARTS[command][0])
    error = process.hear("error: the store refuses the connection")
    assert 'database "nothing" does not exist' in error
    assert process.ended() == 4
    assert not [line for line in process.definition if "waiting for the store" in line]


def test_a_worker_whose_file_was_replaced_says_so_and_another_takes_up_the_new_one(spawn, run, folder):
    work = spawn("work", "shop")
    work.hear("serves")
    for old in folder.glob("headgate.db*"):
        if old.is_file():
            old.unlink()
    work.hear("headgate.db was replaced or removed")
    work.hear("serves", times=2)
    assert run("submit", "greet", "--wait", PATIENCE).code == 0
    work.signal(signal.SIGTERM)
    assert work.ended() == 0


@contextmanager
def relay(server, target):
    """Whoever connects to the server talks to the target."""

    def pump(source, sink):
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve():
        with suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.create_connection(target)
                opened.extend((near, far))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=(source, sink), daemon=True).start()

    opened: list[socket.socket] = []
    accepting = threading.Thread(target=serve, daemon=True)
    accepting.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        accepting.join(PATIENCE)
        for each in opened:
            each.close()


@pytest.mark.parametrize("words", [["--pack", "media"], []], ids=["option", "setting"])
def test_the_demonstration_tasks_are_served_only_where_nothing_is_named(spawn, monkeypatch, words):
    """Spec: X11"""
    if not words:
        monkeypatch.setenv("HEADGATE_PACKS", "media")
    up = spawn("up", *words)
    served = up.hear(" serves ")
    assert "list_fetch" in served
    assert "hello" not in served
    up.hear("serving pack media")
