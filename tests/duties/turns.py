"""Duties, turned by hand."""

import asyncio
from typing import Any, TypeVar

from headgate.service import Service

D = TypeVar("D", bound=Service)


def turn(duty: Service) -> int:
    return asyncio.run(duty.turn())


def changed(duty: D, **attributes: Any) -> D:
    """The same duty with another clock, page or period."""
    for name, value in attributes.items():
        assert hasattr(duty, name)
        setattr(duty, name, value)
    return duty


def settle_down(duty: Service) -> list[int]:
    """Turn until there is nothing to do; what each turn did."""
    done = []
    while count := turn(duty):
        done.append(count)
        assert len(done) < 100, f"{duty.name} finds no end"
    return done
