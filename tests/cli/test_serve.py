"""`headgate serve`, and `up` with the API, as real processes: they answer, refuse to be open to all, and stop."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from lab.server import free_port
from tests.cli.conftest import PATIENCE
from tests.cli.test_running import wait_until

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"


def address_of(process) -> str:
    said = process.hear("the API and the console are at")
    return str(re.findall(r"http://\S+", said)[0])


def get(address, path, **about):
    return httpx.get(address + path, timeout=PATIENCE, trust_env=False, verify=False, **about)


def test_serve_answers_and_stops_in_good_order(spawn, anywhere):
    """Spec: B11, D9"""
    serve = spawn("serve", "--port", "0")
    address = address_of(serve)
    assert get(address, "/livez").status_code == get(address, "/readyz").status_code == 200
    assert get(address, "/api/tasks").json() == {"items": [], "next_cursor": None}
    serve.signal(signal.SIGTERM)
    assert serve.ended() == 0
    assert serve.definition[-1].endswith("stopped")
    with pytest.raises(httpx.ConnectError):
        get(address, "/livez")


def test_serve_does_the_duties_unless_it_is_told_not_to(spawn, anywhere):
    """Spec: B11, A2"""
    body = {"type": "plain", "delay_seconds": 0.05}
    address = address_of(spawn("serve", "--port", "0", "--no-duties"))
    made = httpx.post(f"{address}/api/tasks", json=body, trust_env=False).json()
    assert made["status"] == "pending"
    assert get(address, f"/api/tasks/{made['id']}").json()["status"] == "pending"
    address = address_of(spawn("serve", "--port", "0"))
    wait_until(lambda: get(address, f"/api/tasks/{made['id']}").json()["status"] == "queued")


def test_up_runs_what_is_submitted_over_http(spawn):
    """Spec: B11, C12"""
    up = spawn("up", "shop", "--port", "0")
    address = address_of(up)
    up.hear("serves")
    made = httpx.post(
        f"{address}/api/tasks?wait=30",
        json={"type": "greet", "ext": {"name": "you"}},
        timeout=PATIENCE,
        trust_env=False,
    ).json()
    assert (made["status"], made["result"]) == ("succeeded", "Hello, you!")
    up.signal(signal.SIGTERM)
    assert up.ended() == 0
    assert len([line for line in up.definition if "the API and the console are at" in line]) == 1


def test_up_knows_the_types_of_its_worker_when_it_first_answers(spawn):
    """Spec: B11, C12"""
    port = free_port()
    up = spawn("up", "shop", "--port", str(port))
    answers = []

    def answered():
        with suppress(httpx.ConnectError):
            body = {"type": "greet"}
            answers.append(
                httpx.post(f"http://127.0.0.1:{port}/api/tasks", json=body, timeout=PATIENCE, trust_env=False)
            )
        return answers

    wait_until(answered)
    assert answers[0].status_code == 201, answers[0].text
    up.signal(signal.SIGTERM)
    assert up.ended() == 0


DYING = """
import os, pathlib, signal, threading, time
import headgate

app = headgate.Headgate()

@app.task
async def greet() -> None: ...

def die():
    while not pathlib.Path("headgate.db").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=die, daemon=True).start()
"""


def test_up_answers_also_when_its_worker_dies_before_it_signs_on(spawn, folder):
    """Spec: B11, D9"""
    (folder / "dying.py").write_text(DYING)
    up = spawn("up", "dying", "--port", "0")
    address = address_of(up)
    assert any("worker process 1 ended with exit code -9" in line for line in up.definition)
    assert get(address, "/readyz").status_code == 200
    up.signal(signal.SIGTERM)
    assert up.ended() == 0


def test_who_waits_for_an_answer_is_answered_before_the_server_ends(spawn, anywhere):
    """Spec: D9"""
    serve = spawn("serve", "--port", "0")
    address = address_of(serve)
    answers = []
    body = {"type": "plain", "delay_seconds": 3600}

    def wait():
        answers.append(
            httpx.post(f"{address}/api/tasks?wait=2", json=body, timeout=PATIENCE, trust_env=False).status_code
        )

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: get(address, "/api/tasks").json()["items"])
    serve.signal(signal.SIGTERM)
    assert serve.ended() == 0
    waiting.join(PATIENCE)
    assert answers == [202]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("command", ["serve", "up"])
def test_an_address_that_others_can_reach_needs_a_key(spawn, here, command, host):
    """Spec: B11"""
    open_to_all = spawn(command, "--host", host)
    assert open_to_all.ended() == 1
    [said] = [line for line in open_to_all.definition if line.startswith("error:")]
    assert f"{host} can be reached from other machines, and there is no key" in said
    assert "headgate keys create NAME --role admin" in said


def test_with_a_key_any_address_is_served_and_only_its_holder_is_answered(spawn, run, here):
    """Spec: B11"""
    key = run("keys", "create", "ops", "--role", "admin", "--json").json["key"]
    run("keys", "revoke", "1")
    assert spawn("serve", "--host", "0.0.0.0").ended() == 1
    key = run("keys", "create", "ops", "--role", "admin", "--json").json["key"]
    serve = spawn("serve", "--host", "0.0.0.0")
    address = address_of(serve).replace("0.0.0.0", "127.0.0.1")
    assert get(address, "/api/tasks").status_code == 401
    assert get(address, "/api/tasks", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert key not in "".join(serve.definition)


def test_a_port_that_is_taken_is_one_clear_line(spawn, here):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        serve = spawn("serve", "--port", port)
        assert serve.ended() == 1
        assert serve.definition == [
            f"error: port {port} of 127.0.0.1: already in use; choose another with --port or HEADGATE_PORT"
        ]


def test_a_host_that_is_none_is_one_clear_line(spawn, here):
    serve = spawn("serve", "--host", "no such host")
    assert serve.ended() == 2
    assert "error: host 'no such host' cannot be resolved" in serve.definition[0]


def test_a_worker_loads_nothing_of_the_server():
    """Spec: A11"""
    script = (
        "import sys, headgate.cli.running, headgate.cli.supervisor; "
        "print([name for name in ('starlette', 'uvicorn', 'headgate.api') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert run.stdout == "[]\n"


def test_the_signature_in_the_security_page_is_taken(spawn, run, here, monkeypatch):
    """Spec: B11"""
    monkeypatch.setenv("HEADGATE_SECRET", "what the server keeps to itself")
    [function] = re.findall(r"```bash\n(.*?)```", SECURITY.read_text(), re.DOTALL)
    made = run("keys", "create", "signer", "--role", "submit", "--json").json
    address = address_of(spawn("serve"))
    host = address.removeprefix("http://")
    known = {"HOST": host, "ACCESS_KEY": made["access_key"], "SECRET_KEY": made["secret_key"]}
    body = '{"type": "plain"}'
    script = f"{function}\nsign POST /api/tasks wait=0 '{body}'"
    header = subprocess.run(
        ["bash", "-c", script], env=os.environ | known, capture_output=True, text=True, check=True
    ).stdout.strip()
    said = {"Authorization": header, "Content-Type": "application/json"}
    answers = [httpx.post(f"{address}/api/tasks?wait=0", content=body, headers=said, trust_env=False) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 401]
