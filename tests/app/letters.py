"""A task that needs a lane, a resource and a rate key of its own."""

from typing import Any

from headgate import Headgate


def declare(app: Headgate) -> Any:
    @app.task(lane="post", category="mail", uses=["smtp"], rate_key="host:{host}")
    def send(host: str, letters: int = 1) -> int:
        return letters

    return send
