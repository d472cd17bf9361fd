"""Callbacks that are not sent for now: the policy blocks their receiver, or it rests. Receivers are on loopback."""

import asyncio
import logging

import pytest

from headgate.core.callbacks import BLOCKED_SECONDS, MAX_ATTEMPTS, SENDER_SILENT_SECONDS, Delivery
from headgate.core.machine import Raised
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.duties import Callbacks, UnsentCallbacks
from headgate.outward.client import OutwardClient
from headgate.settings import Settings
from headgate.store.callbacks.report import DeliveryFilter
from headgate.threads import inline
from tests.duties.test_callbacks import SETTINGS, over, sender, succeed, tell
from tests.duties.turns import changed
from tests.factories import running, settle
from tests.outward.receiver import Receiver, receiving

STRICT = Settings(callback_concurrency=4)  # allows public addresses alone


class Ticks:
    """The clock of duties, which moves with the store's."""

    def __init__(self, clock):
        self.clock, self.now = clock, 1000.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds
        self.clock.advance(seconds)


@pytest.fixture
def ticks(clock):
    return Ticks(clock)


def unheard():
    """A receiver that nothing is ever sent to."""
    receiver = Receiver()
    receiver.port = 9
    return receiver


def with_status(store, status):
    return [sent.task_id for sent in store.deliveries.find(DeliveryFilter(status=status)).items]


def callback_gate(store, task_id):
    return next(gate for gate in store.forecasts.why(task_id).gates if gate.name == "callback")


def test_what_the_policy_refuses_is_blocked_and_uses_up_no_attempts(store, ticks):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver)
            ids = succeed(store, "told", 3)
            duty = sender(store, STRICT, monotonic=ticks)
            for _ in range(2 * MAX_ATTEMPTS):
                await over(duty)
                ticks.advance(BLOCKED_SECONDS)
            await over(duty)
        assert receiver.got == []
        assert sorted(with_status(store, Delivery.BLOCKED)) == sorted(ids)
        assert with_status(store, Delivery.PENDING) == []
        for task_id in ids:
            [sent] = store.deliveries.of_task(task_id)
            assert (sent.status, sent.attempts, sent.tries, sent.host) == ("blocked", 0, [], receiver.host)
            assert "127.0.0.1 is this machine, which HEADGATE_CALLBACK_ALLOW does not list" in sent.last_error
        counts = store.deliveries.deliverables()
        assert (counts.pending, counts.blocked, counts.blocked_hosts) == (3, 3, (receiver.host,))

    asyncio.run(story())


def test_a_blocked_receiver_is_looked_at_once_a_minute_whatever_is_owed_to_it(store, ticks):
    """Spec: B6"""

    looks: list[str] = []

    class Counting(OutwardClient):
        async def allowed_addresses(self, target):
            looks.append(target.host)
            return await super().allowed_addresses(target)

    async def story():
        receiver = unheard()
        tell(store, "told", receiver)
        tell(store, "also", receiver)
        succeed(store, "told", 20)
        succeed(store, "also", 20)
        duty = changed(Callbacks(store, STRICT, inline, client=Counting()), monotonic=ticks)
        await over(duty)
        begun = len(looks)
        assert begun <= STRICT.callback_concurrency
        ticks.advance(BLOCKED_SECONDS - 1)
        await over(duty)
        assert len(looks) == begun
        ticks.advance(1)
        await over(duty)
        assert len(looks) == begun + 1

    asyncio.run(story())


def test_what_was_blocked_goes_out_by_itself_once_the_setting_allows_it(store, ticks):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver)
            ids = succeed(store, "told", 3)
            await over(sender(store, STRICT, monotonic=ticks))
            assert len(with_status(store, Delivery.BLOCKED)) == 3
            ticks.advance(BLOCKED_SECONDS)
            await over(sender(store, SETTINGS, monotonic=ticks))
        assert len(receiver.got) == 3
        assert {store.tasks.get(task_id).status for task_id in ids} == {State.SUCCEEDED}
        later = succeed(store, "told")
        assert with_status(store, Delivery.PENDING) == later  # and nothing is said to be blocked any more
        assert store.deliveries.deliverables().blocked == 0

    asyncio.run(story())


def test_another_address_of_the_type_ends_the_block(store, ticks):
    """Spec: B5, B6"""

    async def story():
        allowed = Receiver()
        async with receiving(allowed):
            store.types.put(TaskType("told", callback={"success": {"url": "http://10.0.0.5:9000/x"}}))
            [task_id] = succeed(store, "told")
            duty = sender(store, monotonic=ticks)
            await over(duty)
            assert with_status(store, Delivery.BLOCKED) == [task_id]
            tell(store, "told", allowed)
            ticks.advance(BLOCKED_SECONDS)
            await over(duty)
            assert len(allowed.got) == 1
        assert [queue.hold for queue in store.deliveries.lines()] == []
        succeed(store, "told")
        assert [queue.hold for queue in store.deliveries.lines()] == [None]

    asyncio.run(story())


def test_the_log_says_once_which_task_type_and_setting_a_blocked_receiver_is_about(store, ticks, caplog):
    """Spec: B6"""

    async def story():
        receiver = unheard()
        tell(store, "told", receiver)
        tell(store, "also", receiver)
        ids = succeed(store, "told", 5)
        duty = sender(store, STRICT, monotonic=ticks)
        for _ in range(3):
            await over(duty)
            ticks.advance(BLOCKED_SECONDS)
        [line] = [record.getMessage() for record in caplog.records if "blocked" in record.getMessage()]
        assert "type=told" in line
        assert f"receiver={receiver.host}" in line
        assert "HEADGATE_CALLBACK_ALLOW" in line
        assert any(f"task={task_id} " in line for task_id in ids)

    with caplog.at_level(logging.WARNING, "headgate.callbacks"):
        asyncio.run(story())


def test_why_names_the_receiver_and_the_setting_of_a_blocked_callback_of_success_and_of_error(store, ticks):
    """Spec: B6, A8"""

    async def story():
        receiver = unheard()
        tell(store, "told", receiver, error=receiver)
        [succeeded] = succeed(store, "told")
        failed = running(store, "told")
        settle(store, failed, Raised("no luck"))
        await over(sender(store, STRICT, monotonic=ticks))
        for task_id in (succeeded, failed.id):
            gate = callback_gate(store, task_id)
            assert (gate.open, gate.code) == (False, "callback-blocked")
            assert gate.params == {"host": receiver.host, "setting": "HEADGATE_CALLBACK_ALLOW"}

    asyncio.run(story())


def test_a_receiver_that_rests_says_until_when_and_no_longer_once_it_answers(store, ticks):
    """Spec: B6"""

    async def story():
        receiver = Receiver(*[500] * 8)
        async with receiving(receiver):
            tell(store, "told", receiver)
            ids = succeed(store, "told", 12)
            duty = sender(store, monotonic=ticks)
            await over(duty)
            rests = {store.deliveries.of_task(task_id)[0].receiver_rests_until for task_id in ids}
            [until] = rests
            assert 0 < (until - ticks.clock()).total_seconds() <= 5
            gate = callback_gate(store, ids[-1])  # which was never sent
            assert (gate.code, gate.params["host"]) == ("callback-rests", receiver.host)
            assert gate.until >= until
            ticks.advance(60)
            await over(duty)
        assert {queue.hold for queue in store.deliveries.lines()} <= {None}
        assert all(store.deliveries.of_task(task_id)[0].receiver_rests_until is None for task_id in ids)

    asyncio.run(story())


def test_whoever_sends_says_so_and_nobody_else_is_taken_to(store, ticks, caplog):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver)
            watch = UnsentCallbacks(store, SETTINGS, inline)
            assert not store.deliveries.unsent()  # nothing is owed
            [task_id] = succeed(store, "told")
            assert store.deliveries.unsent()
            assert callback_gate(store, task_id).code == "callback-unsent"
            for _ in range(3):
                await watch.turn()
            assert caplog.text.count("no process sends them") == 1
            duty = sender(store, monotonic=ticks)
            await duty.turn()
            assert not store.deliveries.unsent()
            await over(duty)
            ticks.advance(SENDER_SILENT_SECONDS / 2)
            await duty.turn()
            ticks.advance(SENDER_SILENT_SECONDS / 2 + 1)
            succeed(store, "told")
            assert not store.deliveries.unsent()
            await watch.turn()
            ticks.advance(SENDER_SILENT_SECONDS)
            assert store.deliveries.unsent()
            await watch.turn()
            assert caplog.text.count("no process sends them") == 2

    with caplog.at_level(logging.WARNING, "headgate.callbacks"):
        asyncio.run(story())
