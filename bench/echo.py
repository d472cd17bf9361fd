"""A server as `headgate serve` starts it, and one route more, a bare echo; prints its port: python -m bench.echo URL"""

import asyncio
import sys
from typing import Any

import uvloop

from headgate.api.door.principal import Role
from headgate.api.routing import Routes
from headgate.cli.running import tune_garbage_collector
from headgate.cli.serving import Api, listen_on
from headgate.settings import load
from headgate.store.store import open_store

routes = Routes("bench")


@routes.post("/bench/echo", Role.READ)
async def echo(data: dict[str, Any]) -> dict[str, Any]:
    """Decode, encode."""
    return data


async def main(url: str) -> None:
    with open_store(url) as store:
        store.wakeups.listen()
        settings = load({"url": url})
        server = Api(store, settings, listen_on(settings.host, 0), routes)
        await server.start(on_end=lambda: None)
        tune_garbage_collector()
        print(server.address.rpartition(":")[2], flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
