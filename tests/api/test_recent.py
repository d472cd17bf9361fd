"""What the store said a moment ago: however many ask, it is asked once, and what changed is asked for again."""

import asyncio
import threading

import pytest

from headgate.api import recent
from headgate.api.recent import Recent, Uses
from headgate.core.errors import Unavailable


class Shelf:
    """Counts its looks, each of which waits until it is let go."""

    def __init__(self) -> None:
        self.looks: list[str] = []
        self.value = "first"
        self.failing = False
        self.open = threading.Event()
        self.open.set()
        self.begun = threading.Semaphore(0)

    def look(self, key: str) -> str:
        self.looks.append(key)
        value = self.value
        self.begun.release()
        assert self.open.wait(60)
        if self.failing:
            raise Unavailable("the store did not answer")
        return value


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_whoever_asks_meanwhile_waits_for_the_same_look(shelf):
    """Spec: B11"""

    async def story() -> None:
        known = Recent(shelf.look, asyncio.to_thread, 60.0)
        shelf.open.clear()
        asking = [asyncio.create_task(known.get("a")) for _ in range(20)]
        asking.append(asyncio.create_task(known.get("b")))
        await asyncio.to_thread(shelf.begun.acquire)
        await asyncio.to_thread(shelf.begun.acquire)
        asking.pop(0).cancel()  # who goes away takes it from nobody else
        shelf.open.set()
        assert await asyncio.gather(*asking) == ["first"] * 20
        assert await known.get("a") == "first"
        assert sorted(shelf.looks) == ["a", "b"]

    asyncio.run(story())


def test_a_look_that_began_before_a_change_is_not_kept(shelf):
    """Spec: B11"""

    async def story() -> None:
        known = Recent(shelf.look, asyncio.to_thread, 60.0)
        shelf.open.clear()
        early = asyncio.create_task(known.get("a"))
        await asyncio.to_thread(shelf.begun.acquire)
        shelf.value = "second"
        known.forget()
        shelf.open.set()
        assert await early == "first"
        assert await known.get("a") == "second"

    asyncio.run(story())


def test_what_was_never_found_is_not_looked_for_if_only_the_known_counts(shelf):
    """Spec: B11"""

    async def story() -> None:
        known = Recent(shelf.look, asyncio.to_thread, 60.0)
        assert await known.get("a", only_known=True) is None
        assert shelf.looks == []
        await known.get("a")
        known.forget()
        assert await known.get("a", only_known=True) == "first"  # it was found lately: it is asked for again
        known.drop("a")
        assert await known.get("a", only_known=True) is None
        assert shelf.looks == ["a", "a"]

    asyncio.run(story())


def test_a_look_that_failed_is_told_to_all_who_asked_and_not_kept(shelf):
    """Spec: B11"""

    async def story() -> None:
        known = Recent(shelf.look, asyncio.to_thread, 60.0)
        shelf.failing = True
        told = await asyncio.gather(known.get("a"), known.get("a"), return_exceptions=True)
        assert [type(error) for error in told] == [Unavailable] * 2
        shelf.failing = False
        assert await known.get("a") == "first"

    asyncio.run(story())


def test_a_use_is_noted_once_in_a_while_and_what_cannot_be_noted_hurts_nobody(shelf, monkeypatch, caplog):
    """Spec: B11"""

    async def story() -> None:
        uses = Uses(shelf.look, asyncio.to_thread)
        for _ in range(5):
            uses.add("a")
        await uses.close()
        assert shelf.looks == ["a"]
        monkeypatch.setattr(recent, "NOTE_SECONDS", 0.0)
        shelf.failing = True
        uses.add("b")
        await uses.close()

    asyncio.run(story())
    assert "was not recorded" in caplog.text
