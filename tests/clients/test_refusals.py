"""Agents that are refused: they say what they were answered, wait, and lose no report; begun wrongly, they say how."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.api.serving import PATIENCE
from tests.clients.test_clients import CLIENTS, command
from tests.clients.test_guide import GUIDE, HERE

TASK = {
    "id": 1, "exec_id": "a-b-c", "executing_deadline": "2100-01-01T00:00:00Z", "status": "running", "type": "echo",
    "ext": {"text": "hello"}, "attempt": 1, "error_count": 0,
}  # fmt: skip
LOOK_SECONDS = 0.02  # whether it is to end; else half a second
PAUSE = '#!/bin/sh\necho "$1" >>"$PAUSES"\nexec /bin/sleep 0.05\n'


@contextmanager
def refusing(*answers):
    """A server that gives these answers, each to the next call, and then none: its address, the calls, and the end."""
    left, calls, done = list(answers), [], threading.Event()

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("/beat"):  # of an agent whose machine is busy
                status, answer = 200, {"control": "none"}
            else:
                calls.append((self.path.removeprefix("/api/agents/agent-1/"), body))
                if not left:
                    done.set()
                    threading.Event().wait(PATIENCE)
                    return
                status, answer = left.pop(0)
            content = json.dumps(answer, separators=(",", ":")).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_): ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, args=(LOOK_SECONDS,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", calls, done
    finally:
        server.shutdown()
        server.server_close()


def problem(status):
    return status, {"title": "No", "status": status, "detail": f"refused with {status}"}


@pytest.mark.parametrize("final", [(200, {"status": "succeeded", "control": "none"}), problem(409)])
def test_the_guides_agent_says_that_it_is_refused_waits_and_reports_again(final, tmp_path):
    """Spec: B2, X6"""
    [script] = re.findall(r"```bash\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "sleep").write_text(PAUSE)
    (tmp_path / "sleep").chmod(0o755)
    given = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PAUSES": f"{tmp_path}/pauses"}
    refused = [problem(401), problem(429)]
    answers = [*refused, (200, {"tasks": [TASK]}), *refused, problem(503), final]
    with refusing(*answers) as (address, calls, done), (tmp_path / "stderr").open("w") as stderr:
        (tmp_path / "agent.sh").write_text(script.replace(HERE, address))
        agent = subprocess.Popen(["bash", tmp_path / "agent.sh"], stderr=stderr, env=given, start_new_session=True)
        try:
            assert done.wait(PATIENCE)
        finally:
            os.killpg(agent.pid, signal.SIGTERM)
            agent.wait(timeout=PATIENCE)
    assert [path for path, _ in calls] == ["claim"] * 3 + ["tasks/1/complete"] * 4 + ["claim"]
    assert len({body["claim_id"] for path, body in calls[:3]}) == 1
    assert calls[3][1] == {"exec_id": "a-b-c", "result": "HELLO"}
    printed = (tmp_path / "stderr").read_text()
    assert [printed.count(f"refused with {status}") for status in (401, 429, 503)] == [2, 2, 1]
    assert len((tmp_path / "pauses").read_text().split()) == len(answers) - (2 if final[0] == 200 else 1)


@pytest.mark.parametrize("client", ["bash", "python", "javascript"])
def test_a_reference_agent_that_may_not_fetch_says_so_and_ends(client, tmp_path):
    """Spec: B2, X6"""
    with refusing(problem(503), problem(401)) as (address, calls, _):
        run = subprocess.run(
            command(client, tmp_path, address), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    assert (run.returncode, len(calls)) == (1, 2), (run.stderr, calls)
    assert all(f"refused with {status}" in run.stderr for status in (503, 401))


@pytest.mark.parametrize("client", ["bash", "python"])
def test_a_reference_agent_says_that_its_report_was_refused(client, tmp_path):
    """Spec: B3, X6"""
    with refusing((200, {"tasks": [TASK]}), problem(503), problem(409), problem(401)) as (address, calls, _):
        run = subprocess.run(
            command(client, tmp_path, address), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    wanted = ["claim", "tasks/1/complete", "tasks/1/complete", "claim"]
    assert [path for path, _ in calls] == wanted, (run.stderr, calls)
    assert all(f"refused with {status}" in run.stderr for status in (503, 409, 401))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (["bash", "agent.sh"], []), (["bash", "agent.sh"], [HERE, "agent-1"]),
        (["bash", "agent.sh"], [HERE, "agent-1", "no/such/folder"]),
        ([sys.executable, "agent.py"], []), ([sys.executable, "agent.py"], [HERE]),
        (["node", "agent.mjs"], []), (["node", "agent.mjs"], [HERE]),
        ([sys.executable, "receiver.py"], []), ([sys.executable, "receiver.py"], ["9000"]),
        (["node", "receiver.mjs"], []), (["node", "receiver.mjs"], ["9000"]),
    ],
)  # fmt: skip
def test_a_client_that_is_started_without_what_it_needs_says_how_to_start_it(program, words):
    """Spec: X6"""
    given = {name: value for name, value in os.environ.items() if name not in ("AK", "SK")}
    run = subprocess.run(
        [*program, *words], cwd=CLIENTS, env=given, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert re.fullmatch(rf"usage: .*{re.escape(program[1])} .*\n", run.stderr)
    if "receiver" in program[1] and not words:
        again = subprocess.run(
            program, cwd=CLIENTS, env=given | {"AK": "us", "SK": "x" * 24}, capture_output=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip
        assert again.returncode == 2
