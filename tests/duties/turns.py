"""Duties, turned by hand."""

import asyncio

from headgate.service import Service


def turn(duty: Service) -> int:
    return asyncio.run(duty.turn())


def settle_down(duty: Service) -> list[int]:
    """Turn until there is nothing to do; what each turn did."""
    done = []
    while count := turn(duty):
        done.append(count)
        assert len(done) < 100, f"{duty.name} finds no end"
    return done
