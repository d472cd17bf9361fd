"""What a pool does with deliveries of the broker that it cannot start."""

import asyncio
from typing import Any

import pytest

from headgate.core.errors import Unavailable, WorkerLost
from headgate.events.end_lines import EndLines
from headgate.worker.deliveries import Deliveries, Delivery
from headgate.worker.pool import Pool
from headgate.worker.waits import Waits


@pytest.mark.parametrize("error", [Unavailable("the store is away"), WorkerLost("it was declared lost")])
def test_what_could_not_be_started_before_the_worker_stops_goes_back_to_the_broker(app, error):
    """Spec: D2, D9"""
    answers: list[bool] = []

    async def deliver():
        with_store, stopped = asyncio.Event(), asyncio.Event()

        async def in_thread(work: Any, /, *arguments: Any, **named: Any) -> Any:
            with_store.set()
            await stopped.wait()
            raise error

        pool = Pool(app.store, in_thread, ["plain"], 2, launch, 60.0, lambda: None, EndLines(), Waits())
        pool.begin_claiming(1)
        pool.feed_by_broker(True)
        serving = asyncio.create_task(pool.serve())
        assert pool.offer(Delivery(1, "an exec_id", answers.append))
        await with_store.wait()
        assert pool.offer(Delivery(2, "another", answers.append))
        assert not pool.has_free_slot
        pool.stop_claiming()
        assert answers == [False], "what is not with the store goes back at once"
        stopped.set()
        await pool.wait_until_empty()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    def launch(execution):
        raise AssertionError("nothing has started")

    asyncio.run(deliver())
    assert answers == [False, False]


def test_a_delivery_has_its_slot_until_it_was_answered():
    """Spec: D2"""
    answers: list[bool] = []
    deliveries = Deliveries()
    deliveries.open()
    deliveries.add(Delivery(1, "an exec_id", answers.append))
    taken = deliveries.take()
    assert (len(deliveries), deliveries.waiting) == (1, False)
    deliveries.put_back(taken)
    assert (len(deliveries), deliveries.waiting, answers) == (1, True, [])
    deliveries.close()
    assert (len(deliveries), answers) == (0, [False])
