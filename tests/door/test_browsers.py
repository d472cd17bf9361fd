"""What a browser says of the page that asks is taken whole, or not at all; on a real socket."""

import pytest


def asked(client, *lines):
    client.send("\r\n".join(["GET /api/tasks HTTP/1.1", *lines, "", ""]).encode())
    return client.answer().status


@pytest.mark.parametrize(
    "host",
    ["[::1]evil.example", "[::1", "localhost:80@evil.example", "localhost:x", "localhost/evil", "localhost:80:80", ""],
)
def test_a_host_is_compared_whole(client, host):
    """Spec: B11"""
    assert asked(client, f"Host: {host}") == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:80", "[::1]", "[::1]:80", "LOCALHOST"])
def test_this_machines_own_names_are_answered(client, host):
    """Spec: B11"""
    assert asked(client, f"Host: {host}") == 200


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"])
def test_what_a_browser_says_once_is_not_taken_twice(client, name):
    """Spec: B11"""
    said = f"http://{client.host}" if name == "Origin" else "same-origin"
    assert asked(client, f"Host: {client.host}", f"{name}: {said}", f"{name}: {said}") == 400


@pytest.mark.parametrize("origin", ["http://[::1", "http://[v", "null", "localhost", "http://localhost@evil.example"])
def test_an_origin_that_is_none_of_ours_is_refused_whatever_it_is(client, origin):
    """Spec: B11"""
    assert asked(client, "Host: localhost", f"Origin: {origin}") == 403
