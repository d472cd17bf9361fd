"""The proxy for programs that ask addresses which users name, on real sockets."""

import socket
import struct
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from headgate.outward.address import Allowed
from headgate.outward.client import Resolve
from headgate.outward.proxy import MOST_KEPT, USER, OutwardProxy, outward_proxy

HERE = Allowed.parse("127.0.0.1", "ALLOW")
PATIENCE = 30.0


class Far:
    """A service that takes one connection after the other, and what it got."""

    def __init__(self, answer: bytes, *, until: bytes = b"", breaks: bool = False) -> None:
        self.got: list[bytes] = []
        self._answer = answer
        self._until = until  # what it waits for before it answers
        self._breaks = breaks
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                connection.settimeout(PATIENCE)
                got = connection.recv(65536)
                if got == b"end":
                    return
                while not got.endswith(self._until):
                    got += connection.recv(65536)
                self.got.append(got)
                connection.sendall(self._answer)
                if self._breaks:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"end")
        self._thread.join()
        self._socket.close()


@contextmanager
def far_service(answer: bytes, *, until: bytes = b"", breaks: bool = False) -> Iterator[Far]:
    with closing(Far(answer, until=until, breaks=breaks)) as far:
        yield far


def request(proxy: OutwardProxy, first: str, *headers: str, password: str | None = None) -> bytes:
    given = b64encode(f"{USER}:{proxy.password if password is None else password}".encode()).decode()
    lines = [first, "Host: far", f"Proxy-Authorization: Basic {given}", "Connection: keep-alive", *headers, "", ""]
    return "\r\n".join(lines).encode()


def connected(proxy: OutwardProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(proxy.url.rpartition(":")[2])), timeout=PATIENCE)


def rest_of(connection: socket.socket) -> bytes:
    got = b""
    while part := connection.recv(65536):
        got += part
    return got


def ask(proxy: OutwardProxy, first: str, *headers: str, password: str | None = None, body: bytes = b"") -> bytes:
    """What comes back for a request, until the connection ends."""
    with connected(proxy) as connection:
        connection.sendall(request(proxy, first, *headers, password=password) + body)
        return rest_of(connection)


def named(*addresses: str) -> Resolve:
    """A resolver that knows a name by these addresses, one at each look-up."""
    left = iter(addresses)

    async def resolve(host: str, port: int) -> list[str]:
        return [next(left)]

    return resolve


def test_a_request_is_passed_on_as_a_site_expects_it_and_the_answer_comes_back():
    with far_service(b"HTTP/1.1 200 OK\r\n\r\nbody", until=b"sent") as far, outward_proxy(HERE) as proxy:
        answer = ask(proxy, f"POST http://127.0.0.1:{far.port}?q=1 HTTP/1.1", "Content-Length: 4", body=b"sent")
    assert answer == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"
    assert far.got == [b"POST /?q=1 HTTP/1.1\r\nConnection: close\r\nHost: far\r\nContent-Length: 4\r\n\r\nsent"]
    assert (proxy.refusals, proxy.failures) == ([], [])


@pytest.mark.parametrize("body", [b"", b"sent"])
def test_the_next_request_on_a_connection_reaches_no_site_and_ends_it(body):
    """Spec: RELIABILITY T23"""
    with (
        socket.create_server(("127.0.0.1", 0)) as far,
        far_service(b"") as other,
        outward_proxy(HERE) as proxy,
        connected(proxy) as near,
    ):
        first = f"GET http://127.0.0.1:{far.getsockname()[1]}/ HTTP/1.1"
        near.sendall(request(proxy, first, *([f"Content-Length: {len(body)}"] if body else [])) + body)
        connection, _ = far.accept()
        with connection:
            connection.settimeout(PATIENCE)
            got = b""
            while not got.endswith(b"\r\n\r\n" + body):
                got += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok")
            answer = b""
            while not answer.endswith(b"ok"):
                answer += near.recv(65536)
            near.sendall(request(proxy, f"GET http://127.0.0.1:{other.port}/ HTTP/1.1", "Cookie: of-the-other"))
            assert rest_of(connection) == b""
        with suppress(ConnectionResetError):
            assert near.recv(100) == b""
    assert got.count(b"HTTP/1.1") == 1
    assert other.got == []


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=9\r\nProxy-Connection: x\r\nA: b\r\n\r\n",
        b"HTTP/1.1 200 OK\nConnection : keep-alive\nA: b\n\n",
        b"HTTP/1.1 200 OK\r\nProxy-Authenticate: Basic,\r\n Connection: keep-alive\r\nA: b\r\n\r\n",
    ],
)
def test_an_answer_says_that_its_connection_ends_however_a_site_words_it(head):
    """Spec: RELIABILITY T23"""
    with far_service(head + b"x\r\n\r\ny") as far, outward_proxy(HERE) as proxy:
        answer = ask(proxy, f"GET http://127.0.0.1:{far.port}/ HTTP/1.1")
    assert answer == b"HTTP/1.1 200 OK\r\nConnection: close\r\nA: b\r\n\r\nx\r\n\r\ny"


def test_interim_answers_come_before_the_answer_and_promise_no_connection_either():
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nConnection: keep-alive\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx"
    with far_service(interim + answer) as far, outward_proxy(HERE) as proxy:
        got = ask(proxy, f"GET http://127.0.0.1:{far.port}/ HTTP/1.1")
    assert got == (
        b"HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n"
        b"HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
    )


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (b"SSH-2.0-x\r\n\r\n", "its answer is no HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", "no whole head of an answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000, "no whole head of an answer"),
    ],
)
def test_an_answer_without_a_head_is_a_connection_that_broke(answer, failure):
    with far_service(answer) as far, outward_proxy(HERE) as proxy, pytest.raises(ConnectionResetError):
        ask(proxy, f"GET http://127.0.0.1:{far.port}/ HTTP/1.1")
    assert proxy.failures == [f"127.0.0.1:{far.port}: {failure}"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Transfer-Encoding: chunked"], 411),
        (["Content-Length: 4", "Content-Length: 5"], 400),
        (["Content-Length: +4"], 400),
    ],
)
def test_a_request_whose_end_is_not_clear_is_refused(headers, status):
    """Spec: RELIABILITY T23"""
    with far_service(b"") as far, outward_proxy(HERE) as proxy:
        answer = ask(proxy, f"POST http://127.0.0.1:{far.port}/ HTTP/1.1", *headers)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert far.got == []


def test_a_tunnel_carries_what_both_sides_say():
    with far_service(b"hello", until=b"hi") as far, outward_proxy(HERE) as proxy:
        assert ask(proxy, f"CONNECT 127.0.0.1:{far.port} HTTP/1.1", body=b"hi") == b"HTTP/1.1 200 OK\r\n\r\nhello"
    assert far.got == [b"hi"]


def test_without_the_password_nothing_is_passed_on():
    """Spec: RELIABILITY T23"""
    with far_service(b"") as far, outward_proxy(HERE) as proxy:
        answer = ask(proxy, f"GET http://127.0.0.1:{far.port}/ HTTP/1.1", password="guess")  # noqa: S106
    assert answer.startswith(b"HTTP/1.1 407 ")
    assert far.got == []


@pytest.mark.parametrize("first", ["GET http://{}/ HTTP/1.1", "CONNECT {} HTTP/1.1"])
def test_nothing_goes_to_a_forbidden_address_in_any_spelling_or_under_a_name(first):
    """Spec: RELIABILITY T23"""
    with far_service(b"") as far:
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "2130706433", "127.1", "inside.example.org"):
            with outward_proxy(Allowed(), named("127.0.0.1")) as proxy:
                assert ask(proxy, first.format(f"{host}:{far.port}")).startswith(b"HTTP/1.1 403 "), host
    assert far.got == []


def test_a_name_is_judged_anew_for_each_connection_and_the_judged_address_is_the_one_that_is_asked():
    """Spec: RELIABILITY T23"""
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nx"
    with far_service(answer) as far, outward_proxy(HERE, named("127.0.0.1", "10.0.0.1")) as proxy:
        first = f"GET http://changing.example.org:{far.port}/ HTTP/1.1"
        assert ask(proxy, first) == answer
        assert ask(proxy, first).startswith(b"HTTP/1.1 403 ")
    assert proxy.refusals == ["changing.example.org leads to an address that is not allowed (ALLOW)"]
    assert len(far.got) == 1


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("GET ftp://127.0.0.1/ HTTP/1.1", 403),
        ("GET /etc/passwd HTTP/1.1", 403),
        ("GET http://user@127.0.0.1/ HTTP/1.1", 403),
        ("CONNECT 127.0.0.1:0 HTTP/1.1", 403),
        ("nonsense", 400),
        ("GET http://127.0.0.1/" + "x" * 70_000 + " HTTP/1.1", 400),
    ],
)
def test_what_is_no_request_for_the_web_is_refused(first, status):
    """Spec: RELIABILITY T23"""
    with outward_proxy(HERE) as proxy:
        try:
            assert ask(proxy, first).startswith(f"HTTP/1.1 {status} ".encode())
        except ConnectionError:  # it was still being sent
            assert status == 400


def test_a_connection_that_breaks_or_does_not_come_about_does_not_end_like_a_whole_answer():
    with far_service(b"HTTP/1.1 200 OK\r\n\r\nhalf", breaks=True) as far, outward_proxy(HERE) as proxy:
        with pytest.raises(ConnectionResetError):
            ask(proxy, f"GET http://127.0.0.1:{far.port}/ HTTP/1.1")
        with pytest.raises(ConnectionResetError):
            ask(proxy, "GET http://127.0.0.1:1/ HTTP/1.1")
    [failure] = proxy.failures
    assert failure.startswith("127.0.0.1:1: ")


def test_a_program_that_dies_in_the_middle_lets_go_of_the_site_and_is_no_error_of_the_proxy(caplog):
    with socket.create_server(("127.0.0.1", 0)) as far, outward_proxy(HERE) as proxy:
        with socket.create_connection(("127.0.0.1", int(proxy.url.rpartition(":")[2])), timeout=PATIENCE) as near:
            given = b64encode(f"{USER}:{proxy.password}".encode()).decode()
            place = f"127.0.0.1:{far.getsockname()[1]}"
            near.sendall(f"CONNECT {place} HTTP/1.1\r\nProxy-Authorization: Basic {given}\r\n\r\n".encode())
            assert near.recv(100) == b"HTTP/1.1 200 OK\r\n\r\n"
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection, _ = far.accept()
        connection.settimeout(PATIENCE)
        with connection:
            assert connection.recv(100) == b""
    assert caplog.records == []


def test_a_proxy_that_cannot_begin_says_why():
    program = """if True:
        import resource
        from headgate.outward.address import Allowed
        from headgate.outward.proxy import outward_proxy
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        try:
            with outward_proxy(Allowed()):
                pass
        except OSError as error:
            print(error.strerror)
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.stdout == "Too many open files\n"


def test_the_first_refusals_and_the_last_failures_are_kept():
    many = MOST_KEPT + 3
    with outward_proxy(HERE, named(*["10.0.0.1"] * many)) as proxy:
        for number in range(many):
            ask(proxy, f"GET http://n{number}.example.org/ HTTP/1.1")
            with pytest.raises(ConnectionResetError):
                ask(proxy, f"GET http://127.0.0.1:{number + 1}/ HTTP/1.1")
    assert [text.partition(".")[0] for text in proxy.refusals] == [f"n{number}" for number in range(MOST_KEPT)]
    assert [text.split(":")[1] for text in proxy.failures] == [str(number + 1) for number in range(3, many)]
