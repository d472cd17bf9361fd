"""One request, one answer, no surprise on the way. Servers are real, on loopback."""

import asyncio
import errno
import gzip
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate.outward.client import MOST_READ, NoReply, NotAllowed, OutwardClient, Reply, Resolver
from tests.outward.receiver import answering, connections, listening, request_of
from tests.outward.test_address import FORBIDDEN, UNREADABLE

HERE = "127.0.0.0/8"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
NAMES = {
    "localhost": ["127.0.0.1", "::1"],
    "metadata.google.internal": ["169.254.169.254"],
    "intranet.example": ["10.0.0.7"],
    "public-and-private.example": ["127.0.0.9", "192.168.1.1"],
    "private-in-six.example": ["127.0.0.9", "::ffff:10.0.0.1"],
    "private.example": ["10.0.3.7"],
    "nat.example": ["64:ff9b::7f00:1"],
    "nothing.example": [],
}


async def resolve(host, port):
    return (NAMES | {"public.example": ["8.8.8.8"]})[host]


def refused(url, allow=""):
    """Why a request was not sent; fails if a connection was made for it."""
    with connections() as made, pytest.raises(NoReply) as caught:
        asyncio.run(OutwardClient(allow, resolve=resolve).send("POST", url, b"{}", {}))
    assert made == []
    return str(caught.value)


@pytest.mark.parametrize("text", FORBIDDEN)
def test_no_packet_goes_to_a_forbidden_address(text):
    """Spec: B6, RELIABILITY T23"""
    host = f"[{text.replace('%', '%25')}]" if ":" in text else text
    assert refused(f"http://{host}/")


@pytest.mark.parametrize("url", UNREADABLE)
def test_no_packet_goes_where_a_url_is_unclear(url):
    """Spec: B6, RELIABILITY T23"""
    assert refused(url, allow="0.0.0.0/0, ::/0")


@pytest.mark.parametrize("host", NAMES)
def test_a_name_is_refused_when_one_of_its_addresses_is(host):
    """Spec: B6, RELIABILITY T23"""
    assert refused(f"http://{host}/", allow="127.0.0.9/32")


def test_where_a_name_leads_is_for_the_operators_log_alone():
    """Spec: B6, RELIABILITY T23"""
    with pytest.raises(NotAllowed) as caught:
        asyncio.run(OutwardClient(resolve=resolve).send("POST", "http://private.example/", b"{}", {}))
    assert str(caught.value) == "private.example leads to an address that is not allowed (HEADGATE_CALLBACK_ALLOW)"
    assert caught.value.reason.startswith("10.0.3.7 is a private network")


def test_a_port_that_nobody_allowed_is_told_for_a_name_too():
    """Spec: B6"""
    assert "port 6379" in refused("http://public.example:6379/")


def test_a_name_that_cannot_be_reached_does_not_say_where_it_leads():
    """Spec: B6, RELIABILITY T23"""

    async def story():
        async def here(host, port):
            return ["127.0.0.1"]

        async with listening(answering(OK)) as port:
            pass
        with pytest.raises(NoReply) as caught:
            await OutwardClient(HERE, resolve=here).send("POST", f"http://inside.example:{port}/", b"", {})
        assert str(caught.value) == f"inside.example:{port}: {os.strerror(errno.ECONNREFUSED)}"

    asyncio.run(story())


def test_a_port_that_nobody_allowed_is_refused():
    """Spec: B6"""
    assert "port 6379" in refused("http://8.8.8.8:6379/")


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {"x-a": "b\r\nHost: evil"}),
        ("POST", {"x-a": "b\nc"}),
        ("POST", {"x-a\r\nHost": "evil"}),
        ("POST", {"x a": "b"}),
        ("POST", {"x-a": "\x00"}),
        ("POST", {"Host": "evil"}),
        ("POST", {"Content-Length": "0"}),
        ("POST", {"Transfer-Encoding": "chunked"}),
        ("POST / HTTP/1.1\r\nHost: evil\r\n\r\nGET", {}),
        ("CONNECT", {}),
    ],
)
def test_nothing_can_be_slipped_in_between_the_headers(method, headers):
    """Spec: B6, RELIABILITY T23"""
    with connections() as made, pytest.raises(NoReply):
        asyncio.run(OutwardClient(HERE).send(method, "http://127.0.0.1:1/", b"{}", headers))
    assert made == []


def test_a_request_arrives_as_it_was_meant():
    """Spec: B6"""

    async def story():
        got = []

        async def serve(reader, writer):
            got.append(await request_of(reader))
            writer.write(b"HTTP/1.1 202 Fine\r\nX-One: 1\r\nx-one: 2\r\n\r\nthanks")

        async with listening(serve) as port:
            sent = OutwardClient(HERE).send(
                "PUT", f"http://127.0.0.1:{port}/a?b=c#d", b'{"x": 1}', {"Content-Type": "application/json"}
            )
            assert await sent == Reply(202, {"x-one": "1, 2"}, b"thanks")
        (line, headers, body), *others = got
        assert others == []
        assert (line, body) == ("PUT /a?b=c HTTP/1.1", b'{"x": 1}')
        assert headers == {
            "host": f"127.0.0.1:{port}", "user-agent": "headgate", "accept": "*/*", "content-type": "application/json",
            "accept-encoding": "identity", "connection": "close", "content-length": "8",
        }  # fmt: skip

    asyncio.run(story())


def test_a_name_is_asked_for_once_and_the_connection_goes_to_what_was_judged():
    """A second question could be answered differently. Spec: B6, RELIABILITY T23"""

    async def story():
        answers = [["127.0.0.2"], ["127.0.0.1"]]
        lookups = []

        async def rebinding(host, port):
            lookups.append(host)
            return answers[len(lookups) - 1]

        async with listening(answering(OK), "0.0.0.0") as port:
            outward = OutwardClient("127.0.0.2/32", resolve=rebinding)  # which stands in for a public address
            with connections() as made:
                assert (await outward.send("POST", f"http://example.org:{port}/", b"", {})).status == 200
            assert (lookups, made) == (["example.org"], [("127.0.0.2", port)])
            with (
                connections() as made,
                pytest.raises(NoReply, match=r"example\.org leads to an address"),
            ):
                await outward.send("POST", f"http://example.org:{port}/", b"", {})
            assert (len(lookups), made) == (2, [])

    asyncio.run(story())


def test_the_next_address_is_tried_when_one_does_not_answer():
    """Spec: B6"""

    async def story():
        async def both(host, port):
            return ["127.0.0.3", "127.0.0.2"]

        async with listening(answering(OK), "127.0.0.2") as port:
            reply = await OutwardClient(HERE, resolve=both).send("POST", f"http://example.org:{port}/", b"", {})
            assert reply.status == 200

    asyncio.run(story())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status):
    """Spec: B6, RELIABILITY T23"""

    async def story():
        async with listening(answering(OK)) as inside:
            where = f"http://127.0.0.1:{inside}/"
            answer = f"HTTP/1.1 {status} There\r\nlocation: {where}\r\ncontent-length: 0\r\n\r\n".encode()
            async with listening(answering(answer)) as port:
                with connections() as made:
                    reply = await OutwardClient(HERE).send("POST", f"http://127.0.0.1:{port}/", b"", {})
                assert (reply.status, reply.headers["location"]) == (status, where)
                assert made == [("127.0.0.1", port)]

    asyncio.run(story())


def test_of_an_endless_body_no_more_than_64_kib_is_read():
    """Spec: B6, RELIABILITY T23"""

    async def story():
        async def serve(reader, writer):
            await request_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()

        async with listening(serve) as port:
            reply = await OutwardClient(HERE).send("POST", f"http://127.0.0.1:{port}/", b"", {})
            assert reply.status == 200
            assert 0 < len(reply.body) < MOST_READ

    asyncio.run(story())


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["headers", "hints"])
def test_endless_headers_are_no_answer(head):
    """Spec: B6, RELIABILITY T23"""

    async def story():
        async def serve(reader, writer):
            await request_of(reader)
            while True:
                writer.write(head)
                head_again = head if head.endswith(b"\r\n\r\n") else b"x-a: b\r\n"
                writer.write(head_again * 1000)
                await writer.drain()

        async with listening(serve) as port:
            with pytest.raises(NoReply):
                await OutwardClient(HERE).send("POST", f"http://127.0.0.1:{port}/", b"", {})

    asyncio.run(story())


def test_a_bomb_is_not_unpacked():
    """Spec: B6, RELIABILITY T23"""

    async def story():
        bomb = gzip.compress(bytes(10_000_000))
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(bomb)}\r\n\r\n".encode()
        async with listening(answering(head + bomb)) as port:
            reply = await OutwardClient(HERE).send("POST", f"http://127.0.0.1:{port}/", b"", {})
            assert reply.body == bomb

    asyncio.run(story())


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"], ids=["head", "body"])
def test_an_answer_that_drips_is_not_waited_for(drip):
    """Spec: B6, RELIABILITY T23"""

    async def story():
        gone = asyncio.Event()

        async def serve(reader, writer):
            await request_of(reader)
            writer.write(drip)
            hung_up = asyncio.ensure_future(reader.read(1))
            while not hung_up.done():  # a byte now and then, so that nothing is ever silent for long
                writer.write(b"H")
                await asyncio.wait([hung_up], timeout=0.005)
            gone.set()

        async with listening(serve) as port:
            with pytest.raises(NoReply, match=r"no whole answer within 0\.05 s"):
                await OutwardClient(HERE, seconds=0.05).send("POST", f"http://127.0.0.1:{port}/", b"", {})
            await gone.wait()

    asyncio.run(story())


def test_the_limits_of_time_are_those_promised():
    """Spec: B6"""
    outward = OutwardClient()
    assert (outward._connect_seconds, outward._seconds, MOST_READ) == (5, 15, 65536)


@pytest.mark.parametrize("answer", [b"", b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"])
def test_half_an_answer_is_none(answer):
    """Spec: B6"""

    async def story():
        async with listening(answering(answer)) as port:
            with pytest.raises(NoReply):
                await OutwardClient(HERE).send("POST", f"http://127.0.0.1:{port}/", b"", {})

    asyncio.run(story())


def test_what_is_no_http_is_named_and_not_repeated():
    """Spec: X12"""

    async def story():
        async with listening(answering(b"SSH-2.0-OpenSSH_9.2 secret\r\n\r\n")) as port:
            with pytest.raises(NoReply) as refused:
                await OutwardClient(HERE).send("POST", f"http://127.0.0.1:{port}/", b"", {})
        assert str(refused.value) == "the answer is no HTTP/1.1"

    asyncio.run(story())


def test_a_name_without_an_address_and_a_port_without_a_listener_are_told():
    """Spec: B6"""

    async def story():
        async def fail(host, port):
            raise OSError("no such name")

        with pytest.raises(NoReply, match=r"nowhere\.example has no address: no such name"):
            await OutwardClient(resolve=fail).send("POST", "http://nowhere.example/", b"", {})
        async with listening(answering(OK)) as port:
            pass
        with pytest.raises(NoReply, match="Connect call failed"):
            await OutwardClient(HERE).send("POST", f"http://127.0.0.1:{port}/", b"", {})

    asyncio.run(story())


def test_proxies_of_the_environment_are_not_asked(monkeypatch):
    """Spec: B6"""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def story():
        async with listening(answering(OK)) as port:
            with connections() as made:
                await OutwardClient(HERE).send("POST", f"http://127.0.0.1:{port}/", b"", {})
            assert made == [("127.0.0.1", port)]

    asyncio.run(story())


def test_the_system_resolver_is_asked_aside_and_hangs_nobody():
    """Spec: B6"""

    async def story():
        lookups = Resolver(most=1)
        assert "127.0.0.1" in await lookups("localhost", 80)
        with pytest.raises(OSError):
            await lookups("a" * 64 + ".example", 80)
        assert "127.0.0.1" in await lookups("localhost", 80)

    asyncio.run(story())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for example.org that nobody else trusts; certificate and key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example.org")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("example.org")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "example.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


def test_tls_is_for_the_name_and_the_certificate_is_verified(certificate: Path):
    """Spec: B6"""

    async def loopback(host, port):
        return ["127.0.0.1"]

    async def story():
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(certificate)
        trusting = OutwardClient(HERE, resolve=loopback, trust=ssl.create_default_context(cafile=certificate))
        async with listening(answering(OK), tls=server) as port:
            reply = await trusting.send("POST", f"https://example.org:{port}/", b"{}", {})
            assert reply.status == 200
            with pytest.raises(NoReply, match="certificate is not trusted: Hostname mismatch"):
                await trusting.send("POST", f"https://other.example:{port}/", b"{}", {})
            with pytest.raises(NoReply, match="certificate is not trusted: self-signed"):
                await OutwardClient(HERE, resolve=loopback).send("POST", f"https://example.org:{port}/", b"{}", {})

    asyncio.run(story())
