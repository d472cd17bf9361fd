"""The reference agents, each in its own language, against a real server in a process of its own."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest

from headgate.agent import Agent, ServerProblem
from headgate.core.retry import fixed
from headgate.core.task import TaskType
from headgate.store.store import open_store
from tests.api.serving import PATIENCE, ROOT, serving

CLIENTS = ROOT / "clients"
PROGRAM = """
import signal, sys, time
from headgate.agent import Agent
from headgate.core.retry import Fatal

agent = Agent(*sys.argv[1:], lease_seconds=6)
signal.signal(signal.SIGTERM, lambda *_: agent.stop())

@agent.handles("echo")
def echo(work):
    return work.ext

@agent.handles("fail")
def fail(work):
    raise Fatal("it was bound to fail")

@agent.handles("sleep")
def sleep(work):
    end = time.monotonic() + work.ext["seconds"]
    while time.monotonic() < end:
        work.check()
        time.sleep(0.05)
    return "slept"

agent.run(wait_seconds=1)
"""
SCRIPTS = {
    "echo": "cat",
    "fail": "echo 'it was \"bound\" to fail' >&2; exit 65",
    "sleep": "sleep \"$(sed 's/[^0-9.]//g')\"; echo '\"slept\"'",
}
AGAIN_SECONDS = 10.0
BEATS = {
    "agent.sh": ("lease=30", "lease=6"),
    "agent.py": ("LEASE_SECONDS, BEAT_SECONDS = 30, 5", "LEASE_SECONDS, BEAT_SECONDS = 6, 1"),
    "agent.mjs": ("LEASE_SECONDS = 30", "LEASE_SECONDS = 6"),
}


def command(client, folder, address):
    """How an agent is started."""
    if client == "bash":
        (folder / "handlers").mkdir()
        for name, script in SCRIPTS.items():
            path = folder / "handlers" / name
            path.write_text(f"#!/usr/bin/env bash\n{script}\n")
            path.chmod(0o755)
        return ["bash", quick("agent.sh", folder), address, "agent-1", str(folder / "handlers")]
    if client == "headgate.agent":
        return [sys.executable, "-c", PROGRAM, address, "agent-1"]
    if client == "python":
        return [sys.executable, quick("agent.py", folder), address, "agent-1"]
    return ["node", quick("agent.mjs", folder), address, "agent-1"]


def quick(name, folder):
    """A copy of the agent that asks every second, not every five, whether its task is to be cancelled."""
    text, (slow, fast) = (CLIENTS / name).read_text(), BEATS[name]
    assert text.count(slow) == 1
    (folder / name).write_text(text.replace(slow, fast))
    return str(folder / name)


@contextmanager
def running(client, folder, address):
    """An agent, for a while; it must go in good order."""
    process = subprocess.Popen(command(client, folder, address), env=os.environ | {"HEADGATE_KEY": ""})
    try:
        yield process
    finally:
        _end(process)
    assert process.returncode == 0


def _end(process):
    """Ask it to go, and again if it has not heard: bash loses a signal now and then that comes while it forks."""
    for _ in range(int(PATIENCE / AGAIN_SECONDS)):
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=AGAIN_SECONDS)
            return
    process.kill()
    process.wait(timeout=PATIENCE)


@pytest.fixture
def store_url(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        store.migrate()
        for task_type in (TaskType("echo"), TaskType("sleep"), TaskType("fail", retry=fixed(0, retries=3))):
            store.types.put(task_type)
    return url


EVERY_CLIENT = pytest.mark.parametrize("client", ["bash", "python", "javascript", "headgate.agent"])


@EVERY_CLIENT
def test_a_reference_agent_runs_tasks_reports_failures_and_obeys_a_cancel(client, store_url, tmp_path):
    """Spec: B2, B3, B8, E1, X6"""
    strange = {"text": 'a "quoted"\\ line,\n\t中文', "ext": {"attempt": 1, "ext": [None, True, 1.5]}, "attempt": 1}
    with serving(store_url) as server, running(client, tmp_path, server.address):
        plain = [server.submit("echo", {"n": n}) for n in range(3)]
        odd = server.submit("echo", strange, name='"name", "ext":{}')
        assigned = server.submit("echo", {"mine": 1}, agent_id="agent-1")
        failing = server.submit("fail")
        assert [server.reached(task_id, "succeeded")["result"] for task_id in plain] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert server.reached(odd, "succeeded")["result"] == strange
        assert server.reached(assigned, "succeeded")["result"] == {"mine": 1}
        failed = server.reached(failing, "failed")
        assert (failed["error_count"], "bound" in failed["error_info"]) == (1, True)
        endless = server.submit("sleep", {"seconds": 600})
        server.reached(endless, "running")
        server.ask("POST", f"/api/tasks/{endless}/cancel", {})
        assert server.reached(endless, "cancelled")["attempt"] == 1
        after = server.submit("echo", {"n": 9})
        assert server.reached(after, "succeeded")["result"] == {"n": 9}


@EVERY_CLIENT
def test_a_reference_agent_asks_again_when_an_answer_was_lost(client, store_url, tmp_path):
    """Spec: B2, X6"""
    with serving(store_url) as server, losing_answers(server.address, ("claim", "complete")) as address:
        task_id = server.submit("echo", {"n": 1})
        with running(client, tmp_path, address):
            done = server.reached(task_id, "succeeded")
            after = server.reached(server.submit("echo", {"n": 2}), "succeeded")
        assert (done["attempt"], done["error_count"], done["lost_count"], after["attempt"]) == (1, 0, 0, 1)


@EVERY_CLIENT
def test_a_reference_agent_whose_confirmation_was_not_answered_runs_an_assigned_task_once(client, store_url, tmp_path):
    """Spec: E1, X6"""
    with serving(store_url) as server, losing_answers(server.address, ("start",)) as address:
        task_id = server.submit("echo", {"n": 1}, agent_id="agent-1")
        with running(client, tmp_path, address):
            done = server.reached(task_id, "succeeded")
        assert (done["attempt"], done["result"]) == (1, {"n": 1})
        _, events = server.ask("GET", f"/api/tasks/{task_id}/events")
        kinds = [event["kind"] for event in events["items"]]
        assert kinds == ["submitted", "scheduled", "started", "completed"]


@EVERY_CLIENT
def test_a_reference_agent_that_confirms_too_late_leaves_the_task_alone_and_gets_it_again(client, store_url, tmp_path):
    """Spec: E1, E2, X6"""
    figures = {"compensation_threshold": 0.001, "compensation_start_interval": 0.1}
    with serving(store_url, **figures) as server:

        def compensate():
            status, answer = server.ask("POST", "/api/compensation/trigger")
            assert (status, answer["found"]) == (200, 1)

        with losing_answers(server.address, (), {"start": compensate}) as address:
            task_id = server.submit("echo", {"n": 1}, agent_id="agent-1")
            with running(client, tmp_path, address):
                done = server.reached(task_id, "succeeded")
        assert (done["attempt"], done["error_count"], done["result"]) == (2, 0, {"n": 1})
        _, events = server.ask("GET", f"/api/tasks/{task_id}/events")
        kinds = [event["kind"] for event in events["items"]]
        assert kinds == ["submitted", "scheduled", "compensated", "scheduled", "started", "completed"]


def test_the_library_keeps_its_connections_open_and_does_without_one_that_was_closed(store_url):
    """Spec: A11, X6"""
    made: list[socket.socket] = []
    with serving(store_url) as server, losing_answers(server.address, (), made=made) as address:
        agent = Agent(address, "agent-1")

        @agent.handles("echo")
        def echo(work):
            work.progress(1)
            return work.ext

        ids = [server.submit("echo", {"n": number}) for number in range(8)]
        for task_id in ids:
            assert agent.turn(0) == 1
            assert server.task(task_id)["status"] == "succeeded"
        assert len(made) == 1
        made[0].shutdown(socket.SHUT_RDWR)  # as a server does with a connection that was idle for long
        last = server.submit("echo", {"n": 9})
        assert agent.turn(0) == 1
        assert (server.task(last)["attempt"], len(made)) == (1, 2)
        agent.close()


def test_the_library_goes_through_the_proxy_that_the_environment_names(store_url, monkeypatch):
    """Spec: X6"""
    with serving(store_url) as server:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", server.address.replace("://", "://ann:secret@"))
        agent = Agent("http://nowhere.invalid", "agent-1")
        with pytest.raises(
            ServerProblem, match="answers only under this machine's own names"
        ):  # it was asked by another
            agent.turn(0)
        agent.close()


@contextmanager
def losing_answers(address, words, before=None, made=None):
    """A way to the server on which the first answer to a call of each kind gets lost.

    `before` says what is to be done before the first call of a kind comes to the server; `made` gets the connections.
    """
    left, first = list(words), dict(before or {})
    listening = socket.create_server(("127.0.0.1", 0))
    target = ("127.0.0.1", int(address.rpartition(":")[2]))

    def carry(one):
        with one, socket.create_connection(target) as other:
            lost = False

            def answer():
                while data := other.recv(65536):
                    if lost:
                        break
                    one.sendall(data)
                for each in (one, other):
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)

            back = threading.Thread(target=answer, daemon=True)
            back.start()
            try:
                while data := one.recv(65536):
                    for word in list(first):
                        if f"/{word} HTTP".encode() in data:
                            first.pop(word)()
                    for word in list(left):
                        if f"/{word} HTTP".encode() in data:
                            left.remove(word)
                            lost = True
                    other.sendall(data)
            except OSError:
                pass
            if not lost:
                with suppress(OSError):
                    other.shutdown(socket.SHUT_RDWR)
            back.join(timeout=PATIENCE)

    def accept():
        while True:
            try:
                one, _ = listening.accept()
            except OSError:
                return
            if made is not None:
                made.append(one)
            threading.Thread(target=carry, args=(one,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()
    assert not left
    assert not first


@pytest.mark.parametrize("name", ["agent.sh", "agent.py", "agent.mjs"])
def test_a_reference_agent_is_short_enough_to_read(name):
    """Spec: X6"""
    assert len((CLIENTS / name).read_text().splitlines()) < 120
