"""A server as `headgate serve` starts it, and one route more, a bare echo; prints its port: python -m bench.echo URL"""

import asyncio
import sys
from typing import Any

import uvloop
from litestar import Router, post

import headgate.api.app as api
from headgate.api.principal import Role
from headgate.cli.running import tune_garbage_collector
from headgate.cli.serving import Api, listen_on
from headgate.settings import load
from headgate.store.store import open_store


@post("/echo", status_code=200, opt={"role": Role.READ})
async def echo(data: dict[str, Any]) -> dict[str, Any]:
    """Decode, encode."""
    return data


class _Room:
    routes = Router("/bench", route_handlers=[echo])


async def main(url: str) -> None:
    with open_store(url) as store:
        store.wakeups.listen()
        settings = load({"url": url})
        server = Api(store, settings, listen_on(settings.host, 0))
        await server.start(on_end=lambda: None)
        tune_garbage_collector()
        print(server.address.rpartition(":")[2], flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    api.ROUTE_MODULES = (*api.ROUTE_MODULES, _Room)  # type: ignore[assignment]
    uvloop.run(main(sys.argv[1]))
