"""All duties at once, by the real clock, with the store's work in threads: what should happen does, and they stop."""

import asyncio
from functools import partial

import pytest

from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.duties import all_duties
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import open_store
from tests.factories import TYPES, running, settle, submit

S = State
SOON = 120.0


@pytest.fixture
def store(url):
    with open_store(url) as opened:
        for task_type in TYPES:
            opened.types.put(task_type)
        yield opened


async def becomes(store, task_id, status, meanwhile=lambda: None):
    """Wait until the task is that; `meanwhile` is called before each look."""
    async with asyncio.timeout(SOON):
        while (await asyncio.to_thread(store.tasks.get, task_id)).status is not status:
            await asyncio.sleep(0.01)
            await asyncio.to_thread(meanwhile)


def test_a_process_with_every_duty_brings_rescues_ends_and_stops(store):
    """Spec: A2, A6, B3"""
    settings = Settings(lease_seconds=0.5, beat_seconds=0.2, reap_seconds=0.1)

    async def scene():
        duties = all_duties(store, settings, asyncio.to_thread)
        for duty in duties:
            duty.start()
        try:
            delayed = submit(store, delay_seconds=0.2)
            await becomes(store, delayed.id, S.QUEUED)
            [held] = store.claims.take(ClaimRequest(store.workers.register("gone", lease_seconds=0.5), 1)).executions
            await becomes(store, held.id, S.QUEUED)
            assert store.tasks.get(held.id).lost_count == 1
            assert settle(store, held, Returned()) is None
            store.tasks.cancel(held.id)
            overdue = running(store, timeout_seconds=0.1)
            holder = store.tasks.get(overdue.id).worker_id
            await becomes(store, overdue.id, S.FAILED, partial(store.workers.beat, holder))
        finally:
            async with asyncio.timeout(SOON):
                await asyncio.gather(*(duty.stop() for duty in duties))

    asyncio.run(scene())
