"""Blocking work beside the event loop."""

import asyncio
import threading
from contextlib import closing
from contextvars import ContextVar

import pytest

from headgate.threads import Threads

SOON = 120.0
colour: ContextVar[str] = ContextVar("colour")


def run(scene):
    return asyncio.run(asyncio.wait_for(scene, SOON))


def test_work_runs_in_a_named_thread_with_its_arguments_and_the_callers_context():

    def work(first, *, second):
        return first, second, colour.get(), threading.current_thread().name

    async def scene():
        with closing(Threads("headgate test", 2)) as in_thread:
            colour.set("blue")
            return await in_thread(work, 1, second=2)

    first, second, seen, name = run(scene())
    assert (first, second, seen) == (1, 2, "blue")
    assert name.startswith("headgate test")


def test_what_work_raises_is_the_callers():

    def fail():
        raise LookupError("not there")

    async def scene():
        with closing(Threads("headgate test", 1)) as in_thread:
            await in_thread(fail)

    with pytest.raises(LookupError, match="not there"):
        run(scene())


def test_so_many_threads_work_at_once_and_no_more():
    meeting = threading.Barrier(2)

    async def scene():
        with closing(Threads("headgate test", 2)) as in_thread:
            await asyncio.gather(*(in_thread(meeting.wait, SOON) for _ in range(4)))
            return {thread.name for thread in threading.enumerate() if thread.name.startswith("headgate test")}

    assert len(run(scene())) == 2


def test_a_close_that_does_not_wait_drops_what_has_not_begun():
    going, begun = threading.Event(), threading.Event()
    ran: list[int] = []

    def hang():
        begun.set()
        going.wait(SOON)
        return "done"

    async def scene():
        in_thread = Threads("headgate test", 1)
        first, second = asyncio.create_task(in_thread(hang)), asyncio.create_task(in_thread(ran.append, 1))
        await asyncio.to_thread(begun.wait, SOON)
        in_thread.close(wait=False)
        going.set()
        ends = await asyncio.gather(first, second, return_exceptions=True)
        return ends

    first, second = run(scene())
    assert first == "done"
    assert isinstance(second, asyncio.CancelledError)
    assert ran == []
