"""A client that is slow, or that takes nothing, is given up; on a real socket, with deadlines that are set short."""

import socket
import time
from typing import Any

import pytest

from lab.headgate_server import headgate_server
from lab.raw_http import PATIENCE, raw_client

SOON: dict[str, Any] = {"head_seconds": 0.3, "body_seconds": 0.3, "answer_seconds": 0.3}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with headgate_server(tmp_path_factory.mktemp("server"), **SOON) as running:
        yield running


def is_too_slow(client, word):
    answer = client.answer()
    assert (answer.status, answer.json["code"]) == (408, "too-slow")
    assert word in answer.json["detail"]
    return client.ended()


def test_who_connects_and_says_nothing_is_given_up(client):
    """Spec: X12"""
    assert client.ended()


@pytest.mark.parametrize("asked", [False, True], ids=["first", "next"])
@pytest.mark.parametrize("part", [b"\r\n", b"G", b"GET /livez HTTP/1.1\r\nHost:"], ids=["blank", "method", "header"])
def test_a_head_that_does_not_end_is_given_up(client, part, asked):
    """Spec: X12"""
    if asked:
        assert client.ask("GET", "/livez").status == 200
    client.send(part)
    assert is_too_slow(client, "head")


@pytest.mark.parametrize("about", [{"Content_Length": "10"}, {"Transfer_Encoding": "chunked"}], ids=str)
def test_a_body_that_does_not_end_is_given_up(client, about):
    """Spec: X12"""
    client.send(client.head("POST", "/api/tasks", Content_Type="application/json", **about))
    assert is_too_slow(client, "body")


def test_a_body_that_nobody_reads_is_given_up_too(client):
    """Spec: X12"""
    client.send(client.head("POST", "/api/nowhere", Content_Length="10"))
    assert client.answer().status == 404
    assert client.ended()


def test_who_takes_nothing_of_an_answer_is_given_up(server, client):
    """Spec: X12"""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(30):
        client.send(client.head("GET", "/api/openapi.json"))
    with raw_client(server.address) as another:
        end = time.monotonic() + PATIENCE
        while server.connections() > 1:
            assert another.ask("GET", "/livez").status == 200
            assert time.monotonic() < end


def test_a_long_poll_outlives_every_deadline(client):
    """Spec: B11"""
    assert client.ask("PUT", "/api/task-types/plain", {}).status in (200, 201)
    waited = client.ask("POST", "/api/tasks?wait=1", {"type": "plain", "delay_seconds": 3600})
    assert waited.status == 202


def test_the_beginning_of_the_next_head_ends_no_request_that_is_being_answered(client):
    """Spec: B11, X12"""
    assert client.ask("PUT", "/api/task-types/plain", {}).status in (200, 201)
    body = b'{"type": "plain", "delay_seconds": 3600}'
    about = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    client.send(client.head("POST", "/api/tasks?wait=1", **about) + body + b"GET /livez")
    assert client.answer().status == 202
    assert is_too_slow(client, "head")
