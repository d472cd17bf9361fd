"""What a client sends before there is a request is bounded while it is read, on a real socket."""

import pytest

from headgate.api.door.connection import MOST_HEAD_BYTES, MOST_PIPELINED
from lab.raw_http import raw_client

KIB = 1024
MIB = 1024 * KIB


def is_too_large(answer):
    assert (answer.status, answer.headers["connection"]) == (431, "close")
    assert answer.json["type"] == "urn:headgate:problem:headers-too-large"
    assert answer.headers["x-content-type-options"] == "nosniff"
    return True


def test_a_head_of_up_to_32_kib_is_read(client):
    """Spec: X12"""
    assert client.ask("GET", "/livez", X_Long="x" * 31 * KIB).status == 200
    assert client.ask("GET", "/livez?" + "x" * 31 * KIB).status in (200, 422)


@pytest.mark.parametrize(
    "begin",
    [b"GET /livez HTTP/1.1\r\nX-Long: ", b"GET /livez HTTP/1.1\r\n", b"GET /livez?", b"GET"],
    ids=["value", "name", "target", "method"],
)
def test_what_has_no_end_is_refused_at_32_kib(server, client, begin):
    """Spec: X12"""
    before = server.memory()
    client.send(begin)
    sent = 0
    while sent < 64 * MIB and client.send(b"x" * 256 * KIB):
        sent += 256 * KIB
    answer = client.answer()
    if begin == b"GET":
        assert answer.status == 400
    else:
        assert is_too_large(answer)
    assert client.ended()
    assert server.memory() - before < 16 * MIB


def test_headers_without_end_are_refused_at_32_kib(server, client):
    """Spec: X12"""
    before = server.memory()
    client.send(b"GET /livez HTTP/1.1\r\n")
    client.send(b"a:b\r\n" * (8 * MIB // 5))
    assert is_too_large(client.answer())
    assert client.ended()
    assert server.memory() - before < 16 * MIB


def test_a_head_that_comes_byte_by_byte_is_bounded_too(client):
    """Spec: X12"""
    client.send(b"GET /livez HTTP/1.1\r\nX-Long: ")
    for _ in range(MOST_HEAD_BYTES // 64 + 1):
        client.send(b"x" * 64)
    assert is_too_large(client.answer())


CHUNKED = {"Transfer_Encoding": "chunked", "Content_Type": "application/json"}


@pytest.mark.parametrize("rest", [b"2;x=", b"2\r\n{}\r\n0\r\nX-Long: "], ids=["extension", "trailer"])
def test_what_comes_beside_a_body_is_bounded_too(client, rest):
    """Spec: X12"""
    client.send(client.head("POST", "/api/tasks", **CHUNKED) + rest)
    client.send(b"x" * MIB)
    assert is_too_large(client.answer())


def test_a_trailer_is_no_header(client):
    """Spec: X12"""
    client.send(client.head("POST", "/api/tasks", **CHUNKED) + b"2\r\n{}\r\n0\r\nX-Request-ID: trailer\r\n\r\n")
    answer = client.answer()
    assert answer.status == 422
    assert answer.headers["x-request-id"] != "trailer"
    late = client.head("POST", "/api/tasks", Transfer_Encoding="chunked")
    client.send(late + b"2\r\n{}\r\n0\r\nContent-Type: application/json\r\n\r\n")
    assert client.answer().status == 415


def test_requests_wait_behind_one_that_is_answered_up_to_a_number(server, client):
    """Spec: X12"""
    ask = client.head("GET", "/livez")
    client.send(ask * MOST_PIPELINED)
    assert [client.answer().status for _ in range(MOST_PIPELINED)] == [200] * MOST_PIPELINED
    with raw_client(server.address) as greedy:
        greedy.send(ask * 10_000)
        assert greedy.ended()
    assert client.ask("GET", "/livez").status == 200


def test_what_is_no_http_is_a_problem_too(client):
    """Spec: X6"""
    client.send(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
    answer = client.answer()
    assert (answer.status, answer.json["type"]) == (400, "urn:headgate:problem:bad-request")


def test_what_is_wrong_with_the_next_request_is_no_answer_to_the_one_before(client):
    """Spec: X12"""
    assert client.ask("PUT", "/api/task-types/plain", {}).status in (200, 201)
    body = b'{"type": "plain", "delay_seconds": 3600}'
    about = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    client.send(client.head("POST", "/api/tasks?wait=5", **about) + body + b"\0 no HTTP\r\n\r\n")
    assert client.answer().status == 0  # it is over, without one
