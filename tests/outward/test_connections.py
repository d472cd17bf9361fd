"""A connection that was made is used again, for as long as that is safe and no longer."""

import asyncio

import pytest

from headgate.outward.client import MOST_READ, NoReply, OutwardClient
from headgate.outward.connections import ConnectionPool
from tests.outward.receiver import connections, listening, request_of

HERE = "127.0.0.0/8"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Runs a story on this loop; uvloop tells nobody of the connections it makes."""
    loop_factory = pytest.importorskip(request.param).new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        yield runner.run


class Server:
    """Answers one request after the other on each connection: with `answers` in turn, None ends it without a word."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.got: list[bytes] = []
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                _, _, body = await request_of(reader)
                self.got.append(body)
                answer = self.answers.pop(0) if self.answers else OK
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
        finally:
            self.left.set()


async def sent(outward: OutwardClient, port: int, body: bytes = b"{}", host: str = "127.0.0.1") -> int:
    return (await outward.send("POST", f"http://{host}:{port}/told", body, {})).status


def test_requests_to_one_place_share_a_connection_and_those_to_another_do_not():
    """Spec: A11"""

    async def story():
        server, pool = Server(), ConnectionPool()
        outward = OutwardClient(HERE, pool=pool)
        async with listening(server.serve, "0.0.0.0") as port:
            with connections() as made:
                assert [await sent(outward, port, body) for body in (b"1", b"2", b"3")] == [200] * 3
                assert await sent(outward, port, b"4", "127.0.0.2") == 200
            assert made == [("127.0.0.1", port), ("127.0.0.2", port)]
            assert server.got == [b"1", b"2", b"3", b"4"]
            assert len(pool) == 2
            pool.close()

    asyncio.run(story())


def test_requests_at_once_have_a_connection_each():
    """Spec: A11"""

    async def story():
        pool = ConnectionPool()
        async with listening(Server().serve) as port:
            with connections() as made:
                outward = OutwardClient(HERE, pool=pool)
                for _ in range(2):
                    assert await asyncio.gather(*(sent(outward, port) for _ in range(3))) == [200] * 3
            assert len(made) == 3
            pool.close()

    asyncio.run(story())


def test_a_request_that_met_a_closed_connection_goes_by_a_new_one():
    """Spec: A11. The server lets go of the connection when the second request is on its way."""

    async def story():
        server, pool = Server(OK, None), ConnectionPool()
        async with listening(server.serve) as port:
            outward = OutwardClient(HERE, pool=pool)
            with connections() as made:
                assert [await sent(outward, port, body) for body in (b"1", b"2")] == [200, 200]
            assert len(made) == 2
            assert server.got == [b"1", b"2", b"2"]
            pool.close()

    asyncio.run(story())


def test_a_request_on_a_new_connection_is_not_repeated(run):
    """Spec: A11, B6"""

    async def story():
        server = Server(None)
        async with listening(server.serve) as port:
            with pytest.raises(NoReply):
                await sent(OutwardClient(HERE, pool=ConnectionPool()), port, b"1")
            assert server.got == [b"1"]

    run(story())


def test_a_request_that_was_half_answered_is_not_repeated(run):
    """Spec: A11, B6"""

    async def story():
        got, pool = [], ConnectionPool()

        async def serve(reader, writer):
            for answer in (OK, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"):
                got.append((await request_of(reader))[2])
                writer.write(answer)

        async with listening(serve) as port:
            outward = OutwardClient(HERE, pool=pool)
            assert await sent(outward, port, b"1") == 200
            with pytest.raises(NoReply):
                await sent(outward, port, b"2")
            assert (got, len(pool)) == ([b"1", b"2"], 0)

    run(story())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % MOST_READ + b"x" * MOST_READ,
    ],
    ids=["its last", "old", "and more", "endless"],
)
def test_a_connection_that_is_not_fit_for_another_request_is_closed(answer, run):
    """Spec: A11"""

    async def story():
        server, pool = Server(answer), ConnectionPool()
        async with listening(server.serve) as port:
            assert await sent(OutwardClient(HERE, pool=pool), port) == 200
            assert len(pool) == 0
            await server.left.wait()

    run(story())


def test_a_connection_that_nobody_needs_is_closed_soon(run):
    """Spec: A11"""

    async def story():
        server, pool = Server(), ConnectionPool(idle_seconds=0.01)
        async with listening(server.serve) as port:
            assert await sent(OutwardClient(HERE, pool=pool), port) == 200
            await server.left.wait()
            assert len(pool) == 0

    run(story())


def test_a_connection_on_which_something_is_said_unasked_is_closed(run):
    """Spec: A11. It would be taken for the answer to the next request."""

    async def story():
        pool, received, left = ConnectionPool(), asyncio.Event(), asyncio.Event()

        async def serve(reader, writer):
            await request_of(reader)
            writer.write(OK)
            await received.wait()
            writer.write(OK)
            await reader.read()
            left.set()

        async with listening(serve) as port:
            assert await sent(OutwardClient(HERE, pool=pool), port) == 200
            assert len(pool) == 1
            received.set()
            await left.wait()
            assert len(pool) == 0

    run(story())


@pytest.mark.parametrize("turns", [0, 1], ids=["before its watch", "under its watch"])
@pytest.mark.parametrize("word", [b"HTTP/1.1 408 Late\r\ncontent-length: 0\r\n\r\n", None], ids=["a word", "the end"])
def test_what_comes_just_when_a_connection_is_taken_is_not_the_next_answer(turns, word, run):
    """Spec: A11. Every later answer would be that to the request before."""

    async def story():
        writers, got, pool = [], [], ConnectionPool()

        async def serve(reader, writer):
            writers.append(writer)
            while True:
                got.append((await request_of(reader))[2])
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n" + got[-1])

        async def answer(body):
            return (await outward.send("POST", f"http://127.0.0.1:{port}/told", body, {})).body

        async with listening(serve) as port:
            outward = OutwardClient(HERE, pool=pool)
            assert await answer(b"1") == b"1"
            for _ in range(turns):
                await asyncio.sleep(0)
            if word:
                writers[0].write(word)  # which is with the other side at once
            else:
                writers[0].write_eof()
            assert [await answer(body) for body in (b"2", b"3")] == [b"2", b"3"]
            assert (len(writers), got) == (2, [b"1", b"2", b"3"])
            pool.close()

    run(story())


def test_so_many_are_kept_and_no_more(run):
    """Spec: A11"""

    async def story():
        first, second, pool = Server(), Server(), ConnectionPool(most=1)
        outward = OutwardClient(HERE, pool=pool)
        async with listening(first.serve) as one, listening(second.serve) as other:
            assert [await sent(outward, port) for port in (one, other)] == [200, 200]
            await first.left.wait()
            assert len(pool) == 1
            pool.close()
            await second.left.wait()

    run(story())


def test_a_kept_connection_stays_with_the_address_that_was_judged_and_does_not_last():
    """Spec: A11, B6, RELIABILITY T23"""

    async def story():
        answers = [["127.0.0.2"], ["127.0.0.1"], ["127.0.0.1"]]
        pool = ConnectionPool()

        async def rebinding(host, port):
            return answers.pop(0)

        async with listening(Server().serve, "0.0.0.0") as port:
            outward = OutwardClient(
                "127.0.0.2/32", pool=pool, resolve=rebinding
            )  # which stands in for a public address
            with connections() as made:
                assert [await sent(outward, port, host="example.org") for _ in range(2)] == [200, 200]
            assert made == [("127.0.0.2", port)]
            [connection] = pool._idle
            connection._until = 0.0  # it has lasted for long enough
            with (
                connections() as made,
                pytest.raises(NoReply, match=r"example\.org leads to an address"),
            ):
                await sent(outward, port, host="example.org")
            assert made == []

    asyncio.run(story())
