"""The command with a broker: up goes by it, doctor checks it, a wrong one is one line."""

import signal

import pytest

from tests.cli.conftest import PATIENCE, folder, here, run, spawn  # noqa: F401 fixtures
from tests.worker.conftest import until


def checks(run):  # noqa: F811
    found = run("doctor", "--json").json["checks"]
    return {check["name"]: (check["state"], check["found"]) for check in found}


def test_up_with_a_broker_delivers_by_it_and_stops_in_good_order(broker, spawn, run, monkeypatch):  # noqa: F811
    """Spec: D1, D9"""
    up = spawn("up", "shop", "--broker", broker)
    up.hear("consumer: takes tasks from the broker at 127.0.0.1")
    up.hear("dispatcher: hands tasks to the broker at 127.0.0.1")
    until(lambda: '"dispatcher"' in run("workers", "--json").out)
    assert run("submit", "greet", "--wait", PATIENCE).out == '1 succeeded "Hello, you!"\n'
    monkeypatch.setenv("HEADGATE_BROKER", broker)
    found = checks(run)
    assert found["broker"][0] == "ok"
    assert found["broker"][1].startswith("RabbitMQ 3.")
    assert found["dispatcher"] == ("ok", "a process hands tasks to the broker")
    up.signal(signal.SIGTERM)
    assert up.ended() == 0
    assert all("guest:guest" not in line for line in up.definition)


def test_doctor_says_what_is_wrong_with_a_broker_and_what_happens_meanwhile(here, run, monkeypatch):  # noqa: F811
    """Spec: D1"""
    assert "broker" not in checks(run)
    nodes = ",".join(f"amqp://u:secret-word@127.0.0.1:{port}/" for port in (1, 2))
    monkeypatch.setenv("HEADGATE_BROKER", nodes)
    answer = run("doctor")
    for node in ("127.0.0.1:1", "127.0.0.1:2"):
        assert f"the broker at {node} cannot be used" in " ".join(answer.out.split())
    assert checks(run)["dispatcher"] == ("warn", "no process hands tasks to the broker")
    assert "secret-word" not in answer.out


@pytest.mark.parametrize("words", [("up",), ("serve",), ("work", "shop"), ("duties",)])
def test_a_wrong_broker_is_refused_in_one_line(run, words):  # noqa: F811
    """Spec: D1"""
    answer = run(*words, "--broker", "http://u:secret-word@rabbit")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: broker: use amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// for TLS")
    assert answer.err.count("\n") == 1
    assert "secret-word" not in answer.err
