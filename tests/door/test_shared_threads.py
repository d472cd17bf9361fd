"""Threads that tenants share: a backlog of theirs keeps no call waiting that is nobody's."""

import asyncio
import time

from headgate.api.door.principal import Principal
from headgate.api.door.shared_threads import SharedThreads
from headgate.api.door.shares import Shares
from headgate.api.door.visit import Visit, current_visit
from headgate.core.keys import Role
from headgate.settings import Settings
from headgate.threads import Threads

PATIENCE = 120.0
TENANTS = 2


async def nothing_comes():
    await asyncio.Event().wait()


def test_tenants_that_fill_all_threads_keep_no_call_without_a_share_waiting():
    """Spec: X12"""

    async def story():
        threads = Threads("test", TENANTS)
        shared, stop, flooded = SharedThreads(threads), asyncio.Event(), asyncio.Event()
        shares = Shares(Settings(key_share="threads=1", tenant_share="threads=1"), 100)

        async def flood(tenant):
            who = Principal(f"key {tenant}", tenant, Role.READ, key_id=tenant)
            current_visit.set(Visit(shares, who, nothing_comes, {}))
            while not stop.is_set():
                await shared(time.sleep, 0.002)  # long enough for the others to come back and wait
                flooded.set()

        floods = [asyncio.create_task(flood(1 + number % TENANTS)) for number in range(10 * TENANTS)]
        try:
            await flooded.wait()
            async with asyncio.timeout(PATIENCE):
                assert await shared(lambda: "answered") == "answered"
        finally:
            stop.set()
            await asyncio.gather(*floods)
            threads.close()

    asyncio.run(story())
