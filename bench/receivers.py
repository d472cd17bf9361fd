"""`python -m bench.receivers COUNT HANGING`: receivers on ports of their own, of which the last few never answer.

Prints their ports; when its input ends, of each callback when its task ended and how many seconds later it arrived.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Awaitable, Callable

ANSWER = b"HTTP/1.1 204 Thanks\r\nconnection: close\r\n\r\n"


class Receivers:
    def __init__(self, count: int, hanging: int) -> None:
        self._count = count
        self._hanging = hanging
        self.got: list[list[tuple[float, float]]] = [[] for _ in range(count)]

    async def open(self) -> list[int]:
        servers = [await asyncio.start_server(self._serving(number), "127.0.0.1", 0) for number in range(self._count)]
        return [server.sockets[0].getsockname()[1] for server in servers]

    def _serving(self, number: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        hangs = number >= self._count - self._hanging

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                ended_at = json.loads(await reader.readexactly(length))["result"]
                self.got[number].append((ended_at, time.monotonic() - ended_at))
                if hangs:
                    await reader.read()
                else:
                    writer.write(ANSWER)
                    await writer.drain()
            writer.close()

        return serve


async def main(count: int, hanging: int) -> None:
    receivers = Receivers(count, hanging)
    print(json.dumps(await receivers.open()), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps(receivers.got))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
