"""Bodies that are read before it is known who sends them: a signature covers its body."""

from collections import Counter

from starlette.types import Message, Receive

from headgate.api.problems import Rejected
from headgate.api.routing import read_body

MIB = 1024 * 1024
MOST_BYTES = 16 * MIB  # of all of them together
MOST_BYTES_OF_ONE = 4 * MIB  # from one network


class UnverifiedBodies:
    """Reads bodies, and refuses with 503 what would take more memory than there is for all of them."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    async def read(self, receive: Receive, network: str) -> bytes:
        """A body, which counts until it is whole."""
        held = 0

        async def counted() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            self._held[network] += size
            held += size
            if self._held[network] > MOST_BYTES_OF_ONE or self._held.total() > MOST_BYTES:
                raise Rejected(503, "too many signed requests are being read; try again later")
            return message

        try:
            return await read_body(counted)
        finally:
            self._held[network] -= held
            if not self._held[network]:
                del self._held[network]
